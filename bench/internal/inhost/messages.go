package inhost

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/must"
	"github.com/greenroom-run/greenroom/host"
)

// MessageRole has actors send each other messages.
const MessageRole = "in-host-messages"

// Messages plays [MessageRole]. The method of the spec sets a reminder; each is a message to another
// actor instead, due at once. A call of the result ends when a message was consumed, so as many
// messages are under way as the plan has calls outstanding.
func Messages(ctx context.Context, s Spec) (res load.Result, err error) {
	s.during(ctx, func(h *host.Host, r *reminderParts) {
		out := &outgoing{versions: make([]atomic.Uint64, s.Plan.Actors)}
		r.messages = out
		r.delivered = func(_ actor.Firing, _ time.Time, err error) {
			if err == nil { // otherwise it is delivered again
				out.consumed()
			}
		}
		r.begin(ctx)
		invocation := s.invocations()
		res = must.Get(load.DriveBegun(ctx, s.Plan, func(ctx context.Context, worker, target, n int, done func(error)) {
			h.Begin(ctx, invocation(worker, target, n), receiver(func(err error) {
				if err != nil {
					done(err)
					return
				}
				out.sent(done)
			}))
		}))
	})
	return res, nil
}

// outgoing makes messages of reminders.
type outgoing struct {
	versions []atomic.Uint64 // of senders, as far as names of messages have them
	next     atomic.Uint64   // receiver

	mu      sync.Mutex
	waiting []func(error) // calls whose turns have sent a message
	ahead   int           // messages that were consumed before their calls were answered
}

// message makes a message of a reminder.
func (o *outgoing) message(spec actor.ReminderSpec) actor.ReminderSpec {
	spec.Message = &actor.Message{From: spec.Key}
	spec.Key.ID = "c" + strconv.FormatUint(o.next.Add(1)*7919%uint64(len(o.versions)), 10)
	spec.Schedule = actor.Schedule{}
	from := must.Get(strconv.Atoi(spec.Message.From.ID[1:]))
	spec.Name = actor.MessageName(spec.Message.From, o.versions[from].Add(1), 0)
	return spec
}

// sent has a call end with the next message that is consumed.
func (o *outgoing) sent(done func(error)) {
	o.mu.Lock()
	if o.ahead == 0 {
		o.waiting = append(o.waiting, done)
		o.mu.Unlock()
		return
	}
	o.ahead--
	o.mu.Unlock()
	done(nil)
}

// consumed ends a call.
func (o *outgoing) consumed() {
	o.mu.Lock()
	if len(o.waiting) == 0 {
		o.ahead++
		o.mu.Unlock()
		return
	}
	done := o.waiting[0]
	o.waiting = o.waiting[1:]
	o.mu.Unlock()
	done(nil)
}
