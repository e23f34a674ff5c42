package activation

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/chain"
	"github.com/greenroom-run/greenroom/host/instance"
	"github.com/greenroom-run/greenroom/host/list"
	"github.com/greenroom-run/greenroom/host/overlay"
	"github.com/greenroom-run/greenroom/host/residency"
	"github.com/greenroom-run/greenroom/host/serving"
	"github.com/greenroom-run/greenroom/host/speculation"
	"github.com/greenroom-run/greenroom/host/tell"
	"github.com/greenroom-run/greenroom/host/timer"
	"github.com/greenroom-run/greenroom/host/turn"
)

// Shard holds some of the actors, the calls that run on them, and the order in
// which they were used.
type Shard struct {
	states  *atomic.Int64 // Table.states
	number  int           // of Table.Shards: who locks several does so in ascending order
	Mu      sync.Mutex
	Closed  bool // no call is admitted any more
	Killed  bool // running calls are stopped as they come
	Actors  map[actor.Key]*Activation
	order   list.List[*Activation] // of their use, the newest last
	Running list.List[*call.Call]
	Timers  timer.Schedule
	Outbox  tell.Outbox // of what its actors tell others
	History residency.History
	// Migrations are those that readers wait for; nil: there were none yet.
	Migrations map[actor.Key]*Migration
	copies     *simplelru.LRU[actor.Key, *StateCopy] // nil: there were none yet
	// Losses counts how often the host lost all that it held: what was in memory before
	// proves nothing after. It grows with the lock held.
	Losses atomic.Uint64
	// Work counts workers and calls in the lanes without one. It grows only
	// while the shard is open.
	Work sync.WaitGroup
}

// Activation is the presence of one actor in memory. The shard's lock guards what is not
// said to be otherwise.
type Activation struct {
	Key   actor.Key
	Shard *Shard
	call.Home
	weighed int64 // what the activation counts for in Table.states
	Busy    bool  // a worker or a commit exists; one of Shard.Work counts it
	Working bool  // a worker exists; always, while a call can be run
	usage
	Member  Member
	Drained chan struct{} // if not nil, closed when there is no batch any more
	waiting waiting
	tenure
	residency.Known
	// confirmation is the question whether what readers see is still the newest; nil if
	// none is under way.
	confirmation *confirmation
	equipment
	routine
}

// waiting are messages that an actor does not accept in its method set; at most maxWaiting.
type waiting struct {
	messages []actor.ReminderID
	set      string // in which none of them is accepted; empty: they were refused in several
}

// usage is when an activation was used.
type usage struct {
	Called   bool // since it was idle, by other than its timers
	LastUsed time.Time
	skipped  time.Time               // when it was last found to be idle and to stay
	used     list.Place[*Activation] // in Shard.order
}

// equipment is what an activation has by its deployment. The worker changes it, with the
// shard's lock; while the activation is idle, anyone who has the lock. The worker alone may
// read it without.
type equipment struct {
	dedicated   *instance.Instance // of a type with dedicated instances
	Sticky      bool
	IdleTimeout time.Duration
	announced   bool   // Activated was called
	Rev         uint64 // of Tip's state, for the next turn
}

// routine is the worker's own.
type routine struct {
	Serving *serving.Type // what the latest turn ran under
	Checked uint64        // ModuleSource.Changes when that was what serves the type
	paused  int           // for as many conflicts it has paused
	Chain   *Chain        // of the turn that runs; nil: it has called nothing
	Hooked  bool          // the hook activated has run, on the state that is in memory, in a turn that ended without an error
	awaited awaited       // by the calls that are set aside; who has no worker needs the lock
}

// awaited is under what calls of an activation are not accepted.
type awaited struct {
	set string
	by  *serving.Type
}

// tenure is what an activation knows of the host's right to run its actor. The shard's
// lock guards it.
type tenure struct {
	// Hold is what the host holds: Held until a commit of this activation has moved the
	// version past those of earlier owners. NotHeld: it was not asked for, since the
	// actor is run under a placement that gives it no place, or by a host that is alone.
	Hold actor.Hold
	// Leaving means that the actor moves: no turn begins any more but that of its hook. Lost means that the
	// actor has moved: another host may be running it.
	Leaving, Lost bool
	Gone          chan struct{} // if not nil, closed when nothing of the activation is left
	orphans       []actor.Key   // its volatile children, whose family has ended
}

// Chain is a turn and the turns that it calls. The goroutine of the outermost turn has it,
// and is the worker of all its actors.
type Chain struct {
	*chain.Chain[*Activation]
	Members []*Enlisted        // the outermost turn's actor first
	Undo    []Undo             // what called turns have done, in order
	Tokens  []actor.ReminderID // of the reminders that they have set, in order
	// Fuel is what called turns have used, and OfAll the part of it that the calls of an OpAll turn
	// have used, which have the limits of their types. FuelLimit bounds the rest; 0: no bound.
	Fuel, OfAll, FuelLimit uint64
	Records                []calledRecord    // the called turns to record
	Ran                    []actor.KeyedCall // the callbacks that have taken effect in the chain, in order
	Inner                  []Inner           // the calls that have joined a chain which this one waits for
	Callbacks              []call.Callback   // the calls that have joined a chain which waits for this one
	Name                   string            // what [chain.Chain.SetName] was given
}

// Inner is a call of a callback that has joined the chain which waits for the callback, under the name of its
// wait. That chain commits it, unless it runs again and does not make the callback again.
type Inner struct {
	Call actor.KeyedCall
	Wait string
}

// calledRecord is a called turn that the chain's commit records: another run may find its actor at another host.
type calledRecord struct {
	Of    *Enlisted
	Call  *call.Call
	Reply actor.Payload
	bytes int // in the commit, of this record and those before it
}

// Enlisted is an actor that a chain has.
type Enlisted struct {
	Activation *Activation   // nil: the type has no state, and the chain does not keep the actor
	Call       *call.Call    // which has the place of the activation's turn
	Served     *serving.Type // what its turns run under
	// Row is what the chain's next turn of the actor runs on, as Rev names it; nil: not
	// read. Of the outermost turn's actor it is nil: that turn is its only one.
	Row     *residency.Row
	Rev     uint64
	Changed bool
	// Failed means that the caller of a recorded call knows that it has failed: the chain's commit keeps
	// earlier runs of the call from being applied.
	Failed  bool
	Effects turn.SideEffects
	Open    OpenTurn // the turn of it that is under way, the innermost one; nil: none
}

// OpenTurn is a turn that waits for a called one, which may leave something to it.
type OpenTurn interface {
	Replace(state *overlay.State, rev uint64)
	GoOnFrom(before *turn.SideEffects)
	SideEffects() turn.SideEffects
}

// Undo is what an actor was before a called turn.
type Undo struct {
	Of      *Enlisted
	Open    OpenTurn // the turn of it that went on from what the called one has left; nil: none was open
	Row     *residency.Row
	Changed bool
	Effects turn.SideEffects
}

type (
	// Member is an activation as package speculation sees it.
	Member = speculation.Member[*Activation, *call.Call, *Batch]
	// Flight is a batch as package speculation sees it.
	Flight = speculation.Batch[*Activation, *call.Call, *Batch]
	// Dependent is a call whose answer rests on a batch.
	Dependent = speculation.Dependent[*Activation, *call.Call, *Batch]
)

// Batch is what a [Flight] commits: of its actors, which are one most of the time, all turns
// that are folded into it. It is a [pipeline.Work]. Who changes it has the locks of the
// shards of all its actors; who has one of them may read it.
type Batch struct {
	In *Flight
	by *Batches

	// These do not change once the batch is a flight. Parts and Rows are in the same order.
	Parts   []part
	Rows    []actor.RowWrite // each actor's next version, if it is written
	onePart [1]part          // what parts is made in
	oneRow  [1]actor.RowWrite
	records
	Reminders   actor.ReminderEffects
	Events      []actor.EventWrite
	Replies     int      // bytes of the records, reminders and events
	Most        int      // how many of them there may be before the commit has to go
	replyMemory int64    // what the replies of calls count for in Config.CallMemory
	Timers      []Timing // of called turns
	lives

	Sent actor.Commit // made when the batch is sent
	Next *Batch       // another one that is to be sent
}

// records are those of calls with idempotency keys that a batch commits.
type records struct {
	Records []actor.IdempotencyRecord
	marks   bool // some of them are marks
}

// lives is what a batch does to the lives of its actors, beside their own rows.
type lives struct {
	Spawned  []actor.RowWrite
	Services []actor.ServiceChange
}

// part is what a batch does to one of its actors.
type part struct {
	Activation *Activation
	state      *overlay.State // what the row gets, encoded when the batch is sent; nil: it keeps its own
	encoded    actor.EncodedState
	buffer     *[]byte // of buffers, that encoded is in; nil: none
	After      *residency.Row
	bump       bool // the version moves on: a call with a key has failed
	gone       bool // the actor passes away
}

// Timing is what called turns do to the timers of an actor.
type Timing struct {
	Activation *Activation
	Changes    *timer.Changes
}

// Batches makes batches.
type Batches struct {
	memory  *call.Memory                             // counts what they hold
	landed  func(b *Batch, err error, now time.Time) // called when the store has decided a commit
	buffers sync.Pool                                // of *[]byte, for encoded states on their way to the store
}

// find returns the record of a call in the batch that has the method and key of c.
func (b *Batch) find(c *call.Call) *actor.IdempotencyRecord {
	for i := range b.Records {
		if r := &b.Records[i]; c.Inv.AnsweredBy(r) {
			return r
		}
	}
	return nil
}

// Part returns the place of an activation in Parts and Rows; the first time, its part
// confirms the tip and nothing else.
func (b *Batch) Part(a *Activation) int {
	for i := range b.Parts {
		if b.Parts[i].Activation == a {
			return i
		}
	}
	b.Parts = append(b.Parts, part{Activation: a, After: a.Tip})
	b.Rows = append(b.Rows, a.Tip.Next(a.Key))
	return len(b.Parts) - 1
}

// After is the row of an activation when the batch is committed.
func (b *Batch) After(a *Activation) *residency.Row { return b.Parts[b.Part(a)].After }

// Writes reports whether the commit moves the version of the part's row on.
func (p *part) Writes() bool { return p.state != nil || p.bump || p.gone }

// Seen reports whether the chain has read the actor.
func (m *Enlisted) Seen() bool { return m.Row != nil || m.Open != nil }

// NewBatches returns Batches that count answers in m and call landed when the store has decided a
// commit.
func NewBatches(m *call.Memory, landed func(b *Batch, err error, now time.Time)) *Batches {
	bs := &Batches{memory: m, landed: landed}
	bs.buffers.New = func() any { return new([]byte) }
	return bs
}

// New returns what commits nothing yet.
func (bs *Batches) New() *Batch {
	b := &Batch{by: bs, Most: MaxReplies}
	b.Parts, b.Rows = b.onePart[:0], b.oneRow[:0]
	return b
}

// MaxReplies is how many bytes of recorded replies and reminders a batch gathers at most before
// its actor waits for the flight. Where large states and payloads are allowed it
// is less: with one more turn's and the state, a commit stays within
// actor.MaxCommitBytes.
const MaxReplies = 2 << 20
