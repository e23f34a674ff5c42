package host

import (
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/activation"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/storage"
)

// Events are callbacks at the host's state changes, for metrics and tests. A nil
// field is not called. They are called from many goroutines, some of them while
// an actor waits: they must be quick and must not call the host.
type Events struct {
	// TurnEnd is called once for every Invoke and Delete, when it answers; and for every turn that
	// a guest calls, when that ends: then nothing of it is committed yet.
	TurnEnd func(call.TurnEnd)
	// Commit is called once for every attempt to commit, when its outcome is
	// known or given up.
	Commit func(storage.CommitEnd)
	// Activated is called when an actor's state has come into memory.
	Activated func(actor.Key)
	// Deactivated is called when an actor has left memory.
	Deactivated func(actor.Key, activation.DeactivateReason)
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

// callback makes f safe to call: it may be nil, and a panic of it is logged and
// keeps nobody from an answer.
func callback[T any](log *slog.Logger, f func(T)) func(T) {
	if f == nil {
		return func(T) {}
	}
	return func(event T) {
		defer func() {
			if v := recover(); v != nil {
				log.Error("event callback panicked", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			}
		}()
		f(event)
	}
}

// withDefaults makes every callback safe to call. Without GuestLog, lines go to
// the logger: it stays nil.
func (e Events) withDefaults(log *slog.Logger) Events {
	e.TurnEnd, e.Commit = callback(log, e.TurnEnd), callback(log, e.Commit)
	e.Activated = callback(log, e.Activated)
	e.IdleSkipped = callback(log, e.IdleSkipped)
	if f := e.Deactivated; f != nil {
		type gone struct {
			key actor.Key
			why activation.DeactivateReason
		}
		safe := callback(log, func(g gone) { f(g.key, g.why) })
		e.Deactivated = func(key actor.Key, why activation.DeactivateReason) { safe(gone{key, why}) }
	} else {
		e.Deactivated = func(actor.Key, activation.DeactivateReason) {}
	}
	e.InstanceMade, e.InstanceClosed = callback(log, e.InstanceMade), callback(log, e.InstanceClosed)
	e.Egress = callback(log, e.Egress)
	e.TimerFired = callback(log, e.TimerFired)
	if e.GuestLog != nil {
		e.GuestLog = callback(log, e.GuestLog)
	}
	return e
}
