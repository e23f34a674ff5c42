package reminder

import (
	"container/heap"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// Bounds of subscribers.
const (
	// MaxSubscriptions is how many subscriptions one subscriber has at most.
	MaxSubscriptions = 64
	// MaxExecutions is how many executions one subscriber has under way at most, and
	// DefaultExecutions how many if it does not say.
	MaxExecutions     = 1000
	DefaultExecutions = 16
	// maxWaiting is how many reminders of a subscription wait in memory, some 5 MB, and of
	// all those together that nobody subscribes to.
	maxWaiting = 100_000
	// maxExecutingBytes is how many bytes the payloads have at most that are with subscribers,
	// and half of it for each app: 64 MiB and 32.
	maxExecutingBytes = 1024 * actor.MaxReminderPayload
)

// Execution is a firing that a subscriber is asked to do.
type Execution struct {
	ID     uint64 // among those of its subscriber; they count up from 1
	Firing actor.Firing
	// Deadline is when an answer comes too late; by the local clock.
	Deadline time.Time
}

// Subscriber executes the firings of subscriptions. Its methods may be called
// concurrently.
type Subscriber struct {
	service *Service
	limit   int
	ready   chan struct{} // of capacity 1: there is something to take
	ended   chan struct{} // closed when it ends

	// Guarded by the lock of the service.
	subscriptions []*subscription
	last          uint64 // ID of the last execution
	open          map[uint64]*execution
	untaken       []*execution
	over          bool
}

// execution is one that was not answered yet.
type execution struct {
	Execution
	delivery *delivery
	timer    *time.Timer
	taken    bool
}

// subscription is what one instance has of one.
type subscription struct {
	key         actor.Key
	subscribers []*Subscriber // the first is asked first
	waiting     waitingHeap
	// resumed are those that were waiting and are being read.
	resumed map[actor.ReminderID]struct{}
	// overflowed: others wait in the store only.
	overflowed bool
	// full: it has subscribers with capacity, and the payloads that are with subscribers take
	// all of their memory.
	full bool
	// asked is when another instance last asked for what waits.
	asked time.Time
}

// wanted reports whether there are subscribers, here or elsewhere.
func (sub *subscription) wanted(now time.Time) bool {
	return len(sub.subscribers) > 0 || now.Sub(sub.asked) < 2*releaseWait
}

// waitingReminder is one that is due, and that nobody executes.
type waitingReminder struct {
	id actor.ReminderID
	at time.Time // its FireAt
}

// waitingHeap has the reminder that is due for the longest time first.
type waitingHeap []waitingReminder

func (h waitingHeap) Len() int           { return len(h) }
func (h waitingHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h waitingHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements [heap.Interface].
func (h *waitingHeap) Push(x any) { *h = append(*h, x.(waitingReminder)) } //nolint:forcetypeassert // of park

// Pop implements [heap.Interface].
func (h *waitingHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// subscriptions are those of an instance; guarded by the lock of the service.
type subscriptions struct {
	byKey map[actor.Key]*subscription
	// waiting are the reminders in all heaps.
	waiting map[actor.ReminderID]struct{}
	// changed is closed, and made anew, when something begins to wait, or a subscriber
	// comes or has capacity again.
	changed chan struct{}
	// executing counts executions whose outcome is not settled; settled is closed when
	// that becomes 0, if it is there.
	executing int
	settled   chan struct{}
	// bytes are the payloads of those, of each app and in all.
	bytesOf map[string]int
	bytes   int
	// overflowed: of subscriptions that are not in byKey some wait in the store only.
	overflowed bool
}

func newSubscriptions() subscriptions {
	return subscriptions{byKey: map[actor.Key]*subscription{}, waiting: map[actor.ReminderID]struct{}{}, changed: make(chan struct{}), bytesOf: map[string]int{}}
}

func (ss *subscriptions) of(key actor.Key) *subscription {
	sub := ss.byKey[key]
	if sub == nil {
		sub = &subscription{key: key, resumed: map[actor.ReminderID]struct{}{}, overflowed: ss.overflowed}
		ss.byKey[key] = sub
	}
	return sub
}

// tidy forgets a subscription that has nothing in memory and that nobody wants, as of a
// database time. A wanted subscription stays even when all of it was read: a new one in its
// place would count as one whose reminders wait partly in the store only.
func (ss *subscriptions) tidy(sub *subscription, now time.Time) {
	if len(sub.subscribers)+len(sub.waiting)+len(sub.resumed) > 0 || sub.wanted(now) {
		return
	}
	ss.overflowed = ss.overflowed || sub.overflowed
	delete(ss.byKey, sub.key)
}

// fits reports whether there is memory for another payload; one alone always fits.
func (ss *subscriptions) fits(app string, bytes int) bool {
	of := ss.bytesOf[app]
	return (of == 0 || of+bytes <= maxExecutingBytes/2) && (ss.bytes == 0 || ss.bytes+bytes <= maxExecutingBytes)
}

func (ss *subscriptions) holds(app string, bytes int) {
	ss.bytes += bytes
	if ss.bytesOf[app] += bytes; ss.bytesOf[app] == 0 {
		delete(ss.bytesOf, app)
	}
}

func (ss *subscriptions) announce() {
	close(ss.changed)
	ss.changed = make(chan struct{})
}

// Subscribe makes a subscriber of an app's subscriptions, which is asked for at most limit
// executions at a time; 0: [DefaultExecutions]. It must be closed. Errors are
// [*actor.ArgumentError] and [actor.ErrStopping].
func (s *Service) Subscribe(app string, names []string, limit int) (*Subscriber, error) {
	if limit == 0 {
		limit = DefaultExecutions
	}
	if err := validateSubscription(app, names, limit); err != nil {
		return nil, err
	}
	c := &Subscriber{service: s, limit: limit, ready: make(chan struct{}, 1), ended: make(chan struct{}), open: map[uint64]*execution{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping || s.wheel == nil {
		return nil, fmt.Errorf("subscribe to reminders: %w", actor.ErrStopping)
	}
	for _, name := range names {
		sub := s.subs.of(actor.SubscriptionKey(app, name))
		sub.subscribers = append(sub.subscribers, c)
		c.subscriptions = append(c.subscriptions, sub)
	}
	s.subs.announce()
	s.resume(c.subscriptions)
	return c, nil
}

func validateSubscription(app string, names []string, limit int) error {
	bad := func(field, problem string, args ...any) error {
		return &actor.ArgumentError{Field: field, Problem: fmt.Sprintf(problem, args...)}
	}
	if err := actor.ValidateName("app", app); err != nil {
		return err
	}
	if len(names) == 0 || len(names) > MaxSubscriptions {
		return bad("subscriptions", "are %d; give 1 to %d", len(names), MaxSubscriptions)
	}
	if limit < 1 || limit > MaxExecutions {
		return bad("max executions", "are %d; give 1 to %d, or 0 for %d", limit, MaxExecutions, DefaultExecutions)
	}
	for i, name := range names {
		if err := actor.ValidateName("subscription", name); err != nil {
			return err
		}
		if slices.Contains(names[:i], name) {
			return bad("subscriptions", "have %s twice; give each once", name)
		}
	}
	return nil
}

// readOverflowed has everything read that is due, if some of it was left in the store for
// which there is space now; s.mu is held.
func (s *Service) readOverflowed(now time.Time) {
	read := false
	for _, sub := range s.subs.byKey {
		read = read || sub.overflowed && len(sub.waiting) < maxWaiting/2 && sub.wanted(now)
		s.subs.tidy(sub, now) // nobody may want it any more
	}
	if !read {
		return
	}
	// All are read again, and those there is no space for are noted again.
	s.subs.overflowed = false
	for _, sub := range s.subs.byKey {
		sub.overflowed = false
		s.subs.tidy(sub, now)
	}
	for _, b := range s.owned {
		b.at, b.afterToken = b.deliveredTill, nil
	}
}

// Ready tells when there may be something to take.
func (c *Subscriber) Ready() <-chan struct{} { return c.ready }

// Ended is closed when the subscriber is given no executions any more, and all that it had
// are over: it was closed, or the service stops.
func (c *Subscriber) Ended() <-chan struct{} { return c.ended }

// Take returns the executions that were not taken before.
func (c *Subscriber) Take() []Execution {
	c.service.mu.Lock()
	defer c.service.mu.Unlock()
	list := make([]Execution, 0, len(c.untaken))
	for _, x := range c.untaken {
		if c.open[x.ID] == x { // its time is not out
			x.taken = true
			list = append(list, x.Execution)
		}
	}
	c.untaken = nil
	return list
}

// Answer says that an execution is done, or, with an error, that it failed. One whose time
// was out is passed over; one that there never was is an [*actor.ArgumentError].
func (c *Subscriber) Answer(id uint64, failure error) error {
	s := c.service
	s.mu.Lock()
	if id == 0 || id > c.last {
		last := c.last
		s.mu.Unlock()
		return &actor.ArgumentError{Field: "execution", Problem: fmt.Sprintf("%d was never sent; the last one was %d", id, last)}
	}
	x := c.close(id)
	s.mu.Unlock()
	if x == nil {
		return nil
	}
	if failure != nil {
		s.ended(x.delivery, failure, false)
		s.settle(x.delivery)
		return nil
	}
	plan := &x.delivery.plan
	s.commitAlone(s.queue.ctx, step{
		id: x.delivery.reminder.ID, step: plan.Firing.Step, missed: plan.Firing.Missed, policy: x.delivery.reminder.Missed.Kind,
		executed: x.delivery,
	})
	return nil
}

// close takes an execution off the open ones, nil if it is not among them, and gives its
// place to another; s.mu is held.
func (c *Subscriber) close(id uint64) *execution {
	x := c.open[id]
	if x == nil {
		return nil
	}
	x.timer.Stop()
	delete(c.open, id)
	if !c.over {
		c.service.subs.announce()
		c.service.resume(c.subscriptions)
	}
	return x
}

// Close ends the subscriber. What it has not answered is executed again.
func (c *Subscriber) Close() {
	s := c.service
	s.mu.Lock()
	if c.over {
		s.mu.Unlock()
		return
	}
	c.over = true
	for _, sub := range c.subscriptions {
		sub.subscribers = slices.DeleteFunc(sub.subscribers, func(x *Subscriber) bool { return x == c })
		s.subs.tidy(sub, s.clock.now())
	}
	var open []*execution
	for id := range c.open {
		open = append(open, c.close(id))
	}
	close(c.ended)
	s.mu.Unlock()
	for _, x := range open {
		s.unanswered(x)
	}
}

// unanswered has an execution done again.
func (s *Service) unanswered(x *execution) {
	if x.taken || s.queue.ctx.Err() != nil {
		s.ended(x.delivery, actor.ErrCanceled, false)
	} else if r := x.delivery.reminder; s.borrows(r.ID) {
		s.giveBack(r, 0)
	} else {
		s.again(r.ID, 0) // nobody has seen it
	}
	s.settle(x.delivery)
}

// timedOut is called when nobody has answered an execution in time.
func (c *Subscriber) timedOut(id uint64) {
	c.service.mu.Lock()
	x := c.close(id)
	c.service.mu.Unlock()
	if x != nil {
		c.service.ended(x.delivery, actor.ErrDeadline, true)
		c.service.settle(x.delivery)
	}
}

// settle counts an execution off.
func (s *Service) settle(d *delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subs.holds(d.reminder.Key.App, -len(d.reminder.Payload.Data))
	for _, sub := range s.subs.byKey {
		if sub.full {
			sub.full = false
			s.subs.announce()
			s.resume([]*subscription{sub})
		}
	}
	if s.subs.executing--; s.subs.executing == 0 && s.subs.settled != nil {
		close(s.subs.settled)
		s.subs.settled = nil
	}
}

// offer has a subscriber execute a firing, or lets it wait for one.
func (s *Service) offer(d *delivery) {
	if !s.offered(d) {
		s.giveBack(d.reminder, firstWait) // it may come here again
	}
}

// offered is offer, and reports false for what was borrowed and cannot be executed: it waits
// elsewhere.
func (s *Service) offered(d *delivery) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub := s.subs.of(d.reminder.Key)
	id := d.reminder.ID
	_, resumed := sub.resumed[id]
	// Those that were due before come first.
	if (resumed || len(sub.waiting)+len(sub.resumed) == 0) && s.execute(sub, d) {
		return true
	}
	if s.running[id] {
		s.subs.tidy(sub, s.clock.now())
		return false
	}
	s.forget(id)
	s.park(sub, id, d.reminder.FireAt)
	return true
}

// park lets a reminder wait; s.mu is held.
func (s *Service) park(sub *subscription, id actor.ReminderID, at time.Time) {
	switch _, there := s.subs.waiting[id]; {
	case there || s.owned[id.Bucket()] == nil:
		s.subs.tidy(sub, s.clock.now())
		return // or its owner will see to it
	case len(sub.waiting) >= maxWaiting, !sub.wanted(s.clock.now()) && len(s.subs.waiting) >= maxWaiting:
		sub.overflowed = true
		s.subs.tidy(sub, s.clock.now())
		return
	}
	s.subs.waiting[id] = struct{}{}
	heap.Push(&sub.waiting, waitingReminder{id, at})
	s.subs.announce()
	s.resume([]*subscription{sub})
}

// pop takes up to n reminders that wait the longest; s.mu is held.
func (s *Service) pop(sub *subscription, n int) []waitingReminder {
	var list []waitingReminder
	for len(list) < n && len(sub.waiting) > 0 {
		w := heap.Pop(&sub.waiting).(waitingReminder) //nolint:forcetypeassert // of park
		delete(s.subs.waiting, w.id)
		if s.owned[w.id.Bucket()] != nil {
			list = append(list, w)
		}
	}
	return list
}

// resume reads waiting reminders, up to the capacity of their subscribers; s.mu is held.
func (s *Service) resume(subs []*subscription) {
	for _, sub := range subs {
		if s.stopping || s.elsewhere() || len(sub.waiting) == 0 || len(sub.resumed) > 0 {
			continue // if some are being read, it is called when they have been
		}
		list := s.pop(sub, min(sub.capacity(), loadGroup))
		if len(list) == 0 {
			continue
		}
		due := make([]Due, len(list))
		for i, w := range list {
			sub.resumed[w.id] = struct{}{}
			due[i] = Due{w.id, w.at}
		}
		s.wg.Go(func() {
			s.load(s.queue.ctx, due)
			s.mu.Lock()
			defer s.mu.Unlock()
			clear(sub.resumed)
			s.resume([]*subscription{sub})
			s.subs.tidy(sub, s.clock.now())
		})
	}
}

// capacity is how many more executions the subscribers take.
func (sub *subscription) capacity() int {
	if sub.full {
		return 0
	}
	n := 0
	for _, c := range sub.subscribers {
		n += c.limit - len(c.open)
	}
	return n
}

// execute gives a firing to the next subscriber in turn among those with capacity. It reports
// whether a subscriber got the firing; s.mu is held.
func (s *Service) execute(sub *subscription, d *delivery) bool {
	if s.stopping || s.elsewhere() {
		return false
	}
	at := slices.IndexFunc(sub.subscribers, func(c *Subscriber) bool { return len(c.open) < c.limit })
	if at < 0 {
		return false
	}
	app, bytes := d.reminder.Key.App, len(d.reminder.Payload.Data)
	if !s.subs.fits(app, bytes) {
		sub.full = true
		return false
	}
	s.subs.holds(app, bytes)
	c := sub.subscribers[at]
	sub.subscribers = append(slices.Delete(sub.subscribers, at, at+1), c)
	d.late = max(0, s.clock.now().Sub(d.reminder.FireAt))
	c.last++
	id := c.last
	x := &execution{Execution: Execution{id, d.plan.Firing, time.Now().Add(s.cfg.ExecutionTimeout)}, delivery: d}
	x.timer = time.AfterFunc(s.cfg.ExecutionTimeout, func() { c.timedOut(id) })
	c.open[id] = x
	c.untaken = append(c.untaken, x)
	s.subs.executing++
	if b := s.owned[d.reminder.ID.Bucket()]; b != nil {
		b.begun++
	}
	select {
	case c.ready <- struct{}{}:
	default:
	}
	return true
}

// executed records the outcome of the step of an execution that was done, and reports whether
// the step is to be committed once more.
func (s *Service) executed(st *step, taken bool, err error) (again bool) {
	outcome := DeliveryFired
	s.mu.Lock()
	switch {
	case err == nil:
		s.stats.Fired++
	case taken:
		s.stats.Taken++
		outcome = DeliveryTaken
	case !s.stopping:
		s.mu.Unlock()
		return true
	default:
		outcome = DeliveryRetried // by the next owner
		s.stats.Retried++
	}
	s.mu.Unlock()
	if s.cfg.Events.Delivered != nil {
		s.cfg.Events.Delivered(DeliveryEnd{st.executed.reminder.Key, outcome, st.executed.late})
	}
	s.settle(st.executed)
	return false
}

// awaitExecutions returns when none is under way.
func (s *Service) awaitExecutions() {
	s.mu.Lock()
	if s.subs.executing == 0 {
		s.mu.Unlock()
		return
	}
	if s.subs.settled == nil {
		s.subs.settled = make(chan struct{})
	}
	settled := s.subs.settled
	s.mu.Unlock()
	<-settled
}

// endSubscribers closes all of them.
func (s *Service) endSubscribers() {
	s.mu.Lock()
	var all []*Subscriber
	for _, sub := range s.subs.byKey {
		all = append(all, sub.subscribers...)
	}
	s.mu.Unlock()
	for _, c := range all {
		c.Close()
	}
}

// dropWaiting forgets what waits of buckets that are not owned any more; s.mu is held.
func (s *Service) dropWaiting() {
	for _, sub := range s.subs.byKey {
		before := len(sub.waiting)
		sub.waiting = slices.DeleteFunc(sub.waiting, func(w waitingReminder) bool {
			if s.owned[w.id.Bucket()] != nil {
				return false
			}
			delete(s.subs.waiting, w.id)
			return true
		})
		if len(sub.waiting) != before {
			heap.Init(&sub.waiting)
			s.subs.tidy(sub, s.clock.now())
		}
	}
}

// sleep waits, and reports false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
