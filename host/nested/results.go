package nested

import (
	"errors"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/call"
)

// refuse returns the refusal of a call, which the caller gets as a result.
func refuse(code, format string, args ...any) error {
	return &actor.GuestError{Status: actor.Status(abi.StatusFailedPrecondition), Code: code, Message: fmt.Sprintf(format, args...)}
}

// NotReentrant refuses a call of an actor whose turn waits for it by way of a host that passes no waits on.
func NotReentrant(key *actor.Key) error {
	return refuse(abi.CallNotReentrant, "a turn of %s %s is waiting for this call by way of a server of an earlier version, which passes no calls back; upgrade it", key.Type, key.ID)
}

// decidedError is a call that has failed with err, and whose outcome needs no translation: its
// caller gets result. Nil: err ends the chain.
type decidedError struct {
	result *abi.Result
	err    error
}

func (*decidedError) Error() string { return "the outcome of the call is decided" }

// oneOrder explains the end of a transaction that waited for another host, and how to avoid it.
const oneOrder = "transactions of several hosts may wait for each other's actors until their time is over; calling actors in one order avoids that"

// waits describes, for people, what a call waited for when its caller's time was over; empty if it
// ran here.
func waits(c *call.Call) string {
	switch {
	case c.Holder != "":
		return fmt.Sprintf("it waited for its call of %s %s at the host %s; %s", c.Inv.Key.Type, c.Inv.Key.ID, c.Holder, oneOrder)
	case c.Stats.Began.IsZero():
		return fmt.Sprintf("it waited for %s %s, which other turns had", c.Inv.Key.Type, c.Inv.Key.ID)
	}
	return ""
}

// failedResult describes the failure of a call to its caller.
func failedResult(c *call.Call, err error) *abi.Result {
	var guest *actor.GuestError
	var trap *actor.TrapError
	var argument *actor.ArgumentError
	var large *actor.StateTooLargeError
	var fuel *actor.FuelError
	var condition *actor.Condition
	r := &abi.Result{Error: abi.Error{Status: abi.StatusInternal, Code: abi.CallFailed, Message: "the call failed"}}
	switch {
	case errors.As(err, &guest):
		r.Error = abi.Error{
			Status: uint16(guest.Status), Code: guest.Code, Message: guest.Message, Retryable: guest.Retryable,
			RetryAfterMillis: uint32(guest.RetryAfter / time.Millisecond), DetailContentType: guest.Detail.ContentType, Detail: guest.Detail.Data,
		}
	case errors.As(err, &trap):
		r.Code, r.Message = abi.CallTrap, fmt.Sprintf("%s.%s trapped: %s", c.Inv.Key.Type, c.Inv.Method, trap.Message)
	case errors.As(err, &argument):
		r.Status, r.Code, r.Message = abi.StatusInvalidArgument, abi.CallInvalid, err.Error()
	case errors.As(err, &fuel):
		r.Status, r.Code, r.Message = abi.StatusResourceExhausted, abi.CallFailed, err.Error()
	case errors.As(err, &large):
		r.Status, r.Code, r.Message = abi.StatusResourceExhausted, abi.CallFailed, err.Error()
	case call.IsContextError(err):
		r.Status, r.Code, r.Message = abi.StatusDeadlineExceeded, abi.CallDeadline, fmt.Sprintf("%s %s %s did not end in time", c.Inv.Key.Type, c.Inv.Key.ID, c.Inv.Method)
		if c.Stats.Began.IsZero() {
			r.Message = fmt.Sprintf("the call of %s %s did not begin in time", c.Inv.Key.Type, c.Inv.Key.ID)
		}
	case errors.Is(err, actor.ErrMailboxFull), errors.Is(err, actor.ErrHostFull), errors.Is(err, actor.ErrOverloaded):
		r.Status, r.Code, r.Message, r.Retryable = abi.StatusResourceExhausted, abi.CallBusy, err.Error(), true
	case errors.Is(err, actor.ErrNotOwner):
		r.Status, r.Code, r.Message = abi.StatusFailedPrecondition, abi.CallNotAtomic, err.Error()
	case errors.As(err, &condition):
		r.Status, r.Code, r.Message, r.Retryable = statusOf(condition), string(condition.Kind()), err.Error(), condition.Retryable()
	}
	return r
}

// statusOf is the status of a call that the host has refused.
func statusOf(why *actor.Condition) uint16 {
	switch {
	case why == actor.ErrTypeNotFound, why == actor.ErrMethodNotFound, why == actor.ErrPassedAway:
		return abi.StatusNotFound
	case why == actor.ErrPayloadTooLarge:
		return abi.StatusInvalidArgument
	case why.Retryable():
		return abi.StatusUnavailable
	}
	return abi.StatusFailedPrecondition
}
