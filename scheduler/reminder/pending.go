package reminder

import (
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/fair"
	"github.com/greenroom-run/greenroom/store"
)

// pending is what this instance has in memory of the reminders of its buckets. Each reminder is
// in the wheel until its time, or until it is to be read again; under way from when it is read
// until it is known how it goes on; set aside until there is room for its delivery; or waiting
// for a subscriber. Its methods may be called concurrently.
type pending struct {
	clock *dbClock
	wake  chan struct{} // something is due earlier than the loop expects

	mu       sync.Mutex
	owned    map[actor.Bucket]*ownedBucket
	wheel    *Wheel // nil before the service starts
	unread   unread
	loading  int // taken from the unread and not loaded yet
	memory   memoryUse
	underWay underWay
	retried  map[actor.ReminderID]struct{} // unread or deferred, or in the wheel to be read again after their time
	tries    map[actor.ReminderID]uint32   // how often one was postponed in a row
	deferred deferred
	waits    waits
	lines    lines
	stopping bool
	polls    uint64 // how often the owner has polled the store
}

func newPending(clock *dbClock, maxInMemory int) *pending {
	return &pending{
		clock: clock, wake: make(chan struct{}, 1), owned: map[actor.Bucket]*ownedBucket{},
		underWay: underWay{map[actor.ReminderID]loaded{}, map[actor.Bucket]int{}}, retried: map[actor.ReminderID]struct{}{},
		tries: map[actor.ReminderID]uint32{}, deferred: newDeferred(), unread: newUnread(), lines: newLines(),
		waits: waits{map[actor.ReminderID]struct{}{}, newCursors(), map[actor.ReminderID]Entry{}},
		memory: memoryUse{
			apps:    fair.NewAccount(fair.Bounds{Name: "reminders in memory", Total: int64(maxInMemory)}),
			buckets: map[actor.Bucket]*bucketUse{}, space: make(chan struct{}, 1),
		},
	}
}

// start has the wheel begin at a database time. Callers are served already.
func (p *pending) start(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wheel = NewWheel(now)
}

func (p *pending) started() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wheel != nil
}

// stop takes over no bucket and has nothing loaded any more.
func (p *pending) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopping = true
}

// countPoll counts a poll of the store.
func (p *pending) countPoll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.polls++
}

// leaveAll owns no bucket any more, and returns those that it had.
func (p *pending) leaveAll() map[actor.Bucket]*ownedBucket {
	p.mu.Lock()
	defer p.mu.Unlock()
	owned := p.owned
	p.owned = map[actor.Bucket]*ownedBucket{}
	return owned
}

// allocated begins to deliver a bucket that is new, if this process is still its owner: there is
// nothing in it, and all that comes is noticed here.
func (p *pending) allocated(r actor.BucketRow, window time.Duration, t *tenure) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stopping && t.host() == r.Owner {
		p.adopt(r)
		p.owned[r.Bucket].at = p.clock.now().Add(window)
	}
}

// epochOfFirstOwner is the epoch of a bucket's row under its first owner: that of one that
// was just allocated, which has none, and one more.
const epochOfFirstOwner = 2

// clocksApart is by how much one process may take database time for earlier than another
// does: as long as the database takes to say it.
const clocksApart = 10 * time.Second

// adopt begins to deliver a bucket, or takes its row's news; p.mu is held.
func (p *pending) adopt(r actor.BucketRow) {
	if b := p.owned[r.Bucket]; b != nil {
		if r.Epoch >= b.row.Epoch {
			b.row = r
		}
		return
	}
	b := &ownedBucket{
		bucket: r.Bucket, row: r, adopted: p.polls, knownTokens: knownTokens{high: int64(r.Used) - 1},
		bucketRate: bucketRate{rate: float64(r.Rate), savedRate: r.Rate, measured: time.Now()},
	}
	// If the database's clock was set back, it begins at the beginning.
	if till := r.DeliveredTill; !till.IsZero() && !till.After(p.clock.now()) {
		b.at, b.deliveredTill = till.Add(-startMargin), till
	}
	b.highest = newLastMinute(b.high)
	if !r.Closed || p.clock.now().Sub(r.ClosedAt) <= recentFor {
		b.seen = new(bitmap)
	}
	if r.Epoch > epochOfFirstOwner {
		b.deliveredBefore = p.clock.now().Add(clocksApart)
	}
	p.owned[r.Bucket] = b
	p.rouse()
}

func (p *pending) rouse() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// inMemory returns how many reminders there are that wait for their time, to be loaded, or for
// room for their delivery; p.mu is held.
func (p *pending) inMemory() int {
	return p.wheel.Len() + p.unread.count + p.loading + p.deferred.count + p.lines.parked
}

// counts returns how many reminders are in memory, how many of them wait for subscribers, and
// how many buckets are owned.
func (p *pending) counts() (inMemory, waiting, buckets int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wheel != nil {
		inMemory = p.inMemory()
	}
	return inMemory, len(p.waits.subscribers), len(p.owned)
}

// note takes a reminder into memory, and reports that it did, if it is one of this instance's, due within what was read
// already, and memory has space for it; otherwise it is left out until it is due and there is
// space. One that is under way is noted once it is done with. p.mu is held.
func (p *pending) note(id actor.ReminderID, at time.Time) (in bool) {
	if p.underWay.has(id) {
		p.underWay.changed(id, at)
		return false
	}
	b := p.owned[id.Bucket()]
	if b == nil {
		return false
	}
	b.saw(id)
	b.changed = true
	in = at.Before(b.at) || b.reading && at.Before(b.readTo)
	if in && !p.memory.fits(b.bucket, 1) {
		in = false
		b.leftOut.add(place{at: at}, at)
	}
	if b.reading {
		if b.noted[id.Token] = (time.Time{}); in {
			b.noted[id.Token] = at
		}
	} else {
		delete(b.noted, id.Token) // the next page may have it elsewhere
	}
	if b.passed != nil {
		b.passed[id.Token] = struct{}{}
	}
	if in {
		p.unwaitSet(id)
		p.put(b, id, at)
		p.rouse()
	}
	return in
}

// insert takes a head that was read into memory; p.mu is held.
func (p *pending) insert(b *ownedBucket, h store.ReminderHead) {
	b.saw(h.ID)
	_, waiting := p.waits.subscribers[h.ID]
	if _, retried := p.retried[h.ID]; !p.underWay.has(h.ID) && !retried && !waiting {
		p.put(b, h.ID, h.FireAt)
	}
}

// knows reports whether a reminder was read or noticed since it was set; p.mu is held.
func (p *pending) knows(id actor.ReminderID) bool {
	b := p.owned[id.Bucket()]
	return b != nil && b.hasSeen(id)
}

// committed notes the reminders of a commit that was applied. A message that is due is kept
// whole, and not read.
func (p *pending) committed(e *actor.ReminderEffects) {
	now := p.clock.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range e.Set {
		// One that was seen already was read before this notice of it.
		r := &e.Set[i]
		if r.Paused || p.knows(r.ID) || !p.note(r.ID, r.FireAt) {
			continue
		}
		if r.Message != nil && !r.FireAt.After(now) {
			whole := *r
			p.lines.wholes.keep(&whole)
		}
	}
	for i := range e.Steps {
		st := &e.Steps[i]
		if st.Then != nil && !st.Then.Paused {
			p.note(st.ID, st.Then.FireAt)
		}
	}
}

// noticed notes reminders that were changed at another instance.
func (p *pending) noticed(heads []store.ReminderHead) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range heads {
		if p.wheel != nil {
			p.note(h.ID, h.FireAt)
		}
	}
}

// put puts a reminder of a bucket into the wheel; p.mu is held.
func (p *pending) put(b *ownedBucket, id actor.ReminderID, at time.Time) Entry {
	p.memory.add(b.bucket, b.row.App)
	return p.wheel.Insert(id, at)
}

// unwaitSet removes the entry of a message that waits in the wheel to be accepted, and is to be there at another
// time: with two entries it would be delivered, and wait again, twice as often from then on. p.mu is held.
func (p *pending) unwaitSet(id actor.ReminderID) {
	if e, waits := p.waits.sets[id]; waits {
		delete(p.waits.sets, id)
		p.wheel.Cancel(e)
		p.memory.remove(id)
	}
}

// due takes what is due from the wheel, to be dealt by app, and returns when something is due
// next; false if nothing is. If more is due, it is called again: what is due at one instant does
// not keep the lock until all of it was taken.
func (p *pending) due() (now, next time.Time, some, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now = p.clock.now()
	due := p.wheel.Advance(now, nil, loadGroup)
	for _, d := range due {
		p.waits.events.due(d.ID)
		if e, waits := p.waits.sets[d.ID]; waits && !p.wheel.holds(e) {
			delete(p.waits.sets, d.ID)
		}
		if b := p.owned[d.ID.Bucket()]; b != nil {
			p.unread.add(b.row.App, d)
			p.retried[d.ID] = struct{}{}
			continue
		}
		delete(p.retried, d.ID) // its owner reads it
		delete(p.tries, d.ID)
		p.memory.remove(d.ID)
		p.lines.wholes.take(d.ID)
	}
	if len(due) >= loadGroup {
		return now, now, true, true
	}
	next, some = p.wheel.Next()
	return now, next, some, false
}

// take returns what is read next.
func (p *pending) take(queue *dispatch) group {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.unread.take(&p.deferred, queue)
	p.loading += len(g.due)
	for _, d := range g.due {
		p.memory.remove(d.ID)
		if b := p.owned[d.ID.Bucket()]; b != nil && !b.leftOut.isEmpty() && p.memory.fits(b.bucket, pageSize) {
			p.memory.announceSpace()
		}
	}
	return g
}

// room has what was set aside of a scope read, or what is unread of an app.
func (p *pending) room(of scope) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unread.room(of)
}

// loaded goes on after a group was read.
func (p *pending) loaded(g group) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loading -= len(g.due)
	p.unread.read(g)
}

// claim begins to load due reminders. It returns the IDs of those that are to be read, with
// their buckets, and those that are in memory whole.
func (p *pending) claim(due []Due) (ids []actor.ReminderID, of []*ownedBucket, whole []*actor.Reminder) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range due {
		r := p.lines.wholes.take(d.ID)
		delete(p.retried, d.ID)
		b := p.owned[d.ID.Bucket()]
		if b == nil || b.leaving {
			delete(p.tries, d.ID)
		}
		if b == nil || b.leaving || p.underWay.has(d.ID) || p.stopping {
			continue // the owner reads it, or the work under way on it decides what follows
		}
		p.underWay.begin(d.ID, false)
		if r != nil {
			whole = append(whole, r)
			continue
		}
		ids, of = append(ids, d.ID), append(of, b)
	}
	return ids, of, whole
}

// forget ends that a reminder is under way, and returns its [loaded.due]; p.mu is held.
func (p *pending) forget(id actor.ReminderID) (due time.Time) {
	delete(p.tries, id)
	return p.underWay.end(id)
}

// delay has a reminder read again after a while, and returns its entry in the wheel; 0 if another instance has its
// bucket. p.mu is held.
func (p *pending) delay(id actor.ReminderID, after time.Duration, tries uint32) Entry {
	b := p.keep(id, tries)
	if b == nil {
		return 0
	}
	defer p.rouse()
	return p.put(b, id, p.clock.now().Add(after))
}

// keep forgets a reminder that was loaded and is to be read again, but for how often it was
// postponed, and returns its bucket; nil if another instance has that. p.mu is held.
func (p *pending) keep(id actor.ReminderID, tries uint32) *ownedBucket {
	p.forget(id)
	b := p.owned[id.Bucket()]
	if b == nil {
		return nil
	}
	p.retried[id] = struct{}{}
	if tries > 0 {
		p.tries[id] = tries
	}
	return b
}

// readAgain has all buckets read again from what is left to deliver on.
func (p *pending) readAgain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.owned {
		b.at, b.afterToken = b.deliveredTill, nil
	}
}

func (p *pending) owns(b actor.Bucket) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.owned[b] != nil
}

// deliveredTill returns till when a bucket of this instance is delivered.
func (p *pending) deliveredTill(b actor.Bucket) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if owned := p.owned[b]; owned != nil {
		return owned.deliveredTill
	}
	return time.Time{}
}

// inheritedFor returns for how long a reminder may still be with a subscriber of a lost owner.
func (p *pending) inheritedFor(r *actor.Reminder) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.owned[r.ID.Bucket()]
	if b == nil || r.FireAt.After(b.dueBy) {
		return 0
	}
	return time.Until(b.held)
}
