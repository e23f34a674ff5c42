package host

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"

	"github.com/greenroom-run/greenroom/actor"
)

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
	// Published is called when events of an actor have been committed.
	Published func(Published)
	// TellFailed is called for each volatile message that no turn has consumed.
	TellFailed func(TellFailed)
	// Told is called when a volatile message has been consumed or given up, if Config.NewTrace has
	// returned a sampled trace for its delivery.
	Told func(Told)
	// GuestLog is called for each line that a guest logs.
	GuestLog func(GuestLog)
}

// Published is a commit that has published events of an actor.
type Published struct {
	Key    actor.Key
	Events int
}

// allOf returns Events whose callbacks call those of all observers, and are safe to call. If no
// observer has a GuestLog, it stays nil, and lines go to the logger.
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
	combine(log, observers, &all, func(e *Events) *func(Published) { return &e.Published })
	combine(log, observers, &all, func(e *Events) *func(TellFailed) { return &e.TellFailed })
	combine(log, observers, &all, func(e *Events) *func(Told) { return &e.Told })
	if slices.ContainsFunc(observers, func(e Events) bool { return e.GuestLog != nil }) {
		combine(log, observers, &all, func(e *Events) *func(GuestLog) { return &e.GuestLog })
	}
	return all
}

// published reports a commit that has published events of an actor.
func (e *Events) published(key actor.Key, events int) { e.Published(Published{key, events}) }

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

// safely calls f, and logs a panic of it: callers get their answers all the same.
func safely[T any](log *slog.Logger, f func(T), event T) {
	defer func() {
		if v := recover(); v != nil {
			log.Error("event callback panicked", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
		}
	}()
	f(event)
}
