package host

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/chain"
	"github.com/greenroom-run/greenroom/host/instance"
	"github.com/greenroom-run/greenroom/host/list"
	"github.com/greenroom-run/greenroom/host/overlay"
	"github.com/greenroom-run/greenroom/host/residency"
	"github.com/greenroom-run/greenroom/host/speculation"
	"github.com/greenroom-run/greenroom/host/timer"
	"github.com/greenroom-run/greenroom/host/turn"
)

// shard holds some of the actors, the calls that run on them, and the order in
// which they were used.
type shard struct {
	states  *budget // table.states
	number  int     // of table.shards: who locks several does so in ascending order
	mu      sync.Mutex
	closed  bool // no call is admitted any more
	killed  bool // running calls are stopped as they come
	actors  map[actor.Key]*activation
	order   list.List[*activation] // of their use, the newest last
	running list.List[*call]
	timers  timer.Schedule
	history residency.History
	// migrations are those that readers wait for; nil: there were none yet.
	migrations map[actor.Key]*migration
	copies     *simplelru.LRU[actor.Key, *stateCopy] // nil: there were none yet
	// losses counts how often the host lost all that it held: what was in memory before
	// proves nothing after. It grows with the lock held.
	losses atomic.Uint64
	// work counts workers and calls in the lanes without one. It grows only
	// while the shard is open.
	work sync.WaitGroup
}

// leave ends what enter began.
func (s *shard) leave(c *call) {
	s.mu.Lock()
	s.running.Remove(&c.place)
	if c.left != nil {
		close(c.left)
	}
	s.mu.Unlock()
	s.work.Done()
}

// withdraw takes a call out of its mailbox, or from those that go again, and
// reports whether it was there: then it leaves no trace.
func (s *shard) withdraw(c *call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.actors[c.inv.Key]
	return a != nil && a.calls.GiveUp(&c.place, c.cost())
}

// used makes an activation the newest. The caller has the shard's lock.
func (s *shard) used(a *activation) {
	if !s.order.Last(&a.used) {
		s.order.Remove(&a.used)
		s.order.Push(&a.used, a)
	}
}

// noteNewer records a newer version for the activation a, which may be nil. The caller
// has the lock.
func (s *shard) noteNewer(a *activation, version uint64) {
	if a == nil {
		s.history.NoteNewer(nil, version)
		return
	}
	s.history.NoteNewer(&a.Known, version)
}

// noteOther takes over that the store has another version than the readers of an activation
// see. The caller has the lock.
func (s *shard) noteOther(a *activation, version uint64) { s.history.NoteOther(&a.Known, version) }

// show lets the readers of an activation with a state see l, unless it is older than what
// they see. The caller has the lock.
func (s *shard) show(a *activation, l *residency.Row, asked time.Time, forgets uint64) {
	s.history.Show(&a.Known, l, asked, forgets)
	a.weigh()
}

// beginLookUp counts a call that is looked up before it is admitted; one of
// shard.work is its own.
func (s *shard) beginLookUp(c *call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return actor.ErrStopping
	}
	s.work.Add(1)
	c.looking = true
	return nil
}

// endLookUp reports whether a call is still being looked up, and ends that.
func (s *shard) endLookUp(c *call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := c.looking
	c.looking = false
	return was
}

// endTimers ends the timers of the actors for which end returns true.
func (s *shard) endTimers(end func(key actor.Key, placed bool) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timers.DeleteFunc(end)
}

// activation is the presence of one actor in memory. The shard's lock guards what is not
// said to be otherwise.
type activation struct {
	key   actor.Key
	shard *shard
	home
	weighed int64 // what the activation counts for in table.states
	busy    bool  // a worker or a commit exists; one of shard.work counts it
	working bool  // a worker exists; always, while a call can be run
	usage
	member  member
	drained chan struct{} // if not nil, closed when there is no batch any more
	tenure
	residency.Known
	// confirmation is the question whether what readers see is still the newest; nil if
	// none is under way.
	confirmation *confirmation
	equipment
	routine
}

// usage is when an activation was used.
type usage struct {
	called   bool // since it was idle, by other than its timers
	lastUsed time.Time
	skipped  time.Time               // when it was last found to be idle and to stay
	used     list.Place[*activation] // in shard.order
}

// equipment is what an activation has by its deployment. The worker changes it, with the
// shard's lock; while the activation is idle, anyone who has the lock. The worker alone may
// read it without.
type equipment struct {
	dedicated   *instance.Instance // of a type with dedicated instances
	sticky      bool
	idleTimeout time.Duration
	announced   bool   // Activated was called
	rev         uint64 // of Tip's state, for the next turn
}

// routine is the worker's own.
type routine struct {
	serving *served // what the latest turn ran under
	checked uint64  // ModuleSource.Changes when that was what serves the type
	paused  int     // for as many conflicts it has paused
	chain   *calls  // of the turn that runs; nil: it has called nothing
}

func (a *activation) idle() bool { return !a.busy }

// empty reports whether the activation holds nothing worth keeping.
func (a *activation) empty() bool { return a.Loaded == nil && a.dedicated == nil }

// dropState forgets the activation's state; its next turn reads the row.
func (a *activation) dropState() {
	s := a.shard
	s.mu.Lock()
	a.forget()
	s.mu.Unlock()
}

// dropAll brings an activation to what the lanes without one want.
func (a *activation) dropAll() {
	if a.Loaded != nil { // it is drained: nobody else changes it
		a.dropState()
	}
	if a.dedicated != nil {
		a.takeDedicated().Discard()
	}
}

// instanceFor returns the instance for the activation's next turn.
func (a *activation) instanceFor(ctx context.Context, s *served) (*instance.Instance, error) {
	if a.dedicated != nil {
		if s.dedicated && a.dedicated.Pool() == s.pool {
			return a.dedicated, nil
		}
		a.takeDedicated().Discard()
	}
	if !s.dedicated {
		return s.pool.Acquire(ctx)
	}
	in, err := s.pool.Make(ctx, a.releaseDedicated)
	if err != nil {
		return nil, err
	}
	sh := a.shard
	sh.mu.Lock()
	a.dedicated = in
	sh.mu.Unlock()
	return in, nil
}

// giveBack ends the use of an instance whose run ended with err.
func (a *activation) giveBack(in *instance.Instance, err error, now time.Time) {
	switch {
	case !in.Dedicated():
		in.GiveBack(err, now)
	case instance.Broken(err):
		a.takeDedicated().Discard()
	}
}

// releaseDedicated takes its dedicated instance from an activation that has no work,
// and reports false if it has some, or another instance.
func (a *activation) releaseDedicated(in *instance.Instance) bool {
	s := a.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if !a.idle() || a.dedicated != in {
		return false
	}
	a.dedicated = nil
	return true
}

// takeDedicated takes its dedicated instance from an activation. It is for the worker.
func (a *activation) takeDedicated() *instance.Instance {
	s := a.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	in := a.dedicated
	a.dedicated = nil
	return in
}

// alone reports whether the activation shares no batch with others. The caller has the
// shard's lock.
func (a *activation) alone() bool {
	for _, f := range [...]*flight{a.member.Flight(), a.member.Pending()} {
		if f != nil && len(f.Payload.parts) > 1 {
			return false
		}
	}
	return true
}

// lock locks what a turn of the activation, or the end of its flight, may change: its shard
// and those of all activations that it shares a batch with, which unlock is given.
func (a *activation) lock() (several []*shard) {
	a.shard.mu.Lock()
	if a.alone() {
		return nil
	}
	a.shard.mu.Unlock()
	return lockAll([]*activation{a})
}

func (a *activation) unlock(several []*shard) {
	if several == nil {
		a.shard.mu.Unlock()
		return
	}
	unlockAll(several)
}

// lockAll locks the shards of activations, and of all others that these share a batch with.
func lockAll(of []*activation) (locked []*shard) {
	for _, a := range of {
		locked = withShard(locked, a.shard)
	}
	for {
		for _, s := range locked {
			s.mu.Lock()
		}
		needed := locked
		for _, a := range of {
			for _, f := range [...]*flight{a.member.Flight(), a.member.Pending()} {
				if f == nil {
					continue
				}
				for i := range f.Payload.parts {
					needed = withShard(needed, f.Payload.parts[i].a.shard)
				}
			}
		}
		if len(needed) == len(locked) {
			return locked
		}
		unlockAll(locked)
		locked = needed
	}
}

// withShard returns shards, which are in ascending order, with s.
func withShard(shards []*shard, s *shard) []*shard {
	at, found := slices.BinarySearchFunc(shards, s.number, func(s *shard, number int) int { return cmp.Compare(s.number, number) })
	if found {
		return shards
	}
	return slices.Insert(slices.Clip(shards), at, s)
}

func unlockAll(shards []*shard) {
	for _, s := range shards {
		s.mu.Unlock()
	}
}

// awaitCommits waits until all of the activation's state is committed. It reports
// whether the state was dropped instead: then what was to be done on it comes
// after the calls that go again. It is for the worker.
func (a *activation) awaitCommits(ctx context.Context) (dropped bool, err error) {
	s := a.shard
	s.mu.Lock()
	if !a.member.Committed() && a.drained == nil {
		a.drained = make(chan struct{})
	}
	drained := a.drained
	dropped = a.member.Dropped() != nil
	s.mu.Unlock()
	if drained == nil {
		return dropped, nil
	}
	select {
	case <-drained:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return a.member.Dropped() != nil, nil
}

// forget drops the activation's state. The caller has the shard's lock.
func (a *activation) forget() {
	a.shard.history.Drop(a.key, &a.Known, time.Now())
	a.weigh()
}

// full reports whether no further turn may be folded for now. There is a flight
// then, whose landing sends the pending batch off. The caller has the shard's
// lock.
func (a *activation) full() bool {
	p := a.member.Pending()
	if p == nil {
		return false
	}
	b := p.Payload
	return b.replies > 0 && b.replies >= b.most || b.replyMemory >= maxReplyMemory
}

// joins looks for an earlier call with the key of c whose commit is not durable
// yet; c is then answered like that one, and when that one is. The caller has
// the shard's lock.
func (a *activation) joins(c *call) (r result, ok bool) {
	for _, f := range []*flight{a.member.Pending(), a.member.Flight()} {
		if f == nil {
			continue
		}
		if record := f.Payload.find(c); record != nil {
			return c.recorded(record), true
		}
	}
	return result{}, false
}

// giveBackCalls answers all calls that wait at an activation that leaves; none of them
// has an effect. The caller has the shard's lock.
func (a *activation) giveBackCalls(answered *answers) {
	for c := a.calls.Take(); c != nil; c = a.calls.Take() {
		c.stats.lane = c.lane
		c.result = result{err: actor.ErrNotOwner, stats: c.stats}
		c.answer(answered)
	}
}

// gaveUp takes over that a commit of the activation may still land. The caller has the
// shard's lock.
func (a *activation) gaveUp(now time.Time) {
	if a.hold == actor.NotHeld {
		return
	}
	a.hold = actor.Held
	a.shard.history.Unsettled.Note(a.key, now)
}

// weight is what the activation counts for in Config.StateMemory: every state
// that it holds, which may be four while it works.
func (a *activation) weight() int64 {
	w := activationCost + int64(len(a.key.ID)) + a.Cost()
	if f := a.member.Flight(); f != nil {
		if after := f.Payload.after(a); after != a.Tip && after != a.Loaded {
			w += after.Cost()
		}
	}
	return w
}

// weigh brings the account up to date with what the activation holds. The caller
// has the shard's lock; the activation is in the table.
func (a *activation) weigh() {
	w := a.weight()
	a.shard.states.add(w - a.weighed)
	a.weighed = w
}

// launch makes the pending batch the flight, if there is one and the last has
// landed. The caller has the locks, and sends the result without them.
func (a *activation) launch(now time.Time) *batch {
	if f := a.member.Launch(now); f != nil {
		return f.Payload
	}
	return nil
}

// dropped reports whether the state was dropped under the turn that runs.
func (a *activation) dropped() bool {
	a.shard.mu.Lock()
	defer a.shard.mu.Unlock()
	return a.member.Dropped() != nil
}

// nestedInstance is instanceFor for a turn that another one waits for, which has an instance itself.
// What may wait is done by waiting. again means that another turn of the actor has its dedicated instance: then the caller discards
// the result.
func (a *activation) nestedInstance(ctx context.Context, waiting func(func()), s *served, again bool) (in *instance.Instance, err error) {
	switch {
	case a == nil: // of a type that has no state
	case s.dedicated && !again:
		if a.dedicated != nil && a.dedicated.Pool() == s.pool {
			return a.dedicated, nil
		}
		waiting(func() { in, err = a.instanceFor(ctx, s) })
		return in, err
	case a.dedicated != nil && !s.dedicated:
		a.takeDedicated().Discard()
	}
	if in = s.pool.Spare(); in == nil {
		waiting(func() { in, err = s.pool.AcquireMore(ctx) })
	}
	return in, err
}

// warmFor reports whether a turn under s can begin without waiting for anything.
func (a *activation) warmFor(s *served) bool {
	a.shard.mu.Lock()
	defer a.shard.mu.Unlock()
	newest := !a.member.Committed() || !a.Outdated()
	return a.serving == s && s.lane == LaneWarm && a.Tip != nil && newest && !a.unfenced(s)
}

// unfenced reports whether the newest state is to be read again before the first turn, since no
// commit of this activation has moved the version past those of earlier owners. The caller has
// the shard's lock.
func (a *activation) unfenced(s *served) bool {
	return s.sticky && a.hold == actor.Held && a.member.Committed()
}

// tenure is what an activation knows of the host's right to run its actor. The shard's
// lock guards it.
type tenure struct {
	// hold is what the host holds: Held until a commit of this activation has moved the
	// version past those of earlier owners. NotHeld: it was not asked for, since the
	// actor is run under a placement that gives it no place, or by a host that is alone.
	hold actor.Hold
	// leaving means that the actor moves: no turn begins any more. lost means that the
	// actor has moved: another host may be running it.
	leaving, lost bool
	gone          chan struct{} // if not nil, closed when nothing of the activation is left
}

// calls is a turn and the turns that it calls. The goroutine of the outermost turn has it,
// and is the worker of all its actors.
type calls struct {
	*chain.Chain[*activation]
	members []*enlisted        // the outermost turn's actor first
	undo    []undo             // what called turns have done, in order
	tokens  []actor.ReminderID // of the reminders that they have set, in order
	// fuel is what called turns have used, and ofAll the part of it that the calls of an opAll turn
	// have used, which have the limits of their types. fuelLimit bounds the rest; 0: no bound.
	fuel, ofAll, fuelLimit uint64
	// calls counts what was called, records are the called turns to record, and name is what
	// [chain.Chain.SetName] was given.
	calls   int
	records []calledRecord
	name    string
}

// calledRecord is a called turn that the chain's commit records: see forwarding.
type calledRecord struct {
	of    *enlisted
	call  *call
	reply actor.Payload
	bytes int // in the commit, of this record and those before it
}

// enlisted is an actor that a chain has.
type enlisted struct {
	a      *activation // nil: the type has no state, and the chain does not keep the actor
	call   *call       // which has the place of a's turn
	served *served     // what its turns run under
	// row is what the chain's next turn of the actor runs on, as rev names it; nil: not
	// read. Of the outermost turn's actor it is nil: that turn is its only one.
	row     *residency.Row
	rev     uint64
	changed bool
	// failed means that the caller of a recorded call knows that it has failed: the chain's commit keeps
	// earlier runs of the call from being applied.
	failed  bool
	effects turn.SideEffects
	open    openTurn // the turn of it that is under way, the innermost one; nil: none
}

// openTurn is a turn that waits for a called one, which may leave something to it.
type openTurn interface {
	Replace(state *overlay.State, rev uint64)
	GoOnFrom(before *turn.SideEffects)
}

// seen reports whether the chain has read the actor.
func (m *enlisted) seen() bool { return m.row != nil || m.open != nil }

// undo is what an actor was before a called turn.
type undo struct {
	of      *enlisted
	open    openTurn // the turn of it that went on from what the called one has left; nil: none was open
	row     *residency.Row
	changed bool
	effects turn.SideEffects
}

// savepoint is how much called turns have done.
type savepoint struct{ undo, tokens, records int }

// member returns what the chain has of an actor, nil if nothing.
func (ch *calls) member(key actor.Key) *enlisted {
	for _, m := range ch.members {
		if m.a.key == key {
			return m
		}
	}
	return nil
}

// changed reports whether called turns have changed any actor.
func (ch *calls) changed() bool {
	for _, m := range ch.members {
		if m.changed {
			return true
		}
	}
	return false
}

// read appends the actors that called turns have run on.
func (ch *calls) read(members []*member) []*member {
	for _, m := range ch.members[1:] {
		if m.row != nil {
			members = append(members, &m.a.member)
		}
	}
	return members
}

// setName gives the chain a name, by which other hosts know it.
func (ch *calls) setName(name string) {
	ch.name = name
	ch.SetName(name)
}

// key is the idempotency key of the last call: what began the chain, and the number of the call
// in it.
func (ch *calls) key(outermost *call) string {
	inv, began := &outermost.inv, ch.name
	switch outermost.cause {
	case actor.CauseKeyedCall:
		began = inv.Key.String() + "\x00" + inv.Method + "\x00" + inv.IdempotencyKey
	case actor.CauseFiring:
		began = fmt.Sprint(inv.Firing.Reminder, "\x00", inv.Firing.Step.Version)
	}
	sum := sha256.Sum256([]byte(began))
	return fmt.Sprintf("chain:%x:%d", sum[:16], ch.calls)
}

// fuelLeft is what called turns may still use; 0: as much as their types allow.
func (ch *calls) fuelLeft() uint64 {
	if ch.fuelLimit == 0 {
		return 0
	}
	return max(1, ch.fuelLimit-min(ch.fuelLimit, ch.fuel-ch.ofAll))
}

// size is what the chain adds to a commit, in bytes, beside the outermost turn.
func (ch *calls) size() int64 {
	size := 0
	for _, m := range ch.members[1:] {
		if m.changed {
			size += m.row.State.Size() + m.effects.Reminders.Size()
		}
	}
	return int64(size + ch.recorded())
}

// record adds a called turn to those that are recorded, and fails if they have more than one commit
// may have: nothing else bounds what a turn that calls without end has the host keep.
func (ch *calls) record(m *enlisted, c *call, reply actor.Payload) error {
	bytes := ch.recorded() + len(reply.Data) + recordCost
	if bytes > actor.MaxCommitBytes {
		return &decidedError{err: fmt.Errorf("%w: the replies of called turns have more than %d bytes", actor.ErrChainTooLarge, actor.MaxCommitBytes)}
	}
	ch.records = append(ch.records, calledRecord{m, c, reply, bytes})
	return nil
}

// recorded returns the bytes of records.
func (ch *calls) recorded() int {
	if n := len(ch.records); n > 0 {
		return ch.records[n-1].bytes
	}
	return 0
}

// timing returns what called turns do to timers.
func (ch *calls) timing() (all []timing) {
	for _, m := range ch.members[1:] {
		if changes := timer.NewChanges(m.effects.Timers.Effects(), m.row != nil && m.served.placed()); changes != nil {
			all = append(all, timing{m.a, changes})
		}
	}
	return all
}

// activations returns the actors that the chain has.
func (ch *calls) activations() []*activation {
	all := make([]*activation, len(ch.members))
	for i, m := range ch.members {
		all[i] = m.a
	}
	return all
}

func (ch *calls) savepoint() savepoint {
	return savepoint{len(ch.undo), len(ch.tokens), len(ch.records)}
}

// rollBack takes back what called turns have done since a savepoint, and returns the tokens of the
// reminders that they have set.
func (ch *calls) rollBack(to savepoint, next func() uint64) (tokens []actor.ReminderID) {
	for _, u := range slices.Backward(ch.undo[to.undo:]) {
		if u.open != nil {
			u.open.Replace(u.row.State, next())
			u.open.GoOnFrom(&u.effects)
			continue
		}
		u.of.row, u.of.changed, u.of.effects, u.of.rev = u.row, u.changed, u.effects, next()
	}
	tokens = ch.tokens[to.tokens:]
	ch.undo, ch.tokens, ch.records = ch.undo[:to.undo], ch.tokens[:to.tokens], ch.records[:to.records]
	return tokens
}

// pruneUndo forgets, of a call that has ended, what is not needed to take back the turn that called: of
// each actor the first state will do. A turn may call the same actor without end, and each call
// replaces a whole state. undo had began entries when the turn began, and before when it called.
func (ch *calls) pruneUndo(began, before int) {
	kept := ch.undo[:before]
	for _, u := range ch.undo[before:] {
		same := func(k undo) bool { return k.of == u.of && k.open == u.open }
		if !slices.ContainsFunc(kept[began:], same) {
			kept = append(kept, u)
		}
	}
	clear(ch.undo[len(kept):])
	ch.undo = kept
}

// ended forgets what called turns have left to a turn that is over: that of the turn itself is what
// counts.
func (ch *calls) ended(t openTurn) {
	ch.undo = slices.DeleteFunc(ch.undo, func(u undo) bool { return u.open == t })
}

// member and flight are an activation and a batch as package speculation sees them.
type (
	member    = speculation.Member[*activation, *call, *batch]
	flight    = speculation.Batch[*activation, *call, *batch]
	dependent = speculation.Dependent[*activation, *call, *batch]
)

// batch is what a [flight] commits: of its actors, which are one most of the time, all turns
// that are folded into it. It is a [pipeline.Work]. Who changes it has the locks of the
// shards of all its actors; who has one of them may read it.
type batch struct {
	in *flight
	// done gets the outcome of the commit, buffers is where buffers go back, and memory
	// counts what is held.
	done    func(b *batch, err error, now time.Time)
	buffers *sync.Pool
	memory  *callMemory

	// These do not change once the batch is a flight. parts and rows are in the same order.
	parts       []part
	rows        []actor.RowWrite // each actor's next version, if it is written
	onePart     [1]part          // what parts is made in
	oneRow      [1]actor.RowWrite
	records     []actor.IdempotencyRecord
	reminders   actor.ReminderEffects
	replies     int      // bytes of the records and reminders
	most        int      // how many of them there may be before the commit has to go
	replyMemory int64    // what the replies of calls count for in Config.CallMemory
	timers      []timing // of called turns

	commit actor.Commit // made when the batch is sent
	next   *batch       // another one that is to be sent
}

// lock locks what the end of the batch's flight may change.
func (b *batch) lock() (several []*shard) {
	if len(b.parts) == 1 {
		return b.parts[0].a.lock()
	}
	all := make([]*activation, len(b.parts))
	for i := range b.parts {
		all[i] = b.parts[i].a
	}
	return lockAll(all)
}

func (b *batch) unlock(several []*shard) { b.parts[0].a.unlock(several) }

// part is what a batch does to one of its actors.
type part struct {
	a       *activation
	state   *overlay.State // what the row gets, encoded when the batch is sent; nil: it keeps its own
	encoded actor.EncodedState
	buffer  *[]byte // of buffers, that encoded is in; nil: none
	after   *residency.Row
	bump    bool // the version moves on: a call with a key has failed
}

// timing is what called turns do to the timers of an actor.
type timing struct {
	a       *activation
	changes *timer.Changes
}

// maxReplyMemory bounds the replies that wait for one commit, recorded or not, in the
// same way.
const maxReplyMemory = 8 << 20

// find returns the record of a call in the batch that has the method and key of c.
func (b *batch) find(c *call) *actor.IdempotencyRecord {
	for i := range b.records {
		if r := &b.records[i]; r.Key == c.inv.IdempotencyKey && r.Method == c.inv.Method && r.Actor == c.inv.Key {
			return r
		}
	}
	return nil
}

// part returns the place of an activation in parts and rows; the first time, its part
// confirms the tip and nothing else.
func (b *batch) part(a *activation) int {
	for i := range b.parts {
		if b.parts[i].a == a {
			return i
		}
	}
	b.parts = append(b.parts, part{a: a, after: a.Tip})
	b.rows = append(b.rows, a.Tip.Next(a.key))
	return len(b.parts) - 1
}

// after is the row of an activation when the batch is committed.
func (b *batch) after(a *activation) *residency.Row { return b.parts[b.part(a)].after }

// writes reports whether the commit moves the version of the part's row on.
func (p *part) writes() bool { return p.state != nil || p.bump }

// recordCost is what a record takes beside its reply, roughly.
const recordCost = 256

// decideTimers lets changes to timers take effect, or drops them. The caller has the locks.
func decideTimers(all []timing, apply bool, now time.Time) {
	for _, t := range all {
		t.a.shard.timers.Decide(t.a.key, t.changes, apply, now)
	}
}
