package guest

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// A trap has one stack: the frames of the author's code, innermost first, one a
// line. What unwinds a panic above them, and what the SDK and the host do below
// them, is the same in every trap and left out. Go's runtime prints a stack of
// its guest, which knows files and lines; it is taken instead of the engine's, and
// not logged a second time.

// above are beginnings of functions that lead from the author's code to the trap.
var above = []string{
	"runtime.", "internal/runtime", "runtime/internal", "sync.(*", "greenroom_meter.", // Go, metering
	"rust_", "__rust_", "__rg_", "core::panicking", "core::result::unwrap_failed", "core::option::", "core::slice::index",
	"core::str::slice_error_fail", "std::panicking", "std::process", "std::sys", "std::rt", "std::alloc", "alloc::alloc", "alloc::raw_vec", "abort",
}

// below are beginnings of functions that lead from the host to the author's code.
var below = []string{
	"github.com/greenroom-run/greenroom/guest-sdk/", "github.com_greenroom_run_greenroom_guest_sdk_go", "greenroom_turn", "greenroom::", "<greenroom::",
	"core::ops::function",
}

var (
	wasmTypes  = regexp.MustCompile(`\([a-z0-9,]*\)( [a-z0-9,() ]+)?$`) // of a function, as wazero writes it
	goPointer  = regexp.MustCompile(`\.__([A-Za-z0-9_]+?)_\.`)          // (*T), as Go's linker writes it
	rustHash   = regexp.MustCompile(`::h[0-9a-f]{16}$`)
	goArgs     = regexp.MustCompile(`\((?:\.\.\.|0x[0-9a-f].*|\{.*|)\)$`)
	goFileLine = regexp.MustCompile(`^\t(\S+\.(?:go|s):\d+)`)
)

// Stack makes the stack of a trap of what wazero and, if it did, the guest's own
// runtime said: see [Output.Dump].
func Stack(wazero, printed string) string {
	if frames := goFrames(printed); len(frames) > 0 {
		return strings.Join(authors(frames), "\n")
	}
	var frames []string
	for line := range strings.Lines(wazero) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "... maybe followed") {
			continue
		}
		frames = append(frames, functionName(line))
	}
	return strings.Join(authors(frames), "\n")
}

// functionName is a frame of wazero's in the words of the guest's language.
func functionName(line string) string {
	name := strings.TrimPrefix(wasmTypes.ReplaceAllString(line, ""), ".")
	name = demangle.Filter(name, demangle.NoParams)
	return goPointer.ReplaceAllString(rustHash.ReplaceAllString(name, ""), ".(*$1).")
}

// goFrames reads the running goroutine of the trace that Go prints: pairs of a
// function and where it was.
func goFrames(printed string) []string {
	_, trace, found := strings.Cut(printed, "\ngoroutine ")
	if !found {
		return nil
	}
	_, trace, _ = strings.Cut(trace, "\n")
	var frames []string
	function := ""
	for line := range strings.Lines(trace) {
		line = strings.TrimRight(line, "\n")
		at := goFileLine.FindStringSubmatch(line)
		switch {
		case line == "" || strings.HasPrefix(line, "created by ") || strings.HasPrefix(line, "goroutine "):
			return frames
		case at != nil && function != "":
			frames = append(frames, function+"  "+at[1])
			function = ""
		case at == nil:
			function = goArgs.ReplaceAllString(line, "")
		}
	}
	return frames
}

// authors returns the frames of the author's code, repeated ones as one; all of
// them if none seems to be.
func authors(frames []string) []string {
	hasPrefix := func(frame string, prefixes []string) bool {
		for _, p := range prefixes {
			if strings.HasPrefix(frame, p) {
				return true
			}
		}
		return false
	}
	guest := frames
	for len(guest) > 0 && hasPrefix(guest[0], above) {
		guest = guest[1:]
	}
	for i, frame := range guest {
		if hasPrefix(frame, below) {
			guest = guest[:i]
			break
		}
	}
	if len(guest) == 0 {
		guest = frames
	}
	var out []string
	for i := 0; i < len(guest); {
		n := 1
		for i+n < len(guest) && guest[i+n] == guest[i] {
			n++
		}
		out = append(out, guest[i])
		if n > 1 {
			out[len(out)-1] += fmt.Sprintf("  (%d times or more)", n)
		}
		i += n
	}
	return out
}
