package call

import (
	"context"
	"errors"
	"fmt"

	"github.com/greenroom-run/greenroom/actor"
)

// Errors that end an attempt, and that callers never get.
var (
	// ErrMoved is an attempt that found another deployment in place than the one it
	// began with: the turn starts over with that one.
	ErrMoved = errors.New("the deployment changed")
	// ErrUnfenced means that the commits of earlier owners of an actor are to be fenced out
	// before its first turn.
	ErrUnfenced = errors.New("a commit of an earlier owner may still land")
	// ErrUnmigrated means that a read-only method found a state of an older schema, which is
	// to be migrated before it runs: what a read-only turn migrates is not kept.
	ErrUnmigrated = errors.New("the state has an older schema")
	// ErrRecorded ends a guest whose call is answered with what is recorded of it.
	ErrRecorded = errors.New("the call is recorded already")
	// ErrChained ends a guest that calls other actors where there is no chain. A read-only method
	// then gets a turn, so that all that it sees was the newest at one moment; a locked turn gives
	// its row back.
	ErrChained = errors.New("the method calls other actors")
	// ErrReadOnly is a call of a method that is not read-only, by a turn that is.
	ErrReadOnly = errors.New("a read-only turn calls a method that is not read-only")
	// ErrHandedOver ends a guest whose actor this host hands over, and that called another one
	// which has been handed over already. Its caller gets actor.ErrNotOwner.
	ErrHandedOver = fmt.Errorf("%w: it is handed over in the middle of a chain", actor.ErrNotOwner)
	// ErrDropped ends a guest whose turn is to run again, on the state loaded anew.
	ErrDropped = errors.New("the state that the turn ran on was dropped")
)

// ContextError translates the end of a caller's context.
func ContextError(ctx context.Context) error {
	if ctx.Err() == context.DeadlineExceeded {
		return actor.CallersDeadline(ctx)
	}
	return actor.ErrCanceled
}

// OfTurn is an error that ends a guest, which may be the end of the turn's context.
func OfTurn(err error) error {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return actor.ErrDeadline
	case errors.Is(err, context.Canceled):
		return actor.ErrCanceled
	}
	return err
}

// IsContextError reports whether err says that a caller has gone or that its time is over.
func IsContextError(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, actor.ErrDeadline) || errors.Is(err, actor.ErrCanceled)
}

// CutShort says what the end of the host's context means to the caller of a turn
// that it kept from being applied.
func CutShort(err error) error {
	if IsContextError(err) && !errors.Is(err, actor.ErrAmbiguous) {
		return fmt.Errorf("%w: %v", actor.ErrStopping, err)
	}
	return err
}

// Refused reports whether a commit was refused because another one came first.
func Refused(err error) bool {
	return errors.Is(err, actor.ErrStale) || errors.Is(err, actor.ErrKeyExists) || errors.Is(err, actor.ErrFiringTaken) ||
		errors.Is(err, actor.ErrMessageOrder)
}

// FromGuest reports whether err is the failure of a guest.
func FromGuest(err error) bool {
	var refused *actor.GuestError
	var trap *actor.TrapError
	return errors.As(err, &refused) || errors.As(err, &trap)
}

// Unrecorded reports a failure that might not be the answer of a call with a
// key, since the same call may have been committed before: what a guest, or the actor's method
// set, makes of the state that this call itself left, the store's refusal of the key, and that actors
// which were together then are not now.
func Unrecorded(err error) bool {
	var condition *actor.Condition
	if errors.Is(err, actor.ErrNotAccepted) || errors.Is(err, actor.ErrPassedAway) {
		return true
	}
	return errors.Is(err, actor.ErrKeyExists) || errors.Is(err, actor.ErrNotAtomic) || !errors.As(err, &condition) && !IsContextError(err)
}

// afterCommit is the error of a turn after another host has committed a call of it. A guest's error
// is not retryable then, since that means that the request had no effect. Often it is the error of
// a later call, which had none.
func afterCommit(err error) error {
	var guest *actor.GuestError
	if !errors.As(err, &guest) || !guest.Retryable {
		return err
	}
	final := *guest
	final.Retryable, final.RetryAfter = false, 0
	return &final
}

// finalError is the error of a turn that left the host and was not committed. It
// must not tell callers to try again: what left cannot be called back.
func finalError(err error) error {
	var c *actor.Condition
	if errors.As(err, &c) && c.Retryable() {
		return fmt.Errorf("%w (%v)", actor.ErrLeft, err)
	}
	return err
}

// PrivateError is the error of a call of a private method from outside.
func PrivateError(inv *actor.Invocation) error {
	return fmt.Errorf("%w: only actors of the app, their messages, reminders and timers call %s.%s", actor.ErrMethodPrivate, inv.Key.Type, inv.Method)
}
