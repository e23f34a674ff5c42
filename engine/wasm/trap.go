package wasm

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine/confine"
)

// How wazero writes its errors; the types are internal to it. The tests of this
// package meet every one of them.
const (
	wazeroTrap     = "wasm error: "
	wazeroOverflow = "stack overflow"
	wazeroStack    = "\nwasm stack trace:\n\t"
	maxTrapStack   = 8 << 10
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
	text, stack, _ := strings.Cut(err.Error(), wazeroStack)
	if at := strings.Index(text, wazeroTrap); at > 0 { // wrapped: a start function
		text = text[at:]
	}
	kind := actor.TrapUnreachable
	switch {
	case errors.As(err, &stopped) && errors.As(stopped.Err, &trap):
		kind, text = trap.Kind, trap.Message
	case errors.As(err, &stopped):
		return fmt.Errorf("%s: %w", what, stopped.Err)
	case errors.As(err, &fault):
		text = fault.Error()
	case errors.As(err, &exit):
		text = fmt.Sprintf("the guest exited with code %d", exit.code)
	case strings.HasSuffix(text, wazeroOverflow):
		kind, text = actor.TrapStack, "call stack exhausted: the guest recurses too deep"
	case strings.HasPrefix(text, wazeroTrap):
		text = strings.TrimPrefix(text, wazeroTrap)
	default:
		i.program.engine.log.Error("a host function or the Wasm runtime failed: this is a bug of Greenroom",
			"module", i.program.digest.Short(), "error", err, "stack", goStack(err))
		return fmt.Errorf("%s: internal error of the host", what)
	}
	if reason := i.out.reason(); reason != "" {
		text = reason + " (" + text + ")"
	}
	if i.mem.refused > 0 {
		kind = actor.TrapMemory
		text = fmt.Sprintf("the guest wanted %d bytes of memory, above its limit of %d: %s", i.mem.refused, i.mem.limit, text)
	}
	if len(stack) > maxTrapStack {
		stack = strings.ToValidUTF8(stack[:maxTrapStack], "")
	}
	return &actor.TrapError{Kind: kind, Message: text, Stack: strings.ReplaceAll(stack, "\n\t", "\n")}
}

// ownDoing reports whether err is the guest's own doing, or was decided already,
// whatever the clock says now.
func ownDoing(err error) bool {
	var fault *memoryFault
	var stopped *confine.Stop
	return err != nil && (errors.As(err, &fault) || errors.As(err, &stopped) ||
		strings.Contains(err.Error(), wazeroTrap) || strings.HasSuffix(err.Error(), wazeroOverflow))
}

// isStartTrap reports whether err came from running code, rather than from
// laying out the module.
func isStartTrap(err error) bool {
	var exit *guestExit
	var bug *confine.PanicError
	return ownDoing(err) || errors.As(err, &exit) || errors.As(err, &bug)
}

func goStack(err error) string {
	var p *confine.PanicError
	if errors.As(err, &p) {
		return string(p.Stack)
	}
	return ""
}

// protocol is a guest that broke the ABI.
func protocol(format string, args ...any) error {
	return &actor.TrapError{Kind: actor.TrapProtocol, Message: fmt.Sprintf(format, args...)}
}
