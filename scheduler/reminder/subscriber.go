package reminder

import (
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
	// 64 MiB: of one app half of it, and of several less, so that each has its part.
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
	subs  *subscribers
	limit int
	ready chan struct{} // of capacity 1: there is something to take
	ended chan struct{} // closed when it ends

	// Guarded by the lock of the subscribers.
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

// Ready tells when there may be something to take.
func (c *Subscriber) Ready() <-chan struct{} { return c.ready }

// Ended is closed when the subscriber is given no executions any more, and all that it had
// are over: it was closed, or the service stops.
func (c *Subscriber) Ended() <-chan struct{} { return c.ended }

// Take returns the executions that were not taken before.
func (c *Subscriber) Take() []Execution {
	c.subs.mu.Lock()
	defer c.subs.mu.Unlock()
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
	ss := c.subs
	ss.mu.Lock()
	if id == 0 || id > c.last {
		last := c.last
		ss.mu.Unlock()
		return &actor.ArgumentError{Field: "execution", Problem: fmt.Sprintf("%d was never sent; the last one was %d", id, last)}
	}
	x := c.close(id)
	ss.mu.Unlock()
	if x == nil {
		return nil
	}
	if failure != nil {
		ss.deliveries.ended(x.delivery, failure, false)
		ss.finished(x.delivery)
		return nil
	}
	plan := &x.delivery.plan
	ss.deliveries.steps.add(step{
		id: x.delivery.reminder.ID, step: plan.Firing.Step, missed: plan.Firing.Missed, policy: x.delivery.reminder.Missed.Kind,
		executed: x.delivery,
	})
	return nil
}

// close takes an execution off the open ones, nil if it is not among them, and gives its
// place to another; ss.mu is held.
func (c *Subscriber) close(id uint64) *execution {
	x := c.open[id]
	if x == nil {
		return nil
	}
	x.timer.Stop()
	delete(c.open, id)
	if !c.over {
		c.subs.announce()
		c.subs.resume(c.subscriptions)
	}
	return x
}

// Close ends the subscriber. What it has not answered is executed again.
func (c *Subscriber) Close() {
	ss := c.subs
	ss.mu.Lock()
	if c.over {
		ss.mu.Unlock()
		return
	}
	c.over = true
	for _, sub := range c.subscriptions {
		sub.subscribers = slices.DeleteFunc(sub.subscribers, func(x *Subscriber) bool { return x == c })
		if len(sub.subscribers) == 0 {
			delete(ss.served, sub)
		}
		ss.tidy(sub)
	}
	var open []*execution
	for id := range c.open {
		open = append(open, c.close(id))
	}
	close(c.ended)
	ss.mu.Unlock()
	for _, x := range open {
		ss.unanswered(x)
	}
}

// timedOut is called when nobody has answered an execution in time.
func (c *Subscriber) timedOut(id uint64) {
	c.subs.mu.Lock()
	x := c.close(id)
	c.subs.mu.Unlock()
	if x != nil {
		c.subs.deliveries.ended(x.delivery, actor.ErrDeadline, true)
		c.subs.finished(x.delivery)
	}
}
