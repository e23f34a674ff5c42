package reminder

import (
	"container/heap"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/fair"
)

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

// subscribers are those of an instance, with what waits for them and what they execute. Its
// methods may be called concurrently.
type subscribers struct {
	deliveries *deliveries
	outcomes   outcomes
	tasks      *tasks

	mu    sync.Mutex
	byKey map[actor.Key]*subscription
	// changed is closed, and made anew, when something begins to wait, or a subscriber
	// comes or has capacity again.
	changed chan struct{}
	// executing counts executions that have not finished; idle is closed when
	// that becomes 0, if it is there.
	executing int
	idle      chan struct{}
	bytes     *fair.Account // payloads of those
	// served are the subscriptions that have subscribers, and full those of them that had no
	// memory for a payload, in the order in which they found none.
	served map[*subscription]struct{}
	full   []*subscription
	// overflowed: of subscriptions that are not in byKey some wait in the store only.
	overflowed bool
	stopping   bool
}

func newSubscribers(ds *deliveries, t *tasks) *subscribers {
	return &subscribers{deliveries: ds, outcomes: ds.outcomes, tasks: t, byKey: map[actor.Key]*subscription{}, changed: make(chan struct{}), served: map[*subscription]struct{}{},
		bytes: fair.NewAccount(fair.Bounds{Name: "bytes of payloads with subscribers", Total: maxExecutingBytes, PerApp: maxExecutingBytes / 2, Always: actor.MaxReminderPayload, Most: maxExecutingBytes / 2})}
}

// stop takes no subscriber, and has nothing executed any more.
func (ss *subscribers) stop() {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.stopping = true
}

// now is database time.
func (ss *subscribers) now() time.Time { return ss.deliveries.clock.now() }

func (ss *subscribers) of(key actor.Key) *subscription {
	sub := ss.byKey[key]
	if sub == nil {
		sub = &subscription{key: key, resumed: map[actor.ReminderID]struct{}{}, overflowed: ss.overflowed}
		ss.byKey[key] = sub
	}
	return sub
}

// tidy forgets a subscription that has nothing in memory and that nobody wants. A
// wanted subscription stays even when all of it was read: a new one in its place would count as one whose reminders wait partly in the store only.
func (ss *subscribers) tidy(sub *subscription) {
	if len(sub.subscribers)+len(sub.waiting)+len(sub.resumed) > 0 || sub.wanted(ss.now()) {
		return
	}
	ss.overflowed = ss.overflowed || sub.overflowed
	delete(ss.byKey, sub.key)
}

func (ss *subscribers) announce() {
	close(ss.changed)
	ss.changed = make(chan struct{})
}

// subscribe is [Service.Subscribe].
func (ss *subscribers) subscribe(app string, names []string, limit int) (*Subscriber, error) {
	if limit == 0 {
		limit = DefaultExecutions
	}
	if err := validateSubscription(app, names, limit); err != nil {
		return nil, err
	}
	c := &Subscriber{subs: ss, limit: limit, ready: make(chan struct{}, 1), ended: make(chan struct{}), open: map[uint64]*execution{}}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.stopping || !ss.outcomes.started() {
		return nil, fmt.Errorf("subscribe to reminders: %w", actor.ErrStopping)
	}
	for _, name := range names {
		sub := ss.of(actor.SubscriptionKey(app, name))
		sub.subscribers = append(sub.subscribers, c)
		ss.served[sub] = struct{}{}
		c.subscriptions = append(c.subscriptions, sub)
	}
	ss.announce()
	ss.resume(c.subscriptions)
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
// which there is space now; ss.mu is held.
func (ss *subscribers) readOverflowed(now time.Time) {
	read := false
	for _, sub := range ss.byKey {
		read = read || sub.overflowed && len(sub.waiting) < maxWaiting/2 && sub.wanted(now)
		ss.tidy(sub) // nobody may want it any more
	}
	if !read {
		return
	}
	// All are read again, and those there is no space for are noted again.
	ss.overflowed = false
	for _, sub := range ss.byKey {
		sub.overflowed = false
		ss.tidy(sub)
	}
	ss.outcomes.readAgain()
}

// unanswered has an execution done again.
func (ss *subscribers) unanswered(x *execution) {
	if x.taken || ss.deliveries.queue.ctx.Err() != nil {
		ss.deliveries.ended(x.delivery, actor.ErrCanceled, false)
	} else if r := x.delivery.reminder; ss.outcomes.borrows(r.ID) {
		ss.deliveries.giveBack(r, 0)
	} else {
		ss.outcomes.again(r.ID, 0) // nobody has seen it
	}
	ss.finished(x.delivery)
}

// finished counts an execution off.
func (ss *subscribers) finished(d *delivery) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.bytes.Give(d.reminder.Key.App, int64(len(d.reminder.Payload.Data)))
	if full := ss.full; len(full) > 0 {
		ss.full = nil
		for _, sub := range full {
			sub.full = false
		}
		ss.announce()
		ss.resume(full)
	}
	if ss.executing--; ss.executing == 0 && ss.idle != nil {
		close(ss.idle)
		ss.idle = nil
	}
}

// offer begins the execution of a firing by a subscriber, or lets the firing wait for one. It returns
// false for a borrowed reminder that cannot be executed now, which the caller gives back.
func (ss *subscribers) offer(d *delivery) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	sub := ss.of(d.reminder.Key)
	id := d.reminder.ID
	_, resumed := sub.resumed[id]
	// Those that were due before come first.
	if (resumed || len(sub.waiting)+len(sub.resumed) == 0) && ss.execute(sub, d) {
		return true
	}
	if ss.outcomes.borrows(id) {
		ss.tidy(sub)
		return false
	}
	ss.park(sub, id, d.reminder.FireAt)
	return true
}

// park lets a reminder wait that was loaded; ss.mu is held.
func (ss *subscribers) park(sub *subscription, id actor.ReminderID, at time.Time) {
	full := len(sub.waiting) >= maxWaiting || !sub.wanted(ss.now()) && ss.outcomes.awaited() >= maxWaiting
	switch waits := ss.outcomes.wait(id, !full); {
	case !waits: // or its owner will see to it
		ss.tidy(sub)
	case full:
		sub.overflowed = true
		ss.tidy(sub)
	default:
		heap.Push(&sub.waiting, waitingReminder{id, at})
		ss.announce()
		ss.resume([]*subscription{sub})
	}
}

// pop takes up to n reminders that wait the longest; ss.mu is held.
func (ss *subscribers) pop(sub *subscription, n int) []waitingReminder {
	var list []waitingReminder
	for len(list) < n && len(sub.waiting) > 0 {
		w := heap.Pop(&sub.waiting).(waitingReminder) //nolint:forcetypeassert // of park
		if ss.outcomes.unwait(w.id) {
			list = append(list, w)
		}
	}
	return list
}

// resume reads waiting reminders, up to the capacity of their subscribers; ss.mu is held.
func (ss *subscribers) resume(subs []*subscription) {
	for _, sub := range subs {
		if ss.stopping || !ss.deliveries.tenure.valid() || len(sub.waiting) == 0 || len(sub.resumed) > 0 {
			continue // if some are being read, it is called when they have been
		}
		list := ss.pop(sub, min(sub.capacity(), loadGroup))
		if len(list) == 0 {
			continue
		}
		due := make([]Due, len(list))
		for i, w := range list {
			sub.resumed[w.id] = struct{}{}
			due[i] = Due{w.id, w.at}
		}
		ss.tasks.run(func() {
			ss.deliveries.load(ss.deliveries.queue.ctx, due)
			ss.mu.Lock()
			defer ss.mu.Unlock()
			clear(sub.resumed)
			ss.resume([]*subscription{sub})
			ss.tidy(sub)
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
// whether a subscriber got the firing; ss.mu is held.
func (ss *subscribers) execute(sub *subscription, d *delivery) bool {
	if ss.stopping || !ss.deliveries.tenure.valid() {
		return false
	}
	at := slices.IndexFunc(sub.subscribers, func(c *Subscriber) bool { return len(c.open) < c.limit })
	if at < 0 {
		return false
	}
	if ss.bytes.Take(d.reminder.Key.App, int64(len(d.reminder.Payload.Data))) != nil {
		if !sub.full {
			sub.full = true
			ss.full = append(ss.full, sub)
		}
		return false
	}
	c := sub.subscribers[at]
	sub.subscribers = append(slices.Delete(sub.subscribers, at, at+1), c)
	d.late = max(0, ss.now().Sub(d.reminder.FireAt))
	c.last++
	id := c.last
	x := &execution{Execution: Execution{id, d.plan.Firing, time.Now().Add(ss.deliveries.cfg.ExecutionTimeout)}, delivery: d}
	x.timer = time.AfterFunc(ss.deliveries.cfg.ExecutionTimeout, func() { c.timedOut(id) })
	c.open[id] = x
	c.untaken = append(c.untaken, x)
	ss.executing++
	ss.outcomes.begins(d.reminder.ID)
	select {
	case c.ready <- struct{}{}:
	default:
	}
	return true
}

// executed records the outcome of the step of an execution that was done, and reports whether
// the step is to be committed once more.
func (ss *subscribers) executed(st *step, taken bool, err error) (again bool) {
	ss.mu.Lock()
	stopping := ss.stopping
	ss.mu.Unlock()
	outcome := DeliveryFired
	switch {
	case err == nil:
	case taken:
		outcome = DeliveryTaken
	case !stopping:
		return true
	default:
		outcome = DeliveryRetried // by the next owner
	}
	ss.deliveries.counters.delivered(st.executed, outcome)
	ss.finished(st.executed)
	return false
}

// awaitExecutions returns when none is under way.
func (ss *subscribers) awaitExecutions() {
	ss.mu.Lock()
	if ss.executing == 0 {
		ss.mu.Unlock()
		return
	}
	if ss.idle == nil {
		ss.idle = make(chan struct{})
	}
	idle := ss.idle
	ss.mu.Unlock()
	<-idle
}

// end closes all of them.
func (ss *subscribers) end() {
	ss.mu.Lock()
	var all []*Subscriber
	for sub := range ss.served {
		all = append(all, sub.subscribers...)
	}
	ss.mu.Unlock()
	for _, c := range all {
		c.Close()
	}
}

// reconcile follows a poll of the store at a database time: it drops the waiting reminders of
// buckets that are not owned any more, and has those read that were left in the store.
func (ss *subscribers) reconcile(now time.Time) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.dropWaiting()
	ss.readOverflowed(now)
	for sub := range ss.served {
		ss.resume([]*subscription{sub}) // which may have stopped meanwhile
	}
}

// dropWaiting drops the waiting reminders of buckets that are not owned any more; ss.mu is held.
func (ss *subscribers) dropWaiting() {
	for _, sub := range ss.byKey {
		if kept := ss.outcomes.keepWaiting(sub.waiting); len(kept) != len(sub.waiting) {
			sub.waiting = kept
			heap.Init(&sub.waiting)
			ss.tidy(sub)
		}
	}
}

// releaseTo is [Service.Release].
func (ss *subscribers) releaseTo(ctx context.Context, r ReleaseRequest) ([]actor.ReminderID, error) {
	bad := func(problem string, args ...any) error {
		return &actor.ArgumentError{Field: "release of reminders", Problem: fmt.Sprintf(problem, args...)}
	}
	switch {
	case len(r.Subscriptions) > MaxReleaseSubscriptions:
		return nil, bad("has %d subscriptions; at most %d are allowed", len(r.Subscriptions), MaxReleaseSubscriptions)
	case r.Limit < 1 || r.Limit > MaxRelease:
		return nil, bad("has the limit %d; give 1 to %d", r.Limit, MaxRelease)
	case r.Wait < 0 || r.Wait > MaxReleaseWait:
		return nil, bad("waits for %v; give 0 to %v", r.Wait, MaxReleaseWait)
	}
	timer := time.NewTimer(r.Wait)
	defer timer.Stop()
	for {
		ss.mu.Lock()
		ids, changed, stopping := ss.release(r), ss.changed, ss.stopping
		ss.mu.Unlock()
		if len(ids) > 0 || stopping {
			return ids, nil
		}
		select {
		case <-changed:
		case <-timer.C:
			return nil, nil
		case <-ss.deliveries.queue.ctx.Done():
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// release takes what waits off the memory; ss.mu is held.
func (ss *subscribers) release(r ReleaseRequest) []actor.ReminderID {
	if ss.stopping || !ss.outcomes.started() {
		return nil
	}
	now := ss.now()
	var ids []actor.ReminderID
	for _, key := range r.Subscriptions {
		sub := ss.byKey[key]
		if sub == nil && !ss.overflowed {
			continue
		}
		sub = ss.of(key)
		sub.asked = now
		if sub.capacity() > 0 || sub.full {
			continue // it is about to be executed here
		}
		for _, w := range ss.pop(sub, r.Limit-len(ids)) {
			ss.outcomes.released(w.id)
			ids = append(ids, w.id)
		}
		ss.tidy(sub)
	}
	return ids
}

// free returns the subscriptions that have subscribers with capacity here, how many executions
// these take, and a channel that is closed when that may change.
func (ss *subscribers) free() (keys []actor.Key, n int, changed <-chan struct{}) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.stopping {
		return nil, 0, ss.changed
	}
	for sub := range ss.served {
		if free := sub.capacity() - len(sub.waiting); free > 0 && len(keys) < MaxReleaseSubscriptions {
			keys, n = append(keys, sub.key), n+free
		}
	}
	return keys, min(n, MaxRelease), ss.changed
}
