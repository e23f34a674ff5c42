package activation

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/chain"
	"github.com/greenroom-run/greenroom/host/inbox"
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

// Leave ends what [Ownership.Enter] began.
func (s *Shard) Leave(c *call.Call) {
	s.Mu.Lock()
	s.Running.Remove(&c.Place)
	if c.Left != nil {
		close(c.Left)
	}
	s.Mu.Unlock()
	s.Work.Done()
}

// Withdraw takes a call out of its mailbox, or from those that go again, and
// reports whether it was there: then it leaves no trace.
func (s *Shard) Withdraw(c *call.Call) bool {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	a := s.Actors[c.Inv.Key]
	return a != nil && a.Calls.GiveUp(&c.Place, c.Cost())
}

// Used makes an activation the newest. The caller has the shard's lock.
func (s *Shard) Used(a *Activation) {
	if !s.order.Last(&a.used) {
		s.order.Remove(&a.used)
		s.order.Push(&a.used, a)
	}
}

// NoteNewer records a newer version for the activation a, which may be nil. The caller
// has the lock.
func (s *Shard) NoteNewer(a *Activation, version uint64) {
	if a == nil {
		s.History.NoteNewer(nil, version)
		return
	}
	s.History.NoteNewer(&a.Known, version)
}

// noteOther takes over that the store has another version than the readers of an activation
// see. The caller has the lock.
func (s *Shard) noteOther(a *Activation, version uint64) { s.History.NoteOther(&a.Known, version) }

// Show lets the readers of an activation with a state see l, unless it is older than what
// they see. The caller has the lock.
func (s *Shard) Show(a *Activation, l *residency.Row, asked time.Time, forgets uint64) {
	s.History.Show(&a.Known, l, asked, forgets)
	a.Weigh()
}

// BeginLookUp counts a call that is looked up before it is admitted; one of
// Shard.Work is its own.
func (s *Shard) BeginLookUp(c *call.Call) error {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.Closed {
		return actor.ErrStopping
	}
	s.Work.Add(1)
	c.Looking = true
	return nil
}

// EndLookUp reports whether a call is still being looked up, and ends that.
func (s *Shard) EndLookUp(c *call.Call) bool {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	was := c.Looking
	c.Looking = false
	return was
}

// EndTimers ends the timers and the watches of the actors for which end returns true.
func (s *Shard) EndTimers(end func(key actor.Key, placed bool) bool) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Timers.MovedFunc(end)
}

// DropDelayed drops the volatile messages that wait for their time.
func (s *Shard) DropDelayed() {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Timers.DropDelayed()
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

// Idle reports whether no turn of the actor runs, and none waits for a method set.
func (a *Activation) Idle() bool { return !a.Busy && a.Calls.Aside() == 0 }

// Empty reports whether the activation holds nothing worth keeping.
func (a *Activation) Empty() bool { return a.Loaded == nil && a.dedicated == nil }

// DropState forgets the activation's state; its next turn reads the row.
func (a *Activation) DropState() {
	s := a.Shard
	s.Mu.Lock()
	a.Forget()
	s.Mu.Unlock()
}

// DropAll drops the state and the instance of an activation: turns of the locked lane use neither.
func (a *Activation) DropAll() {
	if a.Loaded != nil { // it is drained: nobody else changes it
		a.DropState()
	}
	if a.dedicated != nil {
		a.takeDedicated().Discard()
	}
}

// InstanceFor returns the instance for the activation's next turn.
func (a *Activation) InstanceFor(ctx context.Context, s *serving.Type) (*instance.Instance, error) {
	if a.dedicated != nil {
		if s.Dedicated && a.dedicated.Pool() == s.Pool {
			return a.dedicated, nil
		}
		a.takeDedicated().Discard()
	}
	if !s.Dedicated {
		return s.Pool.Acquire(ctx)
	}
	in, err := s.Pool.Make(ctx, a.releaseDedicated)
	if err != nil {
		return nil, err
	}
	sh := a.Shard
	sh.Mu.Lock()
	a.dedicated = in
	sh.Mu.Unlock()
	return in, nil
}

// GiveBack ends the use of an instance whose run ended with err.
func (a *Activation) GiveBack(in *instance.Instance, err error, now time.Time) {
	switch {
	case !in.Dedicated():
		in.GiveBack(err, now)
	case instance.Broken(err):
		a.takeDedicated().Discard()
	}
}

// releaseDedicated takes its dedicated instance from an activation that has no work,
// and reports false if it has some, or another instance.
func (a *Activation) releaseDedicated(in *instance.Instance) bool {
	s := a.Shard
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if !a.Idle() || a.dedicated != in {
		return false
	}
	a.dedicated = nil
	return true
}

// takeDedicated takes its dedicated instance from an activation. It is for the worker.
func (a *Activation) takeDedicated() *instance.Instance {
	s := a.Shard
	s.Mu.Lock()
	defer s.Mu.Unlock()
	in := a.dedicated
	a.dedicated = nil
	return in
}

// alone reports whether the activation shares no batch with others. The caller has the
// shard's lock.
func (a *Activation) alone() bool {
	for _, f := range [...]*Flight{a.Member.Flight(), a.Member.Pending()} {
		if f != nil && len(f.Payload.Parts) > 1 {
			return false
		}
	}
	return true
}

// Lock locks what a turn of the activation, or the end of its flight, may change: its shard
// and those of all activations that it shares a batch with, which unlock is given.
func (a *Activation) Lock() (several []*Shard) {
	a.Shard.Mu.Lock()
	if a.alone() {
		return nil
	}
	a.Shard.Mu.Unlock()
	return lockAll([]*Activation{a})
}

// Unlock unlocks what Lock has locked and returned.
func (a *Activation) Unlock(several []*Shard) {
	if several == nil {
		a.Shard.Mu.Unlock()
		return
	}
	UnlockAll(several)
}

// lockAll locks the shards of activations, and of all others that these share a batch with.
func lockAll(of []*Activation) (locked []*Shard) {
	for _, a := range of {
		locked = withShard(locked, a.Shard)
	}
	for {
		for _, s := range locked {
			s.Mu.Lock()
		}
		needed := locked
		for _, a := range of {
			for _, f := range [...]*Flight{a.Member.Flight(), a.Member.Pending()} {
				if f == nil {
					continue
				}
				for i := range f.Payload.Parts {
					needed = withShard(needed, f.Payload.Parts[i].Activation.Shard)
				}
			}
		}
		if len(needed) == len(locked) {
			return locked
		}
		UnlockAll(locked)
		locked = needed
	}
}

// withShard returns shards, which are in ascending order, with s.
func withShard(shards []*Shard, s *Shard) []*Shard {
	at, found := slices.BinarySearchFunc(shards, s.number, func(s *Shard, number int) int { return cmp.Compare(s.number, number) })
	if found {
		return shards
	}
	return slices.Insert(slices.Clip(shards), at, s)
}

// UnlockAll unlocks shards, in any order.
func UnlockAll(shards []*Shard) {
	for _, s := range shards {
		s.Mu.Unlock()
	}
}

// AwaitCommits waits until all of the activation's state is committed. It reports
// whether the state was dropped instead: then what was to be done on it comes
// after the calls that go again. It is for the worker.
func (a *Activation) AwaitCommits(ctx context.Context) (dropped bool, err error) {
	s := a.Shard
	s.Mu.Lock()
	if !a.Member.Committed() && a.Drained == nil {
		a.Drained = make(chan struct{})
	}
	drained := a.Drained
	dropped = a.Member.Dropped() != nil
	s.Mu.Unlock()
	if drained == nil {
		return dropped, nil
	}
	select {
	case <-drained:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return a.Member.Dropped() != nil, nil
}

// Forget drops the activation's state. The caller has the shard's lock.
func (a *Activation) Forget() {
	a.Shard.History.Drop(a.Key, &a.Known, time.Now())
	a.Weigh()
}

// Full reports whether no further turn may be folded for now. There is a flight
// then, whose landing sends the pending batch off. The caller has the shard's
// lock.
func (a *Activation) Full() bool {
	p := a.Member.Pending()
	if p == nil {
		return false
	}
	b := p.Payload
	return b.Replies > 0 && b.Replies >= b.Most || b.replyMemory >= maxReplyMemory
}

// Joins looks for an earlier call with the key of c whose commit is not durable
// yet; c is then answered like that one, and when that one is. The caller has
// the shard's lock.
func (a *Activation) Joins(c *call.Call) (r call.Result, ok bool) {
	for _, f := range []*Flight{a.Member.Pending(), a.Member.Flight()} {
		if f == nil {
			continue
		}
		if record := f.Payload.find(c); record != nil {
			return c.Recorded(record), true
		}
	}
	return call.Result{}, false
}

// GiveBackCalls answers all calls that wait at an activation that leaves; none of them
// has an effect. Its hook leaving stays, unless the actor is lost. The caller has the shard's lock.
func (a *Activation) GiveBackCalls(answered *call.Answers) {
	var hook *call.Call
	defer func() {
		if hook != nil {
			a.Calls.Again(&hook.Place, hook)
		}
	}()
	a.AcceptAside()
	for c := a.Calls.Take(); c != nil; c = a.Calls.Take() {
		if c.Op == call.OpLeave && !a.Lost {
			hook = c
			continue
		}
		c.Stats.Lane = c.Lane
		c.Result = call.Result{Err: actor.ErrNotOwner, Stats: c.Stats}
		c.Answer(answered)
	}
}

// SetAside has a call wait for another method set than the tip has. over is called if that takes too
// long. The caller has the shard's lock.
func (a *Activation) SetAside(c *call.Call, now time.Time, over func()) {
	if a.Calls.Aside() == 0 {
		a.awaited = awaited{a.Tip.MethodSet, a.Serving}
	}
	a.Calls.SetAside(&c.Place, c)
	c.WaitOutside(now, over)
}

// AcceptChanged has the calls that wait for another method set run again, before all others, if there
// may be one. The caller has the shard's lock.
func (a *Activation) AcceptChanged() {
	if a.Calls.Aside() > 0 && (a.Tip == nil || a.awaited != awaited{a.Tip.MethodSet, a.Serving}) {
		a.AcceptAside()
	}
}

// AcceptAside has the calls that wait for another method set run again, before all others. The caller
// has the shard's lock.
func (a *Activation) AcceptAside() {
	var calls []*call.Call
	for c := a.Calls.TakeAside(); c != nil; c = a.Calls.TakeAside() {
		c.EndOutside()
		calls = append(calls, c)
	}
	for _, c := range slices.Backward(calls) {
		a.Calls.Again(&c.Place, c)
	}
}

// awaited is under what calls of an activation are not accepted.
type awaited struct {
	set string
	by  *serving.Type
}

// GaveUp takes over that a commit of the activation may still land. The caller has the
// shard's lock.
func (a *Activation) GaveUp(now time.Time) {
	if a.Hold == actor.NotHeld {
		return
	}
	a.Hold = actor.Held
	a.Shard.History.Unsettled.Note(a.Key, now)
}

// activationCost is what an activation takes beside its state.
const activationCost = 2 << 10

// waitingCost is what a message that waits for a method set counts for in memory.
const waitingCost = 32

// weight is what the activation counts for in Config.StateMemory: every state
// that it holds, which may be four while it works.
func (a *Activation) weight() int64 {
	w := activationCost + int64(len(a.Key.ID)) + int64(len(a.waiting.messages))*waitingCost + a.Cost()
	if f := a.Member.Flight(); f != nil {
		if after := f.Payload.After(a); after != a.Tip && after != a.Loaded {
			w += after.Cost()
		}
	}
	return w
}

// Weigh brings the account up to date with what the activation holds. The caller
// has the shard's lock; the activation is in the table.
func (a *Activation) Weigh() {
	w := a.weight()
	if w != a.weighed {
		a.Shard.states.Add(w - a.weighed)
		a.weighed = w
	}
}

// Launch makes the pending batch the flight, if there is one and the last has
// landed. The caller has the locks, and sends the result without them.
func (a *Activation) Launch(now time.Time) *Batch {
	if f := a.Member.Launch(now); f != nil {
		return f.Payload
	}
	return nil
}

// Passed reports whether the actor has passed away in a turn of this activation, committed or not.
// The store alone knows when: the next turn is to read the row.
func (a *Activation) Passed() bool {
	a.Shard.Mu.Lock()
	defer a.Shard.Mu.Unlock()
	return a.Tip != nil && a.Tip.Life > 0 && a.Tip.Born.IsZero()
}

// Dropped reports whether the state was dropped under the turn that runs.
func (a *Activation) Dropped() bool {
	a.Shard.Mu.Lock()
	defer a.Shard.Mu.Unlock()
	return a.Member.Dropped() != nil
}

// NestedInstance is InstanceFor for a called turn, whose caller waits with an instance of its own.
// What may wait is done by waiting. again means that another turn of the actor has its dedicated instance: then the caller discards
// the result.
func (a *Activation) NestedInstance(ctx context.Context, waiting func(func()), s *serving.Type, again bool) (in *instance.Instance, err error) {
	switch {
	case a == nil: // of a type that has no state
	case s.Dedicated && !again:
		if a.dedicated != nil && a.dedicated.Pool() == s.Pool {
			return a.dedicated, nil
		}
		waiting(func() { in, err = a.InstanceFor(ctx, s) })
		return in, err
	case a.dedicated != nil && !s.Dedicated:
		a.takeDedicated().Discard()
	}
	if in = s.Pool.Spare(); in == nil {
		waiting(func() { in, err = s.Pool.AcquireMore(ctx) })
	}
	return in, err
}

// WarmFor reports whether a turn under s can begin without waiting for anything.
func (a *Activation) WarmFor(s *serving.Type) bool {
	a.Shard.Mu.Lock()
	defer a.Shard.Mu.Unlock()
	newest := !a.Member.Committed() || !a.Outdated()
	return a.Serving == s && s.Lane == serving.LaneWarm && a.Tip != nil && newest && !a.Unfenced(s)
}

// Unfenced reports whether the newest state is to be read again before the first turn, since no
// commit of this activation has moved the version past those of earlier owners. The caller has
// the shard's lock.
func (a *Activation) Unfenced(s *serving.Type) bool {
	return s.Sticky && a.Hold == actor.Held && a.Member.Committed()
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

// Seen reports whether the chain has read the actor.
func (m *Enlisted) Seen() bool { return m.Row != nil || m.Open != nil }

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

// Lock locks what the end of the batch's flight may change.
func (b *Batch) Lock() (several []*Shard) {
	if len(b.Parts) == 1 {
		return b.Parts[0].Activation.Lock()
	}
	all := make([]*Activation, len(b.Parts))
	for i := range b.Parts {
		all[i] = b.Parts[i].Activation
	}
	return lockAll(all)
}

// Unlock unlocks what Lock has locked and returned.
func (b *Batch) Unlock(several []*Shard) { b.Parts[0].Activation.Unlock(several) }

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

// maxReplyMemory bounds the replies that wait for one commit, recorded or not, in the
// same way.
const maxReplyMemory = 8 << 20

// find returns the record of a call in the batch that has the method and key of c.
func (b *Batch) find(c *call.Call) *actor.IdempotencyRecord {
	for i := range b.Records {
		if r := &b.Records[i]; r.Answers(&c.Inv) {
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

// DecideTimers lets changes to timers take effect, or drops them. The caller has the locks.
func DecideTimers(all []Timing, apply bool, now time.Time) {
	for _, t := range all {
		t.Activation.Shard.Timers.Decide(t.Activation.Key, t.Changes, apply, now)
	}
}

// Alone appends to wait what is closed when the calls have left that run beside the
// activations of actors that are named.
func (s *Shard) Alone(moving func(actor.Key) bool, wait []<-chan struct{}) []<-chan struct{} {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	for c := range s.Running.All() {
		if c.Home != nil || c.Copied || !moving(c.Inv.Key) {
			continue
		}
		if c.Left == nil {
			c.Left = make(chan struct{})
		}
		wait = append(wait, c.Left)
	}
	return wait
}

// Pick takes out the call that the activation's worker is to run. Without one
// the worker ends. The caller has the lock.
func (s *Shard) Pick(a *Activation) *call.Call {
	var c *call.Call
	if a.Member.MayBegin() && !a.Full() {
		c = a.Calls.Take()
	}
	if c == nil {
		a.Working = false
		return nil
	}
	a.Member.Begin()
	s.Running.Push(&c.Place, c)
	if s.Killed {
		c.Killed.Store(true)
	}
	return c
}

// Touches reports whether what the activation has not committed yet does anything to the reminder
// of a step. For an ordered message it also reports whether a later message of the same sender is
// consumed there: one commit with both would hide from the store that they ran in the wrong order.
func (a *Activation) Touches(step *actor.ReminderStep) bool {
	s := a.Shard
	s.Mu.Lock()
	defer s.Mu.Unlock()
	for _, f := range []*Flight{a.Member.Pending(), a.Member.Flight()} {
		if f != nil && (f.Payload.Reminders.Names(step.ReminderName) || inbox.Overtaken(step, f.Payload.Reminders.Steps)) {
			return true
		}
	}
	return false
}

// spawns reports whether what the activation has not committed yet spawns an actor.
func (a *Activation) spawns(key actor.Key) bool {
	a.Shard.Mu.Lock()
	defer a.Shard.Mu.Unlock()
	for _, f := range [...]*Flight{a.Member.Pending(), a.Member.Flight()} {
		if f != nil && slices.ContainsFunc(f.Payload.Spawned, func(row actor.RowWrite) bool { return row.Key == key }) {
			return true
		}
	}
	return false
}

// ChainWaits reports whether a chain waits for the actor.
func (a *Activation) ChainWaits() bool {
	a.Shard.Mu.Lock()
	defer a.Shard.Mu.Unlock()
	return a.Calls.Has((*call.Call).Enlists)
}

// PauseFor pauses before a turn that goes again after a conflict, once for all
// the calls that do. It reports false when ctx ended first.
func (a *Activation) PauseFor(ctx context.Context, c *call.Call) bool {
	if c.Conflicts == 0 {
		a.paused = 0
		return true
	}
	if c.Conflicts <= a.paused {
		a.paused = min(a.paused, c.Conflicts)
		return ctx.Err() == nil
	}
	a.paused = c.Conflicts
	return Pause(ctx, c.Conflicts)
}

// Batches makes batches.
type Batches struct {
	memory  *call.Memory                             // counts what they hold
	landed  func(b *Batch, err error, now time.Time) // called when the store has decided a commit
	buffers sync.Pool                                // of *[]byte, for encoded states on their way to the store
}

// Pause waits before the attempt that follows so many conflicts, not after the
// first, then for longer each time and never twice the same, so that writers
// that met once do not keep meeting. It reports false when ctx ended first.
func Pause(ctx context.Context, conflicts int) bool {
	const shortest, longest = time.Millisecond, 100 * time.Millisecond
	if conflicts <= 1 {
		return ctx.Err() == nil
	}
	d := min(shortest<<min(conflicts-1, 10), longest)
	select {
	case <-time.After(d/2 + rand.N(d/2)):
		return true
	case <-ctx.Done():
		return false
	}
}

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
