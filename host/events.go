package host

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// Lane is the way in which a turn holds its actor still.
type Lane uint8

// The lanes; doc.go says what each one promises.
const (
	LaneNone      Lane = iota // refused before a lane was chosen; in a TurnEnd also: no deployment has the type
	LaneWarm                  // ring and sticky types
	LaneLocked                // any types
	LaneReadOnly              // read-only methods
	LaneStateless             // stateless types
	LaneCopy                  // read-only methods of actors that another host holds
	LaneCalled                // turns that other turns call
)

// String returns the name that metrics use.
func (l Lane) String() string {
	switch l {
	case LaneWarm:
		return "warm"
	case LaneLocked:
		return "locked"
	case LaneReadOnly:
		return "read_only"
	case LaneStateless:
		return "stateless"
	case LaneCopy:
		return "copy"
	case LaneCalled:
		return "called"
	default:
		return "none"
	}
}

// Events are callbacks at the host's state changes, for metrics and tests. A nil
// field is not called. They are called from many goroutines, some of them while
// an actor waits: they must be quick and must not call the host.
type Events struct {
	// TurnEnd is called once for every Invoke and Delete, when it answers; and for every turn that
	// a guest calls, when that ends: then nothing of it is committed yet.
	TurnEnd func(TurnEnd)
	// Commit is called once for every attempt to commit, when its outcome is
	// known or given up.
	Commit func(CommitEnd)
	// Activated is called when an actor's state has come into memory.
	Activated func(actor.Key)
	// Deactivated is called when an actor has left memory.
	Deactivated func(Deactivation)
	// IdleSkipped is called when an actor was unused for so long that it would have left
	// memory if its type were not sticky: once, until it is used again.
	IdleSkipped func(actor.Key)
	// InstanceMade and InstanceClosed are called for each guest instance.
	InstanceMade   func(InstanceEvent)
	InstanceClosed func(InstanceEvent)
	// Egress is called for each HTTP request of a guest, when it is answered.
	Egress func(EgressEnd)
	// TimerFired is called for each firing of a timer, when its turn is answered.
	TimerFired func(TimerFired)
	// GuestLog is called for each line that a guest logs.
	GuestLog func(GuestLog)
}

// TurnEnd is one finished invocation.
type TurnEnd struct {
	Key    actor.Key
	Method string // empty for Delete
	// InvocationID is that of the invocation, which the lines of its guest's log
	// have as well; empty for Delete.
	InvocationID string
	Trace        *actor.Trace // that of the invocation; nil: none
	Lane         Lane
	// Caller is the actor whose turn has called this one, and Depth in how many turns it is nested;
	// zero for an invocation. A call of [actor.MethodAll] has no Caller.
	Caller actor.Key
	Depth  int
	// Chain is what the turn and those that it has called were together; nil: it has called none, or
	// was called itself. It does not change.
	Chain *ChainStats
	// Duration is from the invocation's arrival to its answer; QueueWait is the
	// part of it before the turn began.
	Duration  time.Duration
	QueueWait time.Duration
	// Runs counts how often the guest ran: 0 for a turn that never began, more
	// than 1 after conflicts.
	Runs int
	// Fuel is what all runs used together, without the turns that they have called.
	Fuel uint64
	// Err is what Invoke returns.
	Err error
}

// CommitEnd is one finished attempt to commit.
type CommitEnd struct {
	Key      actor.Key
	Lane     Lane
	Duration time.Duration // settling included
	// GroupSize is how many turns the commit carried.
	GroupSize int
	// Err is nil for a commit that is known to have been applied.
	Err error
}

// DeactivateReason says why an actor left memory.
type DeactivateReason string

// The reasons.
const (
	DeactivateIdle     DeactivateReason = "idle"     // unused for Limits.IdleTimeout
	DeactivatePressure DeactivateReason = "pressure" // Config.MaxActivations was reached
	DeactivateStop     DeactivateReason = "stop"     // the host stopped
	DeactivateDone     DeactivateReason = "done"     // a lane that keeps nothing had no work left
	DeactivateMoved    DeactivateReason = "moved"    // this host does not hold it any more
)

// Deactivation is an actor that has left memory.
type Deactivation struct {
	Key    actor.Key
	Reason DeactivateReason
}

// allOf returns Events whose callbacks call those of all observers, and are safe to call. Without a
// GuestLog among them, lines go to the logger: it stays nil.
func allOf(log *slog.Logger, observers []Events) Events {
	var all Events
	combine(log, observers, &all, func(e *Events) *func(TurnEnd) { return &e.TurnEnd })
	combine(log, observers, &all, func(e *Events) *func(CommitEnd) { return &e.Commit })
	combine(log, observers, &all, func(e *Events) *func(actor.Key) { return &e.Activated })
	combine(log, observers, &all, func(e *Events) *func(Deactivation) { return &e.Deactivated })
	combine(log, observers, &all, func(e *Events) *func(actor.Key) { return &e.IdleSkipped })
	combine(log, observers, &all, func(e *Events) *func(InstanceEvent) { return &e.InstanceMade })
	combine(log, observers, &all, func(e *Events) *func(InstanceEvent) { return &e.InstanceClosed })
	combine(log, observers, &all, func(e *Events) *func(EgressEnd) { return &e.Egress })
	combine(log, observers, &all, func(e *Events) *func(TimerFired) { return &e.TimerFired })
	if slices.ContainsFunc(observers, func(e Events) bool { return e.GuestLog != nil }) {
		combine(log, observers, &all, func(e *Events) *func(GuestLog) { return &e.GuestLog })
	}
	return all
}

// combine sets one callback of all to one that calls those of the observers in turn.
func combine[T any](log *slog.Logger, observers []Events, all *Events, callback func(*Events) *func(T)) {
	var fs []func(T)
	for i := range observers {
		if f := *callback(&observers[i]); f != nil {
			fs = append(fs, f)
		}
	}
	*callback(all) = func(event T) {
		for _, f := range fs {
			safely(log, f, event)
		}
	}
}

// safely calls f; a panic of it is logged and keeps nobody from an answer.
func safely[T any](log *slog.Logger, f func(T), event T) {
	defer func() {
		if v := recover(); v != nil {
			log.Error("event callback panicked", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
		}
	}()
	f(event)
}
