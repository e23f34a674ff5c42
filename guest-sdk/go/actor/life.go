package actor

import (
	"fmt"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/abi"
)

// Hooks names methods that the host runs at points of an actor's life, without input. They
// are methods of the type like others, registered with [Method], mostly [Private]. Types placed
// [PlacementAny] have only Created, those placed [PlacementStateless] none.
type Hooks struct {
	// Created runs before the first turn of an actor, in the same commit. If it fails, so
	// does that turn.
	Created string
	// Activated runs when the actor has been loaded, before its next turn. If it fails, so
	// does that turn.
	Activated string
	// Leaving runs in a turn of its own when the actor's host is about to give it to another one, or to
	// stop. It has a second at most, calls no other actor, and does not run after a crash: the actor
	// leaves also if it fails.
	Leaving string
}

// WaitOutsideSet has calls and messages wait whose method is not in the actor's set ([Become]), until a turn
// chooses a set that has it: calls for as long as a turn of the type may take, and those of other actors
// not at all. Without it they get [ErrNotAccepted]. Types placed [PlacementAny] cannot have it.
func WaitOutsideSet() Part { return waitOutsideSet{} }

type waitOutsideSet struct{}

func (waitOutsideSet) addTo(t *actorType) { t.spec.OutsideSet = abi.OutsideSetWait }

// MessagePolicy is how long a host tries to deliver a message to an actor of the type; zero means
// the host's default.
type MessagePolicy struct {
	// Attempts is how often a message is delivered, the first time included, before it
	// counts as undelivered. 0: 25.
	Attempts int
	// Interval is how long after the first failure it is delivered again; each time it is
	// twice as long, up to Longest. 0: 200 milliseconds, and 5 minutes.
	Interval, Longest time.Duration
	// MaxAge is after which time a message counts as undelivered. 0: 3 days.
	MaxAge time.Duration
}

// SpawnOnly has actors of the type exist only once another actor has spawned them: [Spawn].
// Calls and messages of others fail.
func SpawnOnly() Part { return spawnOnly{} }

type spawnOnly struct{}

func (spawnOnly) addTo(t *actorType) { t.spec.Spawn = abi.SpawnOnly }

func (h Hooks) addTo(t *actorType) { t.spec.Hooks = abi.Hooks(h) }

func (p MessagePolicy) addTo(t *actorType) {
	t.spec.Messages = abi.MessagePolicy{
		Attempts: bounded(p.Attempts), IntervalMillis: milliseconds(p.Interval), MaxMillis: milliseconds(p.Longest), AgeMillis: milliseconds(p.MaxAge),
	}
}

// In puts the method into sets of methods: after [Become] has chosen a set, the actor accepts
// the methods of that set, and those that are in none. Calls of others fail with the code
// not_accepted.
func In(sets ...string) MethodOption {
	return func(m *abi.MethodSpec) { m.Sets = append(m.Sets, sets...) }
}

// Errors of an actor's life, to compare with [errors.Is].
var (
	// ErrTaken is a service that another actor stands for.
	ErrTaken = NewError(StatusAlreadyExists, "taken", "another actor stands for the service")
	// ErrServiceNotFound is a call or a message to a service that no actor stands for.
	ErrServiceNotFound = NewError(StatusNotFound, abi.CallServiceNotFound, "no actor stands for the service")
	// ErrNotAccepted is a call of a method that is not in the actor's set of methods.
	ErrNotAccepted = NewError(StatusFailedPrecondition, abi.CallNotAccepted, "the actor does not accept the method now")
	// ErrPassedAway is a call of an actor that was spawned and has passed away, or that
	// nobody has spawned although its type is [SpawnOnly].
	ErrPassedAway = NewError(StatusNotFound, abi.CallPassedAway, "the actor has passed away")
	// ErrLifeOver is what a turn does to its actor after [PassAway].
	ErrLifeOver = NewError(StatusFailedPrecondition, "life_over", "the turn has ended its actor's life")
)

// Service is the address of the actor that stands for a service; see [Claim]. It is a Ref
// without a type.
func Service(name string) Ref { return Ref{ID: name} }

// Spawn makes a new actor of a type of the app, with an ID that no other actor has, and
// returns its address; a turn that runs again gets the same one. The actor exists when the turn
// has committed: the turn itself can send it messages, and cannot call it ([ErrNotAtomic]).
func Spawn(ctx *Context, typ string) (Ref, error) {
	id, code := spawn(ctx, typ)
	if code != 0 {
		return Ref{}, lifeError(ctx, "spawn an actor of", typ, "type", code)
	}
	return Ref{Type: strings.Clone(typ), ID: id}, nil
}

// Become has the actor accept only the methods of a set, see [In], from its next turn on. The
// set is stored with the state. "" is all methods.
func Become(ctx *Context, set string) error {
	return lifeError(ctx, "become", set, "set", become(ctx, set))
}

// PassAway ends the actor's life with the turn: its state, reminders, timers and services are
// gone, and messages that wait for it are undelivered. It is the last thing that a turn does
// to its actor; what the turn has made of the state is dropped. Later calls meet an empty
// actor, unless it was spawned: then it stays dead.
func PassAway(ctx *Context) error {
	if err := lifeError(ctx, "pass away as", ctx.ID(), "life", passAway(ctx)); err != nil {
		return err
	}
	ctx.passed, ctx.touched = true, true
	return nil
}

// Claim has the actor stand for a service, a name of the app: calls and messages to [Service]
// of it go to this actor. One that another actor stands for is [ErrTaken].
func Claim(ctx *Context, service string) error {
	return lifeError(ctx, "claim", service, "service", serviceClaim(ctx, service))
}

// Release ends that the actor stands for a service, and reports whether it did.
func Release(ctx *Context, service string) (held bool, err error) {
	result := serviceRelease(ctx, service)
	if result < 0 {
		return false, lifeError(ctx, "release", service, "service", abi.Code(result))
	}
	return result == 1, nil
}

// lifeError is nil for a code that is none. what is what a code of -2 finds fault with.
func lifeError(ctx *Context, op, name, what string, code abi.Code) error {
	var err error
	switch code {
	case 0:
		return nil
	case abi.CodeInvalid:
		err = NewError(StatusInvalidArgument, "invalid_"+what, or(problem(ctx), "the "+what+" cannot be"))
	default:
		err = effectError(ctx, code)
	}
	if len(name) > 64 {
		name = strings.ToValidUTF8(name[:64], "") + "…"
	}
	return fmt.Errorf("%s %q: %w", op, name, err)
}
