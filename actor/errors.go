package actor

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kind is the stable, machine-readable name of a failure that users see, beside
// the Connect code. docs/errors.md lists them all.
type Kind string

// Condition is a sentinel: a failure that callers branch on. Compare with
// [errors.Is]; wrap it to add what is known.
type Condition struct {
	kind      Kind
	text      string
	retryable bool
}

// Error returns a neutral sentence that is safe to show to users.
func (c *Condition) Error() string { return c.text }

// Kind returns the name that users see.
func (c *Condition) Kind() Kind { return c.kind }

// Retryable reports whether the same request may succeed later, and cannot have
// taken effect now.
func (c *Condition) Retryable() bool { return c.retryable }

// The sentinels of every package. One block, so that a kind is defined once.
var (
	ErrTypeNotFound    = &Condition{"type_not_found", "no deployment serves this actor type", false}
	ErrMethodNotFound  = &Condition{"method_not_found", "the actor type has no such method", false}
	ErrActorNotFound   = &Condition{"actor_not_found", "the actor has no stored state", false}
	ErrNotAccepted     = &Condition{"not_accepted", "the actor does not accept the method now", false}
	ErrNotAcceptedYet  = &Condition{"not_accepted_yet", "the actor does not accept the method now, and the message waits", true}
	ErrPassedAway      = &Condition{"passed_away", "the actor does not exist", false}
	ErrMethodPrivate   = &Condition{"method_private", "the method takes no calls from outside", false}
	ErrNotReadOnly     = &Condition{"not_read_only", "the method is not declared read-only", false}
	ErrMailboxFull     = &Condition{"mailbox_full", "the actor's mailbox is full", true}
	ErrHostFull        = &Condition{"host_full", "the host has no memory left for it", true}
	ErrOverloaded      = &Condition{"overloaded", "the host has no capacity left", true}
	ErrDeadline        = &Condition{"deadline", "the turn did not finish before its deadline", false}
	ErrCanceled        = &Condition{"canceled", "the caller went away", false}
	ErrStopping        = &Condition{"stopping", "the host is stopping", true}
	ErrDeadlock        = &Condition{"deadlock", "the turn and others have waited for each other's actors", true}
	ErrChainTooLarge   = &Condition{"chain_too_large", "the turn and those that it called have changed too much for one commit", false}
	ErrNotAtomic       = &Condition{"not_atomic", "not all of the actors can be in one transaction", false}
	ErrStale           = &Condition{"conflict", "another writer changed the actor first", true}
	ErrLeft            = &Condition{"request_sent", "the turn was not committed, and had sent an HTTP request, or called an actor of another host; without an idempotency key it is not run again", false}
	ErrKeyReused       = &Condition{"idempotency_key_reused", "the idempotency key was used before with another payload", false}
	ErrAmbiguous       = &Condition{"ambiguous", "whether the turn was committed cannot be known", false}
	ErrUnavailable     = &Condition{"store_unavailable", "the store cannot be reached or cannot write", true}
	ErrStateDamaged    = &Condition{"state_damaged", "the actor's stored state cannot be decoded", false}
	ErrSchemaNewer     = &Condition{"schema_newer", "the actor's state has a newer schema than the deployed module knows", false}
	ErrModuleNotFound  = &Condition{"module_not_found", "no module has this digest", false}
	ErrModuleInUse     = &Condition{"module_in_use", "the module is deployed", false}
	ErrModuleDamaged   = &Condition{"module_damaged", "the module's stored bytes do not match its digest", false}
	ErrNoGeneration    = &Condition{"generation_not_found", "the actor type has no such deployment generation", false}
	ErrDeployConflict  = &Condition{"deploy_conflict", "another deployment of this type came first", true}
	ErrHostTooOld      = &Condition{"host_too_old", "a host of the cluster does not know what the module uses", false}
	ErrSchemaRollback  = &Condition{"schema_rollback", "the module declares an older state schema than the one deployed", false}
	ErrModuleTooLarge  = &Condition{"module_too_large", "the module is larger than the limit", false}
	ErrModulesFull     = &Condition{"modules_full", "the app stores as many modules as it may", false}
	ErrNoSecretsKey    = &Condition{"secrets_key_missing", "the server has no key to keep secrets with; start it with --secrets-key-file", false}
	ErrSettingNotFound = &Condition{"setting_not_found", "the app was not given that", false}
	ErrHostGone        = &Condition{"host_gone", "the host's row is not there: its lease ran out and it was cleared, or it has left", false}
	ErrClusterName     = &Condition{"cluster_name", "the database belongs to a cluster of another name", false}
	ErrPayloadTooLarge = &Condition{"payload_too_large", "the payload is larger than the limit", false}
	ErrNoOwner         = &Condition{"no_owner", "no host that holds the actor took the call in time", true}
	ErrStoodStill      = &Condition{"stood_still", "the server's process stood still, and the call with an idempotency key may have waited for longer than its caller does", true}

	ErrTypePaused    = &Condition{"type_paused", "the actor type is paused", true}
	ErrQuotaExceeded = &Condition{"quota_exceeded", "the app has used up its quota", true}
	ErrRateLimited   = &Condition{"rate_limited", "a limit of the actor type is reached", true}
	// ErrCallCancelled is not retryable: who cancels what waits does not want it back.
	ErrCallCancelled = &Condition{"call_cancelled", "the call was cancelled while it waited", false}

	// ErrNotOwner is a host's answer to a call of an actor that it does not hold: the
	// call has not begun. Whoever routes calls goes on with it; users never see it.
	ErrNotOwner = &Condition{"not_owner", "another host holds the actor", true}

	ErrReminderNotFound   = &Condition{"reminder_not_found", "the actor has no reminder of this name", false}
	ErrTimerNotFound      = &Condition{"timer_not_found", "the actor has no timer of this name", false}
	ErrDeadLetterNotFound = &Condition{"dead_letter_not_found", "the app has no such dead letter", false}
	// ErrServiceTaken is a store's answer to a commit that claims a service which another actor
	// stands for.
	ErrServiceTaken = &Condition{"service_taken", "another actor stands for the service", true}

	// ErrFiringTaken is a store's answer to a commit with a step of a reminder that is
	// not at its version any more: nothing was applied.
	ErrFiringTaken = &Condition{"firing_taken", "the reminder has changed: its firing was committed before, or it was set anew, paused or removed", false}
	// ErrMessageOrder is a store's answer to a commit with an ordered step of a message before
	// which there is another one of the same sender: nothing was applied.
	ErrMessageOrder = &Condition{"message_order", "an earlier message of the same sender was not consumed yet", true}
	ErrPositionGone = &Condition{"position_gone", "events after this position are not kept any more", false}
	ErrInboxFull    = &Condition{"inbox_full", "the actor has not consumed as many messages as its inbox holds", true}
	ErrNoTokens     = &Condition{"no_reminder_tokens", "the host does not create reminders yet: it has just started", true}

	// ErrKeyExists is a store's answer to a commit whose idempotency key is already
	// recorded: nothing was applied. The sender of the commit answers with the
	// recorded reply; users see this error only if the record is gone by then.
	ErrKeyExists = &Condition{"idempotency_key_exists", "another call with this idempotency key was committed first", true}
)

// TurnError is any failure of a turn, with whose it was. Err is a [*Condition]
// (possibly wrapped) or one of the typed errors of this package.
type TurnError struct {
	Key    Key
	Method string // empty when no method was asked for: a delete, a look at the state
	Err    error
}

func (e *TurnError) Error() string {
	if e.Method == "" {
		return fmt.Sprintf("%s: %v", e.Key, e.Err)
	}
	return fmt.Sprintf("%s.%s: %v", e.Key, e.Method, e.Err)
}

func (e *TurnError) Unwrap() error { return e.Err }

// Status is a gRPC/Connect code number, 1 to 16: what a guest may choose for
// its own errors.
type Status uint16

// GuestError is what a guest returned on purpose; it reaches the caller as it is.
type GuestError struct {
	Status Status
	// Code is the application's own name for the failure: "out_of_stock".
	Code    string
	Message string
	// Detail is opaque to Greenroom.
	Detail    Payload
	Retryable bool
	// RetryAfter is how long to wait before trying again, with Retryable; 0: as the
	// caller sees fit.
	RetryAfter time.Duration
}

func (e *GuestError) Error() string {
	switch {
	case e.Code == "":
		return e.Message
	case e.Message == "":
		return e.Code
	}
	return e.Code + ": " + e.Message
}

// TrapKind says which bound a guest ran into.
type TrapKind string

// The kinds of traps.
const (
	TrapUnreachable TrapKind = "guest_trap"     // a panic, an abort, any Wasm trap
	TrapStack       TrapKind = "guest_stack"    // call stack exhausted
	TrapMemory      TrapKind = "guest_memory"   // memory limit reached
	TrapProtocol    TrapKind = "guest_protocol" // the guest broke the ABI
)

// TrapError is a guest that failed without saying so. Its instance is gone.
type TrapError struct {
	Kind TrapKind
	// Message is the trap and, where there is one, the guest's panic text.
	Message string
	// Stack is the Wasm stack with function names; it may be empty.
	Stack string
}

func (e *TrapError) Error() string { return e.Message }

// ReasonError is a condition with its reason, which is safe to show to users. What other
// errors have around a condition may name files, addresses and statements.
type ReasonError struct {
	Condition *Condition
	Reason    string // what the matter is, and what to change
}

func (e *ReasonError) Error() string { return e.Condition.text + ": " + e.Reason }

// Unwrap makes it the condition.
func (e *ReasonError) Unwrap() error { return e.Condition }

// SpaceError is a store that takes no writes since its disk is nearly full. It is
// [ErrUnavailable] as well, and its text is safe to show to users.
type SpaceError struct{ Free, Minimum uint64 } // bytes

func (e *SpaceError) Error() string {
	return fmt.Sprintf("the disk of the server's data has %d MiB left, and %d MiB must stay free: nothing can be written; make space, or put the data on another disk with --data-dir",
		e.Free>>20, e.Minimum>>20)
}

// Unwrap makes it [ErrUnavailable].
func (e *SpaceError) Unwrap() error { return ErrUnavailable }

// UnwritableError is a store whose database takes no writes now. It is [ErrUnavailable] as
// well, and its text is safe to show to users.
type UnwritableError struct{ Reason string } // what is the matter, and what to do

func (e *UnwritableError) Error() string { return "the database takes no writes: " + e.Reason }

// Unwrap makes it [ErrUnavailable].
func (e *UnwritableError) Unwrap() error { return ErrUnavailable }

// HostAwayError is a call of an actor that one host alone may hold, which is not there. It
// is [ErrNoOwner] as well, and its text is safe to show to users.
type HostAwayError struct{ Name string }

func (e *HostAwayError) Error() string {
	return fmt.Sprintf("the actor belongs to the server that is named %q, which is away; try again when it is back, or place the type elsewhere", e.Name)
}

// Unwrap makes it [ErrNoOwner].
func (e *HostAwayError) Unwrap() error { return ErrNoOwner }

// FuelError is a turn that needed more fuel than its limit; it left no trace.
type FuelError struct{ Used, Limit uint64 }

func (e *FuelError) Error() string {
	return fmt.Sprintf("the turn used %d units of fuel; at most %d are allowed: do less in one turn, or raise the type's fuel limit", e.Used, e.Limit)
}

// StateTooLargeError is a turn whose state passed the limit; nothing was kept.
type StateTooLargeError struct {
	Size, Limit int // bytes after encoding
	// Setting is what the limit is set by, for people; empty if that is not known.
	Setting string
	// Largest are the largest keys with their sizes, largest first, at most five.
	Largest []KeySize
}

// KeySize is one state key and the bytes of its value.
type KeySize struct {
	Key  string
	Size int
}

func (e *StateTooLargeError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the actor's state has %d bytes; at most %d are allowed", e.Size, e.Limit)
	if e.Setting != "" {
		b.WriteString(", by " + e.Setting)
	}
	for i, k := range e.Largest {
		if i == 0 {
			b.WriteString("; largest keys: ")
		} else {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q (%d)", k.Key, k.Size)
	}
	return b.String()
}

// InvalidModuleError is an upload that was refused, with every fault found.
type InvalidModuleError struct{ Faults []Fault }

func (e *InvalidModuleError) Error() string {
	msgs := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		msgs[i] = f.Message
	}
	return fmt.Sprintf("the module has %d fault(s): %s", len(e.Faults), strings.Join(msgs, "; "))
}

// AsCondition returns the sentinel that err wraps, nil if there is none.
func AsCondition(err error) *Condition {
	var c *Condition
	if errors.As(err, &c) {
		return c
	}
	return nil
}

// Conditions returns every sentinel of this package, for tables and tests.
func Conditions() []*Condition {
	return []*Condition{
		ErrTypeNotFound, ErrMethodNotFound, ErrActorNotFound, ErrNotAccepted, ErrNotAcceptedYet, ErrPassedAway, ErrMethodPrivate, ErrNotReadOnly,
		ErrMailboxFull, ErrHostFull, ErrOverloaded, ErrDeadline, ErrCanceled, ErrStopping,
		ErrDeadlock, ErrChainTooLarge, ErrNotAtomic, ErrStale, ErrKeyExists, ErrKeyReused, ErrAmbiguous, ErrUnavailable, ErrStateDamaged, ErrModuleDamaged, ErrSchemaNewer,
		ErrModuleNotFound, ErrModuleInUse, ErrModulesFull, ErrNoGeneration, ErrDeployConflict,
		ErrSchemaRollback, ErrHostTooOld, ErrModuleTooLarge, ErrPayloadTooLarge,
		ErrLeft, ErrNoSecretsKey, ErrSettingNotFound, ErrHostGone,
		ErrReminderNotFound, ErrTimerNotFound, ErrDeadLetterNotFound, ErrServiceTaken, ErrFiringTaken, ErrMessageOrder, ErrInboxFull, ErrPositionGone, ErrNoTokens, ErrNoOwner, ErrStoodStill,
		ErrTypePaused, ErrQuotaExceeded, ErrRateLimited, ErrCallCancelled,
	}
}
