package guest

import (
	"errors"
	"strings"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine/confine"
)

// How wazero writes its errors; the types are internal to it. The tests of the
// engines meet every one of them.
const (
	wazeroTrap     = "wasm error: "
	wazeroOverflow = "stack overflow"
	wazeroStack    = "\nwasm stack trace:\n\t"
)

// maxStack bounds the stack of a trap that is kept, in bytes.
const maxStack = 8 << 10

// TrapOf reads an error that wazero returned, which must not be nil. If it is a trap
// of the guest's code, ok is true; otherwise the Message is the error's text without
// the stack, for a caller that knows what its host functions throw.
func TrapOf(err error) (trap actor.TrapError, ok bool) {
	text, stack, _ := strings.Cut(err.Error(), wazeroStack)
	if at := strings.Index(text, wazeroTrap); at > 0 { // wrapped: a start function
		text = text[at:]
	}
	if len(stack) > maxStack {
		stack = strings.ToValidUTF8(stack[:maxStack], "")
	}
	trap = actor.TrapError{Kind: actor.TrapUnreachable, Message: text, Stack: strings.ReplaceAll(stack, "\n\t", "\n")}
	switch {
	case strings.HasSuffix(text, wazeroOverflow):
		trap.Kind, trap.Message = actor.TrapStack, "call stack exhausted: the guest recurses too deep"
	case strings.HasPrefix(text, wazeroTrap):
		trap.Message = strings.TrimPrefix(text, wazeroTrap)
	default:
		return trap, false
	}
	return trap, true
}

// PanicStack is the stack of a [confine.PanicError], empty for other errors.
func PanicStack(err error) string {
	var p *confine.PanicError
	if errors.As(err, &p) {
		return string(p.Stack)
	}
	return ""
}
