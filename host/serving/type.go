package serving

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/executor"
	"github.com/greenroom-run/greenroom/host/inbox"
	"github.com/greenroom-run/greenroom/host/instance"
	"github.com/greenroom-run/greenroom/host/residency"
	"github.com/greenroom-run/greenroom/host/throttle"
)

// Type is what serves an actor type from one deployment to the next, worked
// out once. It is immutable, but for Method.Calls.
type Type struct {
	Deployment actor.Deployment
	Lane       Lane   // of methods that are not read-only
	Placement  string // empty: nothing serves the type, and one of its actors is deleted
	Dedicated  bool
	Sticky     bool
	// Shared means that other hosts may answer read-only methods, from copies. They could until
	// sharedUntil, if that is not zero.
	Shared      bool
	sharedUntil time.Time
	migrate     bool
	StateSchema uint32
	methods     map[string]Method
	Life
	Uses abi.Capabilities
	// ReminderBytes is what a turn's reminders may take.
	ReminderBytes int64
	messages      inbox.Policy
	Limits        Limits
	Settings
	Resources
}

// Resources are what turns of a type wait for.
type Resources struct {
	Pool *instance.Pool
	// Rules are what the app's rules say of the type; nil: nothing.
	Rules *throttle.Type
	// executors are where turns of the type wait for a processor, unless the app's rules say otherwise.
	executors Executors
}

// Executors are pools of turns: Own for most, Migrations for those that migrate a state for readers,
// and Called for those that actors of other hosts call. A turn that an actor of this host calls runs
// in the pool of its caller.
type Executors struct {
	Own, Migrations, Called *executor.Pool

	slots *executor.Slots
}

// Settings are what sets the limits of a type, for people.
type Settings struct{ State, Payload, Deadline string }

// Method is a method of a type, as its manifest declares it.
type Method struct {
	Name      string
	ReadOnly  bool
	Reentrant bool // other turns of the actor may wait for it
	Atomic    bool // turns that call it are of this host, and commit with it
	Private   bool // calls from outside are refused
	// Calls becomes true when a turn of the method, of a type placed any, has called another actor.
	// Its turns take no lock of the row from then on.
	Calls *atomic.Bool
	// Sets are the sets of methods that the method is in; none: it is in all.
	Sets []string
}

// ExecutorsOf returns where turns of a method wait for a processor.
func (s *Type) ExecutorsOf(method string) Executors {
	if name := s.Rules.Pool(method); name != "" {
		return executorsOf(s.executors.slots, name, s.executors)
	}
	return s.executors
}

// executorsOf returns the pools of turns of a type whose pool has a name, or those that it has otherwise if
// there is no such pool.
func executorsOf(slots *executor.Slots, name string, otherwise Executors) Executors {
	own := slots.Pool(name)
	if own == nil {
		return otherwise
	}
	es := Executors{Own: own, Migrations: slots.Pool(executor.PoolSystem), Called: own, slots: slots}
	if name == executor.PoolUser {
		es.Called = slots.Pool(executor.PoolInterconnect)
	}
	return es
}

// Placed reports whether the type's actors have one place each in a cluster.
func (s *Type) Placed() bool { return s.Lane == LaneWarm && s.Placement != "" }

// sharedAfter is for how long after a type was shared some host may not know yet that it
// is not any more: far above what it takes to hear of a deployment.
const sharedAfter = time.Minute

// ReadElsewhere reports whether other hosts may answer read-only methods of the type, from
// copies.
func (s *Type) ReadElsewhere(now time.Time) bool {
	return s.Shared || !s.sharedUntil.IsZero() && now.Before(s.sharedUntil)
}

// serves reports whether s was worked out from d.
func (s *Type) serves(d actor.Deployment) bool {
	return s.Deployment.Generation == d.Generation && s.Deployment.Digest == d.Digest
}

// Method returns a method of the type that may take the invocation.
func (s *Type) Method(inv *actor.Invocation) (Method, error) {
	m, ok := s.methods[inv.Method]
	switch {
	case !ok:
		return m, fmt.Errorf("%w: type %s has no method %s; its methods are %s", actor.ErrMethodNotFound, inv.Key.Type, inv.Method, s.methodNames())
	case inv.ReadOnly && !m.ReadOnly:
		return m, fmt.Errorf("%w: %s.%s changes its actor; call it without read-only (over HTTP with PUT or POST), or declare it read-only in the guest", actor.ErrNotReadOnly, inv.Key.Type, inv.Method)
	case int64(len(inv.Payload.Data)) > s.Limits.PayloadBytes:
		return m, fmt.Errorf("%w: it has %d bytes; at most %d are allowed, by %s", actor.ErrPayloadTooLarge, len(inv.Payload.Data), s.Limits.PayloadBytes, s.Settings.Payload)
	}
	return m, nil
}

// MethodProblem implements [turn.Methods].
func (s *Type) MethodProblem(of, name string) string {
	switch m, ok := s.methods[name]; {
	case !ok:
		return fmt.Sprintf("the type %s has no method %q; its methods are %s", s.Deployment.Type, name, s.methodNames())
	case m.ReadOnly:
		return fmt.Sprintf("the method %s is read-only; a %s runs one that may change the actor", name, of)
	}
	return ""
}

// CheckMessage implements [inbox.Receiver].
func (s *Type) CheckMessage(name string, outside bool) error {
	switch m, ok := s.methods[name]; {
	case !ok:
		return fmt.Errorf("%w: type %s has no method %s; its methods are %s", actor.ErrMethodNotFound, s.Deployment.Type, name, s.methodNames())
	case m.ReadOnly:
		return &actor.ArgumentError{Field: "method", Problem: fmt.Sprintf("%s of the type %s is read-only; a message runs one that may change the actor", name, s.Deployment.Type)}
	case m.Private && outside:
		return fmt.Errorf("%w: only actors of the app send messages to %s.%s", actor.ErrMethodPrivate, s.Deployment.Type, name)
	}
	return nil
}

// Messages implements [inbox.Receiver].
func (s *Type) Messages() inbox.Policy { return s.messages }

// methodNames lists the type's methods, the first few of many, for an error.
func (s *Type) methodNames() string {
	return few(slices.Sorted(maps.Keys(s.methods)))
}

// few lists the first of some names.
func few(names []string) string {
	const most = 20
	if len(names) > most {
		names = append(names[:most:most], "…")
	}
	return strings.Join(names, ", ")
}

// Migration returns the schema to migrate from, nil when the state is up to date
// or the type takes no migrate turns.
func (s *Type) Migration(l *residency.Row) *uint32 {
	if !s.migrate || !l.Exists || l.StateSchema >= s.StateSchema {
		return nil
	}
	return &l.StateSchema
}

// CallsOthers records that turns of a method call other actors.
func (s *Type) CallsOthers(name string) { s.methods[name].Calls.Store(true) }
