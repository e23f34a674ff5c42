package executor

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/internal/fair"
)

// Beginners times as many slots exist for guests that have not used the fuel of a short turn yet.
const Beginners = 8

const (
	// slice is the fuel that a guest uses between two of its turns in the queue: as much as
	// an engine grants at a time.
	slice = 100_000
	// begin is the fuel that a guest uses before its turn goes into the queue again: most turns
	// end before, and have no other go between.
	begin = 5 * slice
	// unknown is the cost at which a turn is dealt that begins, before it is known what it
	// uses: most turns are short, and several of them go in the time of a slice.
	unknown = slice / 8
	// least is what any turn costs beside the work of its guest.
	least = slice / 20
)

const (
	// idleEvery is about how often a processor is left without work where all slots are taken.
	idleEvery = 250 * time.Microsecond
	// idleFor is for how long: with a microsecond, the pause is often over before Go's scheduler
	// has come to the network.
	idleFor = 20 * time.Microsecond
)

// Slots are the places of the guests that run at the same time, which [Pool]s share. All methods may
// be called concurrently.
type Slots struct {
	most  uint64
	first uint64 // most for turns that begin, while none waits
	// state has the number of slots that are taken in its low half, and of ready turns in its high
	// half: those that wait and whose pool may have another slot. The number of ready turns changes
	// under mu alone.
	state atomic.Uint64
	// idled is when idle left a processor without work last, in nanoseconds of Unix time.
	idled atomic.Int64
	pools map[string]*Pool

	mu    sync.Mutex
	order []*Pool // as configured
	now   int64   // the latest virtual time at which a pool was dealt a slot
}

const waitingOne, takenMask = 1 << 32, 1<<32 - 1

// New returns so many slots, at least one, for pools, which [Pools] has completed.
func New(number int, pools []PoolConfig) *Slots {
	most := uint64(max(1, number))
	s := &Slots{most: most, first: Beginners * most, pools: make(map[string]*Pool, len(pools))}
	for _, cfg := range pools {
		p := newPool(s, cfg)
		s.order, s.pools[cfg.Name] = append(s.order, p), p
	}
	return s
}

// Pool returns a pool by its name; nil if there is none.
func (s *Slots) Pool(name string) *Pool { return s.pools[name] }

// Pools returns all pools, in the order of the configuration.
func (s *Slots) Pools() []*Pool { return s.order }

// Waiting returns how many turns wait for a slot.
func (s *Slots) Waiting() (n int) {
	for _, p := range s.order {
		n += p.Waiting()
	}
	return n
}

// take takes a slot if one is free and no ready turn waits.
func (s *Slots) take() bool {
	for {
		state := s.state.Load()
		if state >= s.first { // or others wait
			return false
		}
		if s.state.CompareAndSwap(state, state+1) {
			return true
		}
	}
}

// full reports whether no slot is free.
func (s *Slots) full() bool { return s.state.Load()&takenMask >= s.most }

// idle leaves a processor without work for a moment, from time to time: Go's scheduler looks for
// what has come from the network only where it has nothing else to run, or after 10 ms. On
// a single processor a moment is a millisecond, since nobody else ends it.
func (s *Slots) idle() {
	last, now := s.idled.Load(), time.Now().UnixNano()
	if s.most > 1 && now-last >= int64(idleEvery) && s.idled.CompareAndSwap(last, now) {
		time.Sleep(idleFor) //nolint:forbidigo // nothing is waited for
	}
}

// deal gives the slots that are free to the turns that are next. The caller has the lock.
func (s *Slots) deal() {
	for {
		state := s.state.Load()
		if state < waitingOne || state&takenMask >= s.most {
			return
		}
		s.next().deal()
	}
}

// pass moves the virtual time on, and keeps it small. The caller has the lock.
func (s *Slots) pass(to int64) {
	s.now = max(s.now, to)
	if s.now < 1<<60 {
		return
	}
	for _, p := range s.order {
		p.at = max(0, p.at-s.now)
	}
	s.now = 0
}

// next returns the pool that is dealt a slot next: of those with ready turns the one with the least
// virtual time. The caller has the lock, and there is one.
func (s *Slots) next() *Pool {
	var next *Pool
	for _, p := range s.order {
		if p.ready > 0 && (next == nil || p.at < next.at) {
			next = p
		}
	}
	return next
}

// PoolKey is the key of a context's value that is the [Pool] of its turn, for guests that run to
// initialize an instance.
type PoolKey struct{}

// PoolOf returns the pool of a turn with a context, and PoolUser of s if the context is of none.
func (s *Slots) PoolOf(ctx context.Context) *Pool {
	if p, _ := ctx.Value(PoolKey{}).(*Pool); p != nil {
		return p
	}
	return s.pools[PoolUser]
}

const (
	// precision is how many units of virtual time a unit of fuel is for a pool of weight 1.
	precision = 16
	// unbounded is the concurrency of a pool that may have all slots.
	unbounded = takenMask
)

// Pool has the turns of some types, which wait for their slots apart from those of other pools.
type Pool struct {
	name   string
	slots  *Slots
	most   uint64
	weight int64
	// state has the number of turns with a slot in its low half, and of those that wait in its
	// high half. The number that wait changes under the lock of slots alone, and is that of queue.
	state atomic.Uint64

	// The lock of slots guards the rest.
	queue *fair.Queue[*Slot]
	ready int // how many of those that wait count as ready: all, or none if the pool has all that it may
	// at is the virtual time of the pool: what it was served while turns waited, by its weight.
	at int64
}

func newPool(s *Slots, cfg PoolConfig) *Pool {
	most := uint64(unbounded)
	if cfg.Concurrency > 0 {
		most = uint64(cfg.Concurrency)
	}
	return &Pool{name: cfg.Name, slots: s, most: most, weight: int64(max(1, cfg.Weight)), queue: fair.New[*Slot](fair.Config{Quantum: slice})}
}

// Name returns the name of the pool.
func (p *Pool) Name() string { return p.name }

// Waiting returns how many turns of the pool wait for a slot.
func (p *Pool) Waiting() int { return int(p.state.Load() / waitingOne) }

// Running returns how many turns of the pool have a slot.
func (p *Pool) Running() int { return int(p.state.Load() & takenMask) }

// take takes a slot if one is free, the pool may have it, and no turn waits for it.
func (p *Pool) take() bool {
	for {
		state := p.state.Load()
		if state >= p.most { // or others of the pool wait
			return false
		}
		if p.state.CompareAndSwap(state, state+1) {
			break
		}
	}
	if p.slots.take() {
		return true
	}
	// The turn goes into the queue, and deals: no other has missed a slot because of it.
	p.state.Add(^uint64(0))
	return false
}

// crowded reports whether a turn waits that could have the slot of one of the pool, or more turns
// have a slot than may keep it.
func (p *Pool) crowded() bool {
	return p.slots.state.Load() > p.slots.most || p.state.Load() >= waitingOne
}

// push has a turn wait. The caller has the lock.
func (p *Pool) push(t *Slot) {
	if err := p.queue.Push(&t.entry); err != nil {
		panic(err) // the queue has no bounds
	}
	p.state.Add(waitingOne)
	p.recount()
}

// withdraw takes back what push did. The caller has the lock.
func (p *Pool) withdraw(t *Slot) {
	p.queue.Remove(&t.entry)
	p.state.Add(^uint64(waitingOne - 1))
	p.recount()
}

// recount brings up to date how many turns of the pool are ready. The caller has the lock.
//
// While turns of the pool wait, the number that have a slot only falls outside of the lock.
func (p *Pool) recount() {
	ready := p.Waiting()
	if uint64(p.Running()) >= p.most {
		ready = 0
	}
	if p.ready == 0 { // what it could not use meanwhile it does not get later
		p.at = max(p.at, p.slots.now)
	}
	p.slots.state.Add(uint64(int64(ready-p.ready)) * waitingOne)
	p.ready = ready
}

// deal gives a free slot to the turn of the pool that is next. The caller has the lock, and a turn is
// ready.
func (p *Pool) deal() {
	t := p.queue.Next().Value
	p.slots.pass(p.at)
	p.at += p.share(t.entry.Cost)
	p.slots.state.Add(1)
	p.state.Add(^uint64(waitingOne - 2)) // one waits less, one has a slot more
	p.recount()
	t.dealt <- struct{}{}
}

// free counts a slot less. The caller has the lock.
func (p *Pool) free() {
	p.slots.state.Add(^uint64(0))
	p.state.Add(^uint64(0))
	p.recount()
}

// giveBack frees the slot of a turn that used so much fuel of it.
func (p *Pool) giveBack(t *Slot, used uint64) {
	// The pool's first: who pushes a turn in between sees it ready, and so does what follows.
	waits := p.state.Add(^uint64(0)) >= waitingOne
	if p.slots.state.Add(^uint64(0)) < waitingOne && !waits {
		return
	}
	p.slots.mu.Lock()
	defer p.slots.mu.Unlock()
	p.charge(t, used)
	p.recount()
	p.slots.deal()
}

// charge has the app of a turn, and the pool, pay for the fuel that the turn used of its slot. The
// caller has the lock.
func (p *Pool) charge(t *Slot, used uint64) {
	t.entry.App, t.entry.Type = t.who.App, t.who.Type
	p.correct(t, int64(used)+least)
}

// correct replaces the cost at which a turn was dealt its slot. What a turn used while none waited
// is not known; the pool pays for as much as a turn may use between two grants at most.
func (p *Pool) correct(t *Slot, cost int64) {
	p.queue.Correct(&t.entry, cost)
	p.at += p.share(min(cost, begin+least) - t.entry.Cost)
}

// share is what the pool pays for so much fuel, in virtual time.
func (p *Pool) share(fuel int64) int64 { return fuel * precision / p.weight }

// Slot is what a turn has of the [Slots]: one or none. The goroutine that runs the turn uses
// it. It is used again, from Enter to Leave; the zero value is ready for Enter.
type Slot struct {
	pool   *Pool
	ctx    context.Context
	who    *actor.Key
	entry  fair.Entry[*Slot]
	dealt  chan struct{} // gets a value when the slots are dealt to the turn
	has    bool
	lender *Slot  // whose slot it is, if it was taken from a turn that waits
	used   uint64 // fuel, of the slot that it has or had last
	may    uint64 // fuel that it may use before it goes into the queue again
	total  uint64 // fuel, since Enter
}

var _ engine.Processor = (*Slot)(nil)

// Enter waits for a slot of a pool for a turn of an actor. The error is that of the context, if
// that ends meanwhile, and then the turn has none.
func (t *Slot) Enter(ctx context.Context, pool *Pool, who *actor.Key) error {
	t.pool, t.ctx, t.who, t.used, t.may, t.total, t.entry.Cost = pool, ctx, who, 0, begin, 0, 0
	return t.acquire()
}

// Leave gives the slot back, if the turn has one, after so much fuel since Enter. It is safe
// twice.
func (t *Slot) Leave(fuel uint64) {
	used := t.used + fuel - min(fuel, t.total)
	switch {
	case t.lender != nil:
		t.returnTo(t.lender, used)
	case t.has:
		t.has = false
		t.pool.giveBack(t, used)
	}
	t.ctx, t.who, t.lender = nil, nil, nil
}

// TakeFrom is Enter with the slot of a turn that waits for this one, whatever its pool, and has it
// back with Leave. It reports false if that turn has none.
func (t *Slot) TakeFrom(ctx context.Context, waiting *Slot, who *actor.Key) bool {
	if !waiting.has {
		return false
	}
	t.pool, t.ctx, t.who, t.used, t.may, t.total = waiting.pool, ctx, who, waiting.used, waiting.may, 0
	t.entry.Cost = waiting.entry.Cost // at which the slot was dealt, and not this turn's last one
	t.has, waiting.has, t.lender = true, false, waiting
	return true
}

// returnTo gives the slot back to the turn that it was taken from.
func (t *Slot) returnTo(waiting *Slot, used uint64) {
	if !t.has { // its context has ended while it was in the queue
		waiting.Resume()
		return
	}
	t.has, waiting.has = false, true
	waiting.used, waiting.may, waiting.entry.Cost = used, t.may, t.entry.Cost
}

// Pause implements [engine.Processor].
func (t *Slot) Pause() bool {
	if !t.has {
		return false
	}
	t.has = false
	t.pool.giveBack(t, t.used)
	return true
}

// Resume implements [engine.Processor].
func (t *Slot) Resume() {
	t.used, t.entry.Cost = 0, 0
	_ = t.acquire() // the guest finds out by itself
}

// acquire takes a slot or waits for one.
func (t *Slot) acquire() error {
	if t.pool.take() {
		t.has = true
		return nil
	}
	t.ready(unknown)
	s := t.pool.slots
	s.mu.Lock()
	t.pool.push(t)
	s.deal()
	s.mu.Unlock()
	return t.await()
}

// ready readies the turn for the queue.
func (t *Slot) ready(cost int64) {
	if t.dealt == nil {
		t.dealt = make(chan struct{}, 1)
		t.entry.Value = t
	}
	t.entry.App, t.entry.Type, t.entry.Cost = t.who.App, t.who.Type, cost
}

// Yield implements [engine.Processor]. The turn gives its slot to the one that is next, if any
// waits.
func (t *Slot) Yield(fuel uint64) {
	t.used += fuel
	t.total += fuel
	if t.has && t.used >= t.may && t.pool.crowded() {
		t.yield()
	}
	if t.has && t.pool.slots.full() {
		t.pool.slots.idle()
	}
	runtime.Gosched()
}

func (t *Slot) yield() {
	p, s := t.pool, t.pool.slots
	s.mu.Lock()
	if !p.crowded() {
		s.mu.Unlock()
		return
	}
	p.charge(t, t.used)
	t.used, t.may = 0, slice
	t.ready(slice)
	p.push(t)
	t.has = false
	p.free()
	s.deal()
	s.mu.Unlock()
	_ = t.await() // the guest finds out by itself
}

// await waits until the slots are dealt to the turn, which is in the queue.
func (t *Slot) await() error {
	select {
	case <-t.dealt: // at once, and Done of the context is not needed
		t.has = true
		return nil
	default:
	}
	select {
	case <-t.dealt:
		t.has = true
		return nil
	case <-t.ctx.Done():
	}
	p, s := t.pool, t.pool.slots
	s.mu.Lock()
	select {
	case <-t.dealt: // meanwhile: it goes to another
		p.free()
		p.correct(t, 0)
		s.deal()
	default:
		p.withdraw(t)
	}
	s.mu.Unlock()
	return t.ctx.Err()
}
