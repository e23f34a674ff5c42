package serving

import (
	"cmp"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
)

// Scope is an app, or one actor type of it.
type Scope struct {
	App  string
	Type string // empty: every type of the app
}

// String returns app or app/type.
func (s Scope) String() string {
	if s.Type == "" {
		return s.App
	}
	return s.App + "/" + s.Type
}

// Limits bound the actors of a type. A zero field means: as the wider scope says.
type Limits struct {
	// StateBytes is the largest state of an actor, encoded.
	StateBytes int64
	// PayloadBytes is the largest payload and the largest reply.
	PayloadBytes int64
	// Mailbox is how many invocations may wait for one actor.
	Mailbox int
	// TurnDeadline bounds a turn from its start: loading, waiting for an
	// instance, running and running again. The caller's deadline counts as well.
	TurnDeadline time.Duration
	// Fuel bounds what one turn computes, in the units of package engine/meter,
	// about one simple instruction each. Zero everywhere: only time bounds it.
	Fuel uint64
	// MemoryBytes bounds the memory of one instance.
	MemoryBytes int64
	// Instances bounds the shared instances of a module, which the types of it
	// with the same MemoryBytes and Instances have in common. Dedicated ones are bounded by Config.GuestMemory and
	// Config.MaxActivations alone.
	Instances int
	// IdempotencyTTL is for how long a call with an idempotency key is remembered,
	// by database time; a manifest may ask for less.
	IdempotencyTTL time.Duration
	// Pool is the pool of package executor in which turns wait for a processor. Empty everywhere: the
	// manifest names it.
	Pool string
	// IdleTimeout is how long an actor without work stays in memory. Sticky
	// types stay permanently.
	IdleTimeout time.Duration
}

// MaxStateAndPayload bounds StateBytes and PayloadBytes together: a turn whose call has an
// idempotency key commits a state and a reply at once.
const MaxStateAndPayload = actor.MaxCommitBytes - 64<<10

// DefaultLimits returns the limits of a host that was told nothing.
func DefaultLimits() Limits {
	return Limits{
		StateBytes:   1 << 20,
		PayloadBytes: 4 << 20,
		Mailbox:      1024,
		TurnDeadline: 10 * time.Second,
		MemoryBytes:  64 << 20,
		Instances:    64,
		IdleTimeout:  5 * time.Minute,

		IdempotencyTTL: 24 * time.Hour,
	}
}

// Over returns l with its zero fields taken from wider.
func (l Limits) Over(wider Limits) Limits {
	l.StateBytes = cmp.Or(l.StateBytes, wider.StateBytes)
	l.PayloadBytes = cmp.Or(l.PayloadBytes, wider.PayloadBytes)
	l.Mailbox = cmp.Or(l.Mailbox, wider.Mailbox)
	l.TurnDeadline = cmp.Or(l.TurnDeadline, wider.TurnDeadline)
	l.Fuel = cmp.Or(l.Fuel, wider.Fuel)
	l.MemoryBytes = cmp.Or(l.MemoryBytes, wider.MemoryBytes)
	l.Instances = cmp.Or(l.Instances, wider.Instances)
	l.IdleTimeout = cmp.Or(l.IdleTimeout, wider.IdleTimeout)
	l.IdempotencyTTL = cmp.Or(l.IdempotencyTTL, wider.IdempotencyTTL)
	l.Pool = cmp.Or(l.Pool, wider.Pool)
	return l
}

// lowered returns l with what a manifest asks for, where that is less.
func (l Limits) lowered(m abi.Limits) Limits {
	l.StateBytes = lower(l.StateBytes, m.StateBytes)
	l.PayloadBytes = lower(l.PayloadBytes, m.PayloadBytes)
	l.Mailbox = int(lower(int64(l.Mailbox), m.Mailbox))
	l.MemoryBytes = lower(l.MemoryBytes, m.MemoryBytes)
	// No limit is above any.
	if m.Fuel > 0 && (l.Fuel == 0 || uint64(m.Fuel) < l.Fuel) {
		l.Fuel = uint64(m.Fuel)
	}
	l.TurnDeadline = lowerTime(l.TurnDeadline, m.TurnMillis)
	l.IdempotencyTTL = lowerTime(l.IdempotencyTTL, m.IdempotencyMillis)
	return l
}

// lowerTime compares in milliseconds, so that a huge number of them cannot overflow
// a Duration.
func lowerTime(limit time.Duration, asked int64) time.Duration {
	if asked > 0 && asked < limit.Milliseconds() {
		return time.Duration(asked) * time.Millisecond
	}
	return limit
}

func lower(limit, asked int64) int64 {
	if asked > 0 && asked < limit {
		return asked
	}
	return limit
}

// setBy says what sets a limit of a type, for people: the server's flag, or the member of
// the manifest that lowers it.
func setBy(typ Scope, flag, member string, lowered bool) string {
	if lowered {
		return member + " in the limits that the type declares"
	}
	return fmt.Sprintf("--%s or --limit %s:%s=… of the server", flag, typ, flag)
}

// Validate names the first limit that is out of its range.
func (l Limits) Validate() error {
	fields := []struct {
		name  string
		value int64
	}{
		{"StateBytes", l.StateBytes},
		{"PayloadBytes", l.PayloadBytes},
		{"Mailbox", int64(l.Mailbox)},
		{"TurnDeadline", int64(l.TurnDeadline)},
		{"MemoryBytes", l.MemoryBytes},
		{"Instances", int64(l.Instances)},
		{"IdleTimeout", int64(l.IdleTimeout)},
		{"IdempotencyTTL", int64(l.IdempotencyTTL)},
	}
	for _, f := range fields {
		if f.value < 0 {
			return fmt.Errorf("%s is %d; give a positive value, or 0 for the default", f.name, f.value)
		}
	}
	return nil
}
