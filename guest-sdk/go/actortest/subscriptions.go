package actortest

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
)

// Subscriptions returns the actors whose events an actor subscribes to, with the methods that run for
// them: [actor.Subscribe]. [Harness.Deliver] and [Harness.Advance] deliver events; all of them are kept
// here, so that none is [actor.EventsGone].
func (h *Harness) Subscriptions(typ, id string) map[actor.Ref]string {
	list := map[actor.Ref]string{}
	for to, s := range h.subscriptions[actor.Ref{Type: typ, ID: id}] {
		list[to] = s.method
	}
	return list
}

// subscription is one of an actor.
type subscription struct {
	by, to   actor.Ref
	method   string
	order    uint64 // in which reminders, messages and subscriptions were set
	after    int    // of all events, those before are delivered, or older than the subscription
	failures uint32
	retry    time.Time // when the event is delivered again that failed last
}

// next returns the event that is delivered next, and when; nil if there is none.
func (s *subscription) next(h *Harness) (*Event, time.Time) {
	for i := s.after; i < len(h.events); i++ {
		if e := &h.events[i]; e.From == s.to {
			s.after = i
			if s.retry.After(e.At) {
				return e, s.retry
			}
			return e, e.At
		}
	}
	s.after = len(h.events)
	return nil, time.Time{}
}

// nextEvent returns the subscription whose next event is delivered first until a time, and when; nil
// if there is none.
func nextEvent(h *Harness, until time.Time) (first *subscription, at time.Time) {
	for _, of := range h.subscriptions {
		for _, s := range of {
			e, due := s.next(h)
			if e == nil || due.After(until) {
				continue
			}
			if first == nil || due.Before(at) || due.Equal(at) && s.order < first.order {
				first, at = s, due
			}
		}
	}
	return first, at
}

// The waits before an event that failed is delivered again.
const (
	firstEventWait   = time.Second
	longestEventWait = 5 * time.Minute
)

// deliver runs the turn of the next event.
func (s *subscription) deliver(h *Harness) {
	e, _ := s.next(h)
	_, err := h.invoke(s.by, s.method, e.Data, &cause{kind: abi.CauseEvent, name: e.Name, due: e.At, attempt: s.failures + 1, event: s})
	if err == nil {
		return
	}
	s.failures++
	h.t.Logf("%s: event %q of %s, try %d: %v", s.by, e.Name, s.to, s.failures, err)
	s.retry = h.now.Add(min(firstEventWait<<min(s.failures-1, 16), longestEventWait))
}

// subscriptionChange is what a chain does to a subscription; without a method it ends.
type subscriptionChange struct {
	by, to actor.Ref
	method string
}

// subscribed has the methods of an actor's subscriptions as the chain sees them.
func subscribed(c *chain, by actor.Ref) map[actor.Ref]string {
	list := c.harness.Subscriptions(by.Type, by.ID)
	for _, s := range c.subscriptions {
		if s.by == by {
			if list[s.to] = s.method; s.method == "" {
				delete(list, s.to)
			}
		}
	}
	return list
}

// maxSubscriptions is how many actors an actor subscribes to.
const maxSubscriptions = 100

// EventSubscribe has the actor subscribe to the events of another one.
func (h *turnHost) EventSubscribe(typ, id, method string) int32 {
	to, code := publisherOf(h, typ, id)
	if code != 0 {
		return int32(code)
	}
	if problem := h.methodProblem("subscription", method); problem != "" {
		return int32(h.refuse(problem))
	}
	c := h.harness.chain
	list := subscribed(c, h.ref)
	if _, known := list[to]; !known {
		if problem := unknownType(h.harness, to.Type); problem != "" {
			return int32(h.refuse(problem))
		}
		if h.harness.types[to.Type].Placement == abi.PlacementStateless {
			return int32(h.refuse(to.Type + " is stateless: its actors publish no events"))
		}
		if len(list) == maxSubscriptions {
			return int32(h.refusedFor(abi.CodeTooMany, "an actor subscribes to at most "+strconv.Itoa(maxSubscriptions)+" others"))
		}
	}
	c.subscriptions = append(c.subscriptions, subscriptionChange{h.ref, to, strings.Clone(method)})
	return 0
}

// EventUnsubscribe ends a subscription of the actor.
func (h *turnHost) EventUnsubscribe(typ, id string) int32 {
	to, code := publisherOf(h, typ, id)
	if code != 0 {
		return int32(code)
	}
	c := h.harness.chain
	if _, known := subscribed(c, h.ref)[to]; !known {
		return 0
	}
	c.subscriptions = append(c.subscriptions, subscriptionChange{h.ref, to, ""})
	return 1
}

func publisherOf(h *turnHost, typ, id string) (to actor.Ref, code abi.Code) {
	h.overlay.problem = ""
	if code := cmp.Or(h.overlay.writable(), mayKeep(h)); code < 0 {
		return to, code
	}
	if typ == "" || id == "" {
		return to, h.refuse("a subscription needs the type and the ID of an actor")
	}
	return actor.Ref{Type: strings.Clone(typ), ID: strings.Clone(id)}, 0
}

// commitSubscriptions makes what the chain has done to subscriptions hold, after the event that asked
// for it was consumed. It comes before the events of the chain: those are new.
func commitSubscriptions(c *chain) {
	h := c.harness
	if s := c.consumes; s != nil {
		s.after, s.failures, s.retry = s.after+1, 0, time.Time{}
	}
	for _, change := range c.subscriptions {
		of := h.subscriptions[change.by]
		switch s := of[change.to]; {
		case change.method == "":
			delete(of, change.to)
		case s != nil:
			s.method = change.method
		default:
			if of == nil {
				if h.subscriptions == nil {
					h.subscriptions = map[actor.Ref]map[actor.Ref]*subscription{}
				}
				of = map[actor.Ref]*subscription{}
				h.subscriptions[change.by] = of
			}
			h.reminded++
			of[change.to] = &subscription{by: change.by, to: change.to, method: change.method, order: h.reminded, after: len(h.events)}
		}
	}
}
