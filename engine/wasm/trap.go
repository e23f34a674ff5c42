package wasm

import (
	"context"
	"errors"
	"fmt"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine/confine"
	"github.com/greenroom-run/greenroom/engine/guest"
)

// failure says in the words of package actor why a call of the guest ended with
// err. ctx is that of the call. The result is nil only if err is nil and ctx
// has not ended: what ended too late did not end in time.
func (i *instance) failure(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil && !ownDoing(err) {
		return fmt.Errorf("%s: %w", what, confine.Ended(ctx))
	}
	if err == nil {
		return nil
	}
	var stopped *confine.Stop
	var trap *actor.TrapError
	var fault *memoryFault
	var exit *guestExit
	ended, trapped := guest.TrapOf(err)
	switch {
	case errors.As(err, &stopped) && errors.As(stopped.Err, &trap):
		ended.Kind, ended.Message = trap.Kind, trap.Message
	case errors.As(err, &stopped):
		return fmt.Errorf("%s: %w", what, stopped.Err)
	case errors.As(err, &fault):
		ended.Message = fault.Error()
	case errors.As(err, &exit):
		ended.Message = fmt.Sprintf("the guest exited with code %d", exit.code)
	case trapped:
	default:
		i.program.engine.log.Error("a host function or the Wasm runtime failed: this is a bug of Greenroom",
			"module", i.program.digest.Short(), "error", err, "stack", guest.PanicStack(err))
		return fmt.Errorf("%s: internal error of the host", what)
	}
	ended.Message = i.out.Explain(ended.Message)
	if i.mem.short {
		return fmt.Errorf("%s: %w (%s)", what, i.mem.errShort(), ended.Message)
	}
	if i.mem.refused > 0 {
		ended.Kind = actor.TrapMemory
		ended.Message = fmt.Sprintf("the guest wanted %d bytes of memory, above its limit of %d: %s", i.mem.refused, i.mem.limit, ended.Message)
	}
	ended.Stack = guest.Stack(ended.Stack, i.out.Dump())
	return &ended
}

// ownDoing reports whether err is the guest's own doing, or was decided already,
// whatever the clock says now.
func ownDoing(err error) bool {
	var fault *memoryFault
	var stopped *confine.Stop
	if err == nil || errors.As(err, &fault) || errors.As(err, &stopped) {
		return err != nil
	}
	_, trapped := guest.TrapOf(err)
	return trapped
}

// isStartTrap reports whether err came from running code, rather than from
// laying out the module.
func isStartTrap(err error) bool {
	var exit *guestExit
	var bug *confine.PanicError
	return ownDoing(err) || errors.As(err, &exit) || errors.As(err, &bug)
}

// protocol is a guest that broke the ABI.
func protocol(format string, args ...any) error {
	return &actor.TrapError{Kind: actor.TrapProtocol, Message: fmt.Sprintf(format, args...)}
}
