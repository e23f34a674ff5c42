package guest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine/confine"
)

// lines is a turn's log.
type lines []string

func (l *lines) Log(level int32, text string) { *l = append(*l, fmt.Sprint(level, " ", text)) }

func TestLines(t *testing.T) {
	for _, tc := range []struct {
		name  string
		write func(o *Output)
		want  []string
	}{
		{"nothing", func(o *Output) { o.Print(1, nil) }, nil},
		{"lines in pieces", func(o *Output) { o.Print(1, []byte("a\n\nb")); o.Print(1, []byte("c\n")) }, []string{"0 a", "0 bc"}},
		{"two descriptors at once", func(o *Output) { o.Print(1, []byte("out")); o.Print(2, []byte("err\n")) }, []string{"4 err", "0 out"}},
		{"not UTF-8", func(o *Output) { o.Print(1, []byte("a\xffb\n")); o.Log(8, []byte("\xff")) }, []string{"0 a\uFFFDb", "8 \uFFFD"}},
		{"a long line", func(o *Output) { o.Print(1, []byte(strings.Repeat("x", MaxLine+1))) }, []string{"0 " + strings.Repeat("x", MaxLine)}},
		{"a long message", func(o *Output) { o.Log(0, []byte(strings.Repeat("x", MaxLine+1))) }, []string{"0 " + strings.Repeat("x", MaxLine)}},
	} {
		var o Output
		var got lines
		o.Print(1, []byte("before the turn"))
		o.Begin(&got)
		tc.write(&o)
		o.End()
		o.Print(1, []byte("after the turn\n"))
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %.200q", tc.name, got)
		}
	}
}

// A turn's log is bounded in lines and in bytes, and says so once; the next turn has
// all of it again.
func TestLogIsBounded(t *testing.T) {
	var o Output
	for name, text := range map[string]string{"lines": "x", "bytes": strings.Repeat("x", MaxLine)} {
		var got lines
		o.Begin(&got)
		for range 2 * MaxLines {
			o.Log(LevelInfo, []byte(text))
		}
		o.End()
		size := 0
		for _, l := range got {
			size += len(l)
		}
		if n := len(got); n > MaxLines+1 || size > MaxBytes+2*n+100 || !strings.Contains(got[n-1], "dropped") || strings.Contains(got[n-2], "dropped") {
			t.Errorf("%s: %d lines of %d bytes, the last %q", name, n, size, got[n-1])
		}
	}
}

func TestReason(t *testing.T) {
	goroutines := "\n\ngoroutine 1 [running]:\n" + strings.Repeat("main.main()\n", 1000)
	for _, tc := range []struct {
		name, out, want string
		in              int // bytes at a time
	}{
		{"silent", "", "", 1},
		{"the last lines", "1\n2\n3\n4\n5\n6\n7\n", "3\n4\n5\n6\n7", 3},
		{"a panic of Go", "hello\npanic: no money" + goroutines, "panic: no money", 64},
		{"a panic after much", strings.Repeat("hello\n", 10_000) + "panic: no money" + goroutines, "panic: no money", 512},
		{"a panic of Rust", "thread 'main' panicked at src/lib.rs:1:1:\nno money\n", "panicked at src/lib.rs:1:1:\nno money", 7},
		{"a long one", "panic: " + strings.Repeat("x", 1<<20), "panic: " + strings.Repeat("x", maxReason-7) + "…", 1 << 20},
	} {
		var o Output
		o.Begin(nil)
		for part := range slices.Chunk([]byte(tc.out), tc.in) {
			o.Print(2, part)
		}
		if got := o.Reason(); got != tc.want {
			t.Errorf("%s: %q", tc.name, got[:min(len(got), 200)])
		}
		for trap, said := range map[string]bool{"unreachable": tc.want != "" && !strings.Contains(tc.name, "panic") && !strings.Contains(tc.name, "long"), "exit 2": tc.want != ""} {
			if got := o.Explain(trap); strings.HasSuffix(got, " ("+trap+")") != said || !strings.HasPrefix(got, tc.want) {
				t.Errorf("%s: %q", tc.name, got[:min(len(got), 200)])
			}
		}
		if len(o.tail) > 2*maxTail {
			t.Errorf("%s: %d bytes are kept", tc.name, len(o.tail))
		}
		o.Begin(nil)
		if got := o.Reason(); got != "" {
			t.Errorf("%s: of the next turn: %q", tc.name, got)
		}
	}
	var o Output
	o.Log(LevelWarn, []byte("a warning"))
	o.Log(LevelError, []byte("an error"))
	if got := o.Reason(); got != "an error" {
		t.Errorf("logged: %q", got)
	}
}

func TestTrapOf(t *testing.T) {
	const stack = wazeroStack + "main.f(i32)\n\tmain.g()"
	for text, want := range map[string]actor.TrapError{
		"wasm error: unreachable" + stack:                {Kind: actor.TrapUnreachable, Message: "unreachable", Stack: "main.f(i32)\nmain.g()"},
		"start function failed: wasm error: unreachable": {Kind: actor.TrapUnreachable, Message: "unreachable"},
		"wasm error: stack overflow" + stack:             {Kind: actor.TrapStack, Message: "call stack exhausted: the guest recurses too deep", Stack: "main.f(i32)\nmain.g()"},
	} {
		if got, ok := TrapOf(errors.New(text)); !ok || got != want {
			t.Errorf("%q: %+v, %t", text, got, ok)
		}
	}
	if got, ok := TrapOf(errors.New("no memory (recovered by wazero)" + stack)); ok || got.Message != "no memory (recovered by wazero)" {
		t.Errorf("of a host function: %+v, %t", got, ok)
	}
	if got, _ := TrapOf(errors.New("wasm error: x" + wazeroStack + strings.Repeat("ü", maxStack))); len(got.Stack) > maxStack || !strings.HasSuffix(got.Stack, "ü") {
		t.Errorf("a long stack has %d bytes", len(got.Stack))
	}
	if got := PanicStack(fmt.Errorf("wrapped: %w", &confine.PanicError{Stack: []byte("here")})); got != "here" || PanicStack(errors.New("other")) != "" {
		t.Errorf("stack of a panic: %q", got)
	}
}
