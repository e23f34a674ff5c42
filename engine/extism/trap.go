package extism

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tetratelabs/wazero/sys"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine/confine"
	"github.com/greenroom-run/greenroom/engine/guest"
)

// How the SDK writes the errors of its own host functions, and wazero those of ours.
// The tests of this package meet every one of them.
const (
	// wazeroRecovered is at the end of what a host function panicked with.
	wazeroRecovered = " (recovered by wazero)"
	sdkFault        = "could not "      // read or write an address
	sdkContext      = "Invalid context" // before the plug-in has started
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
	if ctx.Err() != nil && (err == nil || errors.As(err, &exit) || !trapped(err)) {
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
	ended, ok := classify(err)
	if !ok {
		i.program.engine.log.Error("a host function, the Extism SDK or the Wasm runtime failed: this is a bug of Greenroom",
			"module", i.program.digest.Short(), "error", err, "stack", guest.PanicStack(err))
		return fmt.Errorf("%s: internal error of the host", what)
	}
	ended.Message = i.out.Explain(ended.Message)
	if i.mem.short {
		return errShort(what)
	}
	if i.mem.refused > 0 && ended.Kind != actor.TrapProtocol {
		ended.Kind = actor.TrapMemory
		ended.Message = fmt.Sprintf("the plug-in wanted %d bytes of memory in all, above its limit of %d: %s", i.mem.refused, i.limit, ended.Message)
	}
	ended.Stack = guest.Stack(ended.Stack, i.out.Dump())
	return &ended
}

func trapped(err error) bool {
	_, ok := guest.TrapOf(err)
	return ok
}

// classify tells what a plug-in did from what is no fault of it.
func classify(err error) (ended actor.TrapError, ok bool) {
	ended, trapped := guest.TrapOf(err)
	is := func(kind actor.TrapKind, text string) (actor.TrapError, bool) {
		return actor.TrapError{Kind: kind, Message: text, Stack: ended.Stack}, true
	}
	var address *memoryFault
	var full *noMemory
	var fault *guestFault
	var early *refusal
	var exit *sys.ExitError
	switch {
	case errors.As(err, &address):
		return is(actor.TrapProtocol, address.Error())
	case errors.As(err, &full):
		return is(actor.TrapMemory, full.Error())
	case errors.As(err, &fault):
		return is(actor.TrapUnreachable, fault.text)
	case errors.As(err, &early):
		return is(actor.TrapProtocol, early.text)
	case errors.As(err, &exit):
		return is(actor.TrapUnreachable, exitText(exit.ExitCode()))
	case trapped:
		return ended, true
	case strings.Contains(ended.Message, sdkContext):
		return is(actor.TrapProtocol, "a function of Extism"+startedText)
	case strings.HasPrefix(ended.Message, sdkFault):
		return is(actor.TrapProtocol, "the plug-in used an address outside of Extism's memory")
	case !errors.As(err, new(*confine.PanicError)) && !strings.HasSuffix(ended.Message, wazeroRecovered):
		// The SDK itself: its kernel does not work any more.
		return is(actor.TrapProtocol, "the plug-in damaged Extism's own data: "+guest.Text(head([]byte(ended.Message), 200)))
	}
	return actor.TrapError{}, false
}

// head is at most the first n bytes of b.
func head(b []byte, n int) []byte { return b[:min(len(b), n)] }
