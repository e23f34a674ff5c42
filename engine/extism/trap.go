package extism

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tetratelabs/wazero/sys"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine/confine"
)

// How wazero writes its errors, as in engine/wasm, and the SDK those of its own
// host functions. The tests of this package meet every one of them.
const (
	wazeroTrap     = "wasm error: "
	wazeroOverflow = "stack overflow"
	wazeroStack    = "\nwasm stack trace:\n\t"
	// wazeroRecovered is at the end of what a host function panicked with.
	wazeroRecovered = " (recovered by wazero)"
	sdkFault        = "could not "      // read or write an address
	sdkContext      = "Invalid context" // before the plug-in has started
	maxTrapStack    = 8 << 10
)

// What host functions throw through the plug-in to end the turn, besides an
// *actor.GuestError.
type (
	// memoryFault is an address or length outside the kernel's memory.
	memoryFault struct {
		function       string
		offset, length uint64
	}
	// noMemory is a block that the kernel has no room for.
	noMemory struct{ size int }
	// guestFault is something that no plug-in may do.
	guestFault struct{ text string }
	// refusal is a call at the wrong time.
	refusal struct{ text string }
)

func (e *memoryFault) Error() string {
	return fmt.Sprintf("%s was given %d bytes at offset %d, outside of Extism's memory", e.function, e.length, e.offset)
}

func (e *noMemory) Error() string {
	return fmt.Sprintf("Extism's memory has no room for a block of %d bytes", e.size)
}

func (e *guestFault) Error() string { return e.text }

func (e *refusal) Error() string { return e.text }

func exitText(code uint32) string { return fmt.Sprintf("the plug-in exited with code %d", code) }

// failure says in the words of package actor why a call of the plug-in ended with
// err. ctx is that of the call. The result is nil only if err is nil and ctx has
// not ended: what ended too late did not end in time.
func (i *instance) failure(ctx context.Context, what string, err error) error {
	var onPurpose *actor.GuestError
	var exit *sys.ExitError
	var stopped *confine.Stop
	var fuel *actor.FuelError
	if errors.As(err, &fuel) {
		return fuel // not an accident of the clock, which may have passed the deadline since
	}
	if ctx.Err() != nil && (err == nil || errors.As(err, &exit) || !strings.Contains(err.Error(), wazeroTrap)) {
		return fmt.Errorf("%s: %w", what, confine.Ended(ctx))
	}
	if err == nil {
		return nil
	}
	if errors.As(err, &stopped) {
		var trap *actor.TrapError
		if errors.As(stopped.Err, &trap) {
			return trap
		}
		return fmt.Errorf("%s: %w", what, stopped.Err)
	}
	if errors.As(err, &onPurpose) {
		return onPurpose
	}
	kind, text, stack, ok := i.classify(err)
	if !ok {
		i.program.engine.log.Error("a host function, the Extism SDK or the Wasm runtime failed: this is a bug of Greenroom",
			"module", i.program.digest.Short(), "error", err, "stack", goStack(err))
		return fmt.Errorf("%s: internal error of the host", what)
	}
	if reason := i.out.reason(); reason != "" {
		text = reason + " (" + text + ")"
	}
	if i.mem.refused > 0 && kind != actor.TrapProtocol {
		kind = actor.TrapMemory
		text = fmt.Sprintf("the plug-in wanted %d bytes of memory in all, above its limit of %d: %s", i.mem.refused, i.limit, text)
	}
	return &actor.TrapError{Kind: kind, Message: text, Stack: stack}
}

// classify tells what a plug-in did from what is no fault of it.
func (i *instance) classify(err error) (kind actor.TrapKind, text, stack string, ok bool) {
	text, stack, _ = strings.Cut(err.Error(), wazeroStack)
	stack = strings.ReplaceAll(stack, "\n\t", "\n")
	if len(stack) > maxTrapStack {
		stack = strings.ToValidUTF8(stack[:maxTrapStack], "")
	}
	if at := strings.Index(text, wazeroTrap); at > 0 { // wrapped: a start function
		text = text[at:]
	}
	var address *memoryFault
	var full *noMemory
	var fault *guestFault
	var early *refusal
	var exit *sys.ExitError
	switch {
	case errors.As(err, &address):
		return actor.TrapProtocol, address.Error(), stack, true
	case errors.As(err, &full):
		return actor.TrapMemory, full.Error(), stack, true
	case errors.As(err, &fault):
		return actor.TrapUnreachable, fault.text, stack, true
	case errors.As(err, &early):
		return actor.TrapProtocol, early.text, stack, true
	case errors.As(err, &exit):
		return actor.TrapUnreachable, exitText(exit.ExitCode()), stack, true
	case strings.HasSuffix(text, wazeroOverflow):
		return actor.TrapStack, "call stack exhausted: the plug-in recurses too deep", stack, true
	case strings.HasPrefix(text, wazeroTrap):
		return actor.TrapUnreachable, strings.TrimPrefix(text, wazeroTrap), stack, true
	case strings.Contains(text, sdkContext):
		return actor.TrapProtocol, "a function of Extism" + startedText, stack, true
	case strings.HasPrefix(text, sdkFault):
		return actor.TrapProtocol, "the plug-in used an address outside of Extism's memory", stack, true
	case !errors.As(err, new(*confine.PanicError)) && !strings.HasSuffix(text, wazeroRecovered):
		// The SDK itself: its kernel does not work any more.
		return actor.TrapProtocol, "the plug-in damaged Extism's own data: " + cleanText(head([]byte(text), 200)), stack, true
	}
	return "", "", "", false
}

func goStack(err error) string {
	var p *confine.PanicError
	if errors.As(err, &p) {
		return string(p.Stack)
	}
	return ""
}
