package actortest

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
	kit "github.com/greenroom-run/greenroom/guest-sdk/go/internal/reminder"
)

// Timer is one that is set.
type Timer struct {
	Actor        actor.Ref
	Name, Method string
	In           actor.Payload
	Due          time.Time     // when it fires next
	Every        time.Duration // 0: once
}

// Timers returns all timers that are set, in the order in which they fire.
func (h *Harness) Timers() []Timer {
	var sorted []*timer
	for _, of := range h.timers {
		sorted = slices.AppendSeq(sorted, maps.Values(of))
	}
	slices.SortFunc(sorted, timersInOrder)
	var list []Timer
	for _, t := range sorted {
		list = append(list, Timer{Actor: t.actor, Name: t.Name, Method: t.Method, In: t.input(), Due: t.due, Every: t.every()})
	}
	return list
}

// Deactivate throws away what a host has of an actor in memory, its timers among it, as
// one does with an actor that is idle or moves, and one that ends with all of them.
// Stored state and reminders stay. The hook activated runs before the actor's next turn, and the
// hook leaving does not run: [Harness.Leave].
func (h *Harness) Deactivate(typ, id string) {
	ref := actor.Ref{Type: typ, ID: id}
	delete(h.timers, ref)
	delete(h.awake, ref)
	endFamily(h, ref)
	h.DropInstance()
}

// timer is one of an actor.
type timer struct {
	abi.Reminder // owns its bytes
	actor        actor.Ref
	due          time.Time
	order        uint64 // in which they were set, among reminders
}

func (t *timer) every() time.Duration { return time.Duration(t.PeriodNano) }

func (t *timer) input() actor.Payload {
	return actor.Payload{ContentType: t.ContentType, Data: t.Payload}
}

func timersInOrder(a, b *timer) int {
	return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.order, b.order))
}

// nextTimer returns the first that fires until a time; nil if there is none.
func (h *Harness) nextTimer(until time.Time) *timer {
	var first *timer
	for _, of := range h.timers {
		for _, t := range of {
			if !t.due.After(until) && (first == nil || timersInOrder(t, first) < 0) {
				first = t
			}
		}
	}
	return first
}

// fireTimer runs the turn of a timer. Its clock stands still, so that the next period
// counts from now.
func (h *Harness) fireTimer(t *timer) {
	due := t.due
	if t.PeriodNano == 0 {
		delete(h.timers[t.actor], t.Name)
	} else {
		t.due = h.now.Add(t.every())
	}
	if _, err := h.invoke(t.actor, t.Method, t.input(), &cause{kind: abi.CauseTimer, name: t.Name, due: due, attempt: 1}); err != nil {
		h.t.Logf("%s: timer %q: %v", t.actor, t.Name, err)
	}
}

func (h *Harness) commitTimers(ref actor.Ref, changed []timerChange) {
	for _, c := range changed {
		if c.set == nil {
			delete(h.timers[ref], c.name)
			continue
		}
		if h.timers[ref] == nil {
			h.timers[ref] = map[string]*timer{}
		}
		h.timers[ref][c.name] = c.set
	}
}

const (
	// maxTimers and maxTimerBytes bound the timers of an actor: abi/SPEC.md section 5.
	maxTimers     = 100
	maxTimerBytes = 256 << 10
)

// timerChange is what a turn has done to a timer.
type timerChange struct {
	name string
	set  *timer // nil: it is cancelled
}

// seenTimers are the sizes of the actor's timers as the turn sees them.
func (h *turnHost) seenTimers() map[string]int {
	size := func(t *timer) int { return len(t.Name) + len(t.Method) + len(t.ContentType) + len(t.Payload) }
	seen := map[string]int{}
	for name, t := range h.harness.timers[h.ref] {
		seen[name] = size(t)
	}
	for _, c := range h.overlay.timers {
		if c.set == nil {
			delete(seen, c.name)
		} else {
			seen[c.name] = size(c.set)
		}
	}
	return seen
}

// mayTime says why the turn may not change timers, 0 if it may.
func (h *turnHost) mayTime() abi.Code {
	h.overlay.problem = ""
	switch {
	case h.overlay.readOnly:
		return abi.CodeReadOnly
	case h.overlay.passed:
		return abi.CodeOver
	}
	return 0
}

func (h *turnHost) TimerSet(frame []byte) int32 {
	if code := cmp.Or(h.mayTime(), mayKeep(h)); code < 0 {
		return int32(code)
	}
	var r abi.Reminder
	if err := abi.DecodeReminder(slices.Clone(frame), &r); err != nil {
		return int32(h.refuse(err.Error()))
	}
	if problem := h.methodProblem("timer", r.Method); problem != "" {
		return int32(h.refuse(problem))
	}
	made, err := kit.New(r, h.harness.now)
	if err != nil {
		return int32(h.refuse(err.Error()))
	}
	seen := h.seenTimers()
	_, replaced := seen[r.Name]
	bytes := len(r.Name) + len(r.Method) + len(r.ContentType) + len(r.Payload)
	for name, n := range seen {
		if name != r.Name {
			bytes += n
		}
	}
	switch {
	case !replaced && len(seen) >= maxTimers:
		h.overlay.problem = "an actor has at most " + strconv.Itoa(maxTimers) + " timers; cancel one, or use reminders"
		return int32(abi.CodeTooMany)
	case bytes > maxTimerBytes:
		h.overlay.problem = "the timers of this actor have more than " + strconv.Itoa(maxTimerBytes) + " bytes together; keep the data in the state, and name it in the timer"
		return int32(abi.CodeTooLarge)
	}
	h.harness.reminded++
	set := &timer{Reminder: r, actor: h.ref, due: made.FireAt, order: h.harness.reminded}
	h.overlay.timers = append(h.overlay.timers, timerChange{r.Name, set})
	if replaced {
		return 1
	}
	return 0
}

func (h *turnHost) TimerCancel(name string) int32 {
	if code := cmp.Or(h.mayTime(), mayKeep(h)); code < 0 {
		return int32(code)
	}
	if err := kit.CheckName(name); err != nil {
		return int32(h.refuse(err.Error()))
	}
	if _, existed := h.seenTimers()[name]; !existed {
		return 0
	}
	h.overlay.timers = append(h.overlay.timers, timerChange{name: name})
	return 1
}
