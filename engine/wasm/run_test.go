package wasm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine/compile"
	"github.com/greenroom-run/greenroom/engine/confine"
	"github.com/greenroom-run/greenroom/engine/enginetest"
	"github.com/greenroom-run/greenroom/engine/guest"
	. "github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
)

func TestRun(t *testing.T) {
	e := newEngine(t, Config{})
	done := I32Const(abi.TurnDone)
	failFrame := abi.AppendError(nil, &abi.Error{Status: 5, Code: "gone", Message: "no such thing", Retryable: true, Detail: []byte("{}")})
	delayFrame := abi.AppendError(nil, &abi.Error{Status: 14, Retryable: true, RetryAfterMillis: 2500})
	fail := []Import{Host("fail", "ii", "i")}
	const at = 2048
	put := func(content string) func(*Builder) {
		return func(b *Builder) { b.Data(at, []byte(content)) }
	}
	for _, tc := range []struct {
		name   string
		guest  Guest
		frame  *abi.Turn
		trap   actor.TrapKind // expected, if not empty
		guestE *actor.GuestError
		is     error
		text   string // part of the error
		check  func(t *testing.T, c *fakeCalls)
	}{
		{name: "done"},
		{
			name:   "failed without saying why",
			guest:  Guest{Turn: I32Const(1)},
			guestE: &actor.GuestError{Status: 2, Message: "the guest failed without saying why"},
		},
		{
			name:   "failed",
			guest:  Guest{Imports: fail, More: put(string(failFrame)), Turn: Code(I32Const(at), I32Const(int32(len(failFrame))), Call(0), Drop, I32Const(1))},
			guestE: &actor.GuestError{Status: 5, Code: "gone", Message: "no such thing", Retryable: true, Detail: actor.Payload{Data: []byte("{}")}},
		},
		{
			name:   "failed, and says for how long",
			guest:  Guest{Imports: fail, More: put(string(delayFrame)), Turn: Code(I32Const(at), I32Const(int32(len(delayFrame))), Call(0), Drop, I32Const(1))},
			guestE: &actor.GuestError{Status: 14, Retryable: true, RetryAfter: 2500 * time.Millisecond},
		},
		{
			name:  "a malformed error frame is refused, and the turn goes on",
			guest: Guest{Imports: fail, More: put("nonsense"), Turn: Code(I32Const(at), I32Const(8), Call(0), I32Const(2), I32Add)}, // -2 + 2
		},
		{name: "another result", guest: Guest{Turn: I32Const(2)}, trap: actor.TrapProtocol, text: "returned 2"},
		{name: "unreachable", guest: Guest{Turn: Code(Unreachable)}, trap: actor.TrapUnreachable, text: "unreachable"},
		{name: "division by zero", guest: Guest{Turn: Code(I32Const(1), I32Const(0), I32DivU)}, trap: actor.TrapUnreachable, text: "divide by zero"},
		{name: "load out of bounds", guest: Guest{Turn: Code(I32Const(-4), Load8())}, trap: actor.TrapUnreachable, text: "out of bounds"},
		{name: "recursion without end", guest: Guest{Turn: Code(I32Const(0), I32Const(0), Call(2))}, trap: actor.TrapStack, text: "call stack exhausted"},
		{name: "loop without end", guest: Guest{Turn: Code(Forever(), done)}, is: actor.ErrDeadline},
		{
			// fib(90) by recursion like a tree: no loop anywhere.
			name: "recursion like a tree",
			guest: Guest{Turn: Code(I32Const(90), Call(3), Drop, done), More: func(b *Builder) {
				b.Func("", []byte{I32}, []byte{I32}, 0, Code(
					LocalGet(0), I32Const(2), I32LtU, If(Code(LocalGet(0), Return)...),
					LocalGet(0), I32Const(1), I32Sub, Call(3), LocalGet(0), I32Const(2), I32Sub, Call(3), I32Add)...)
			}},
			is: actor.ErrDeadline,
		},
		{name: "allocator without end", guest: Guest{Alloc: Code(Forever(), done)}, is: actor.ErrDeadline},
		{
			name:  "memory without end",
			guest: Guest{Turn: Code(Loop(Code(I32Const(16), MemoryGrow(), I32Const(-1), 0x47, 0x0d, 0)...), Unreachable)},
			trap:  actor.TrapMemory, text: "above its limit of 16777216",
		},
		{
			name:  "memory.grow beyond the limit answers -1 and the guest goes on",
			guest: Guest{Turn: Code(I32Const(60000), MemoryGrow(), I32Const(1), I32Add)},
		},
		{name: "alloc gives nothing", guest: Guest{Alloc: I32Const(0)}, trap: actor.TrapMemory, text: "has no 2048 bytes"},
		{name: "alloc gives what is not there", guest: Guest{Alloc: I32Const(-8)}, trap: actor.TrapProtocol, text: "beyond the end of memory"},
		{name: "alloc gives the last bytes and then some", guest: Guest{Alloc: I32Const(2<<16 - 8)}, trap: actor.TrapProtocol, text: "beyond the end of memory"},
		{name: "alloc is not aligned", guest: Guest{Alloc: I32Const(1025)}, trap: actor.TrapProtocol, text: "not aligned"},
		{name: "a large frame", frame: frame(strings.Repeat("x", 3<<20))},
		{name: "a frame beyond the memory", frame: frame(strings.Repeat("x", 17<<20)), trap: actor.TrapMemory, text: "does not fit"},
		{
			name: "reply", guest: Guest{Imports: []Import{Host("reply", "iiii", "i")}, More: put("text/plainhello"),
				Turn: Code(I32Const(at), I32Const(10), I32Const(at+10), I32Const(5), Call(0))},
			check: func(t *testing.T, c *fakeCalls) {
				t.Helper()
				if c.reply == nil || c.reply.ContentType != "text/plain" || string(c.reply.Data) != "hello" {
					t.Errorf("reply %+v", c.reply)
				}
			},
		},
		{
			name: "a content type that would break a header is refused",
			guest: Guest{Imports: []Import{Host("reply", "iiii", "i")}, More: put("a\r\nb"),
				Turn: Code(I32Const(at), I32Const(4), I32Const(at), I32Const(1), Call(0), I32Const(2), I32Add)},
		},
		{
			name: "a key outside memory traps", guest: Guest{Imports: []Import{Host("state_delete", "ii", "i")},
				Turn: Code(I32Const(-1), I32Const(1), Call(0))},
			trap: actor.TrapUnreachable, text: "state_delete was given 1 bytes at address 4294967295",
		},
		{
			name: "a length that would overflow traps", guest: Guest{Imports: []Import{Host("state_delete", "ii", "i")},
				Turn: Code(I32Const(8), I32Const(-1), Call(0))},
			trap: actor.TrapUnreachable, text: "outside the guest's memory",
		},
		{
			name: "a buffer outside memory traps even if nothing would be written", guest: Guest{Imports: []Import{Host("state_get", "iiii", "l")},
				Turn: Code(I32Const(0), I32Const(1), I32Const(0), I32Const(1<<30), Call(0), 0xa7)},
			trap: actor.TrapUnreachable, text: "state_get was given 1073741824 bytes",
		},
		{
			name: "an unknown format is invalid", guest: Guest{Imports: []Import{Host("state_set", "iiiii", "i")},
				Turn: Code(I32Const(at), I32Const(1), I32Const(at), I32Const(1), I32Const(257), Call(0), I32Const(2), I32Add)},
			check: func(t *testing.T, c *fakeCalls) {
				t.Helper()
				if len(c.state) != 0 {
					t.Errorf("state %v", c.state)
				}
			},
		},
		{
			name: "log", guest: Guest{Imports: []Import{Host("log", "iii", "i")}, More: put("caf\xc3\xa9\xff"),
				Turn: Code(I32Const(-4), I32Const(at), I32Const(6), Call(0))},
			check: func(t *testing.T, c *fakeCalls) {
				t.Helper()
				if len(c.logs) != 1 || c.logs[0] != (logLine{-4, "café\uFFFD"}) {
					t.Errorf("logs %q", c.logs)
				}
			},
		},
		{
			name: "logging too much", guest: Guest{Imports: []Import{Host("log", "iii", "i")},
				Turn: Code(I32Const(5000), LocalSet(2), Loop(Code(I32Const(0), I32Const(at), I32Const(1), Call(0), Drop,
					LocalGet(2), I32Const(1), I32Sub, LocalSet(2), LocalGet(2), 0x0d, 0)...), done)},
			check: func(t *testing.T, c *fakeCalls) {
				t.Helper()
				if n := len(c.logs); n != guest.MaxLines+1 || !strings.Contains(c.logs[n-1].text, "dropped") {
					t.Errorf("%d log lines", n)
				}
			},
		},
		{
			name: "a table does not grow without end", guest: Guest{More: func(b *Builder) { b.Table(1) },
				Turn: Code([]byte{0xd0, 0x70}, I32Const(100<<20), []byte{0xfc, 0x0f, 0}, I32Const(1), I32Add)},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			i := instantiate(t, e, tc.guest.Bytes())
			calls := newCalls()
			if tc.frame == nil {
				tc.frame = frame("{}")
			}
			limit := 10 * time.Minute
			if errors.Is(tc.is, actor.ErrDeadline) {
				limit = 50 * time.Millisecond
			}
			err := i.Run(enginetest.Deadline(t, limit), tc.frame, calls)
			var trap *actor.TrapError
			var guestErr *actor.GuestError
			switch {
			case tc.trap != "":
				if !errors.As(err, &trap) || trap.Kind != tc.trap {
					t.Fatalf("got %v (%T), want a trap of kind %s", err, err, tc.trap)
				}
			case tc.guestE != nil:
				if !errors.As(err, &guestErr) || fmt.Sprintf("%+v", *guestErr) != fmt.Sprintf("%+v", *tc.guestE) {
					t.Fatalf("got %#v, want %#v", err, tc.guestE)
				}
			case !errors.Is(err, tc.is):
				t.Fatalf("got %v, want %v", err, tc.is)
			}
			if err != nil && !strings.Contains(err.Error(), tc.text) {
				t.Errorf("the error is %q; it lacks %q", err, tc.text)
			}
			if tc.check != nil {
				tc.check(t, calls)
			}
			again := i.Run(context.Background(), frame("{}"), newCalls())
			if broken := err != nil && guestErr == nil; broken != (again != nil && !errors.As(again, &guestErr)) {
				t.Errorf("after %v the next turn gave %v", err, again)
			}
		})
	}
}

func TestRunCanceled(t *testing.T) {
	e := newEngine(t, Config{})
	i := instantiate(t, e, Guest{Imports: []Import{Host("log", "iii", "i")},
		Turn: Code(I32Const(0), I32Const(0), I32Const(1), Call(0), Drop, Forever(), I32Const(0))}.Bytes())
	ctx, cancel := context.WithCancel(context.Background())
	calls := &cancelingCalls{fakeCalls: newCalls(), cancel: cancel}
	if err := i.Run(ctx, frame(""), calls); !errors.Is(err, actor.ErrCanceled) {
		t.Fatalf("got %v", err)
	}
	if err := i.Run(ctx, frame(""), calls); err == nil {
		t.Fatal("a stopped instance ran again")
	}
}

// cancelingCalls cancels the turn as soon as the guest runs.
type cancelingCalls struct {
	*fakeCalls
	cancel context.CancelFunc
}

func (c *cancelingCalls) Log(int32, string) { c.cancel() }

// A turn that ends after its deadline has not ended in time, even if the guest
// knows nothing of it: wazero may have closed the instance.
func TestRunEndsTooLate(t *testing.T) {
	e := newEngine(t, Config{})
	i := instantiate(t, e, Guest{Imports: []Import{Host("log", "iii", "i")},
		Turn: Code(I32Const(0), I32Const(0), I32Const(1), Call(0))}.Bytes())
	ctx, cancel := context.WithCancel(context.Background())
	if err := i.Run(ctx, frame(""), &cancelingCalls{newCalls(), cancel}); !errors.Is(err, actor.ErrCanceled) {
		t.Fatalf("got %v", err)
	}
}

func TestHostPanic(t *testing.T) {
	e := newEngine(t, Config{})
	i := instantiate(t, e, Guest{Imports: []Import{Host("state_get", "iiii", "l")},
		Turn: Code(I32Const(0), I32Const(1), I32Const(0), I32Const(1), Call(0), 0xa7)}.Bytes())
	calls := newCalls()
	calls.panics = true
	err := i.Run(context.Background(), frame(""), calls)
	var trap *actor.TrapError
	if err == nil || errors.As(err, &trap) || strings.Contains(err.Error(), "broken") {
		t.Fatalf("got %v (%T), want an internal error with neutral text", err, err)
	}
}

func TestCallsOutsideTurns(t *testing.T) {
	e := newEngine(t, Config{})
	// Each call's answer must be -6, or _initialize traps.
	expect := func(call []byte, wide bool) []byte {
		compare := Code(I32Const(-6), 0x47)
		if wide {
			compare = Code(I64Const(-6), 0x52)
		}
		return Code(call, compare, If(Unreachable))
	}
	zero := func(n int) (out []byte) {
		for range n {
			out = append(out, I32Const(0)...)
		}
		return out
	}
	var g Guest
	for _, f := range hostFuncs() {
		imp := Import{Module: "greenroom", Name: f.name, Params: f.params, Results: f.results}
		index := uint32(len(g.Imports))
		g.Imports = append(g.Imports, imp)
		switch f.name {
		case abi.FuncNow:
			g.Init = append(g.Init, Code(Call(index), I64Const(abi.InitTimeUnixNano), 0x52, If(Unreachable))...)
		case abi.FuncRandom:
			g.Init = append(g.Init, Code(zero(2), Call(index), If(Unreachable))...)
		default:
			g.Init = append(g.Init, expect(Code(zero(len(f.params)), Call(index)), f.results[0] == i64)...)
		}
	}
	instantiate(t, e, g.Bytes())
}

// Turns of one instance never see what an earlier one left with the host.
func TestTurnsAreApart(t *testing.T) {
	e := newEngine(t, Config{})
	failFrame := abi.AppendError(nil, &abi.Error{Status: 5, Message: "once"})
	// Gives a reason the first time (byte 4096 is 0) and is done, fails without one
	// later.
	g := Guest{Imports: []Import{Host("fail", "ii", "i")}, More: func(b *Builder) { b.Data(2048, failFrame) },
		Turn: Code(I32Const(4096), Load8(), I32Eqz,
			If(Code(I32Const(4096), I32Const(1), Store(), I32Const(2048), I32Const(int32(len(failFrame))), Call(0), Drop, I32Const(0), Return)...),
			I32Const(1))}
	i := instantiate(t, e, g.Bytes())
	if err := i.Run(context.Background(), frame(""), newCalls()); err != nil {
		t.Fatal(err)
	}
	if err := i.Run(context.Background(), frame(""), newCalls()); err == nil || err.Error() != "the guest failed without saying why" {
		t.Errorf("got %v", err)
	}
}

func TestInstances(t *testing.T) {
	e := newEngine(t, Config{EngineConfig: compile.EngineConfig{MaxInstances: 3}})
	p := enginetest.Load(t, e, Guest{}.Bytes())
	total := int64(0)
	for range 3 {
		i, err := p.NewInstance(context.Background(), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if got := i.MemoryBytes(); got <= instanceBytes || got > instanceBytes+2*confine.PageSize {
			t.Errorf("memory %d", got)
		}
		total += i.MemoryBytes()
		defer i.Close(context.Background())
	}
	if s := e.Stats(); s.Instances != 3 || s.MemoryBytes != total || s.Programs != 1 {
		t.Errorf("stats %+v", s)
	}
	if _, err := p.NewInstance(context.Background(), 1<<20); !errors.Is(err, actor.ErrOverloaded) {
		t.Errorf("a fourth instance: %v", err)
	}
}

// unwatched is a context that notes that somebody wants to wait for its end.
type unwatched struct {
	context.Context
	watched bool
}

func (u *unwatched) Done() <-chan struct{} {
	u.watched = true
	return u.Context.Done()
}

// An instance that is made from an image watches over no context, which would cost a goroutine: where
// each turn traps, one is made for each.
func TestInstanceFromAnImageWatchesNoContext(t *testing.T) {
	e := newEngine(t, Config{})
	p := enginetest.Load(t, e, Guest{}.Bytes())
	for _, what := range []string{"the first", "from the image"} {
		ctx := &unwatched{Context: t.Context()}
		i, err := p.NewInstance(ctx, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		defer i.Close(context.Background())
		if fromImage := i.(*instance).image != nil; fromImage && what != "the first" && ctx.watched {
			t.Errorf("%s: the context is watched", what)
		} else if !fromImage {
			t.Errorf("%s: it was made without an image", what)
		}
	}
}

func TestInstanceNeedsMoreThanItsLimit(t *testing.T) {
	e := newEngine(t, Config{})
	_, err := enginetest.Load(t, e, Guest{Pages: 100}.Bytes()).NewInstance(context.Background(), 1<<20)
	var trap *actor.TrapError
	if !errors.As(err, &trap) || trap.Kind != actor.TrapMemory {
		t.Fatalf("got %v", err)
	}
	if s := e.Stats(); s.Instances != 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestStartFaults(t *testing.T) {
	trap := func(b *Builder) { b.Start(b.Func("", nil, nil, 0, Unreachable)) }
	loop := func(b *Builder) { b.Start(b.Func("", nil, nil, 0, Forever()...)) }
	data := func(b *Builder) { b.Data(1<<20, []byte("beyond")) }
	for _, tc := range []struct {
		name  string
		guest Guest
		is    error
		text  string
	}{
		{"start function traps", Guest{More: trap}, nil, "unreachable"},
		{"start function loops", Guest{More: loop}, actor.ErrDeadline, ""},
		{"_initialize traps", Guest{Init: Code(Unreachable)}, nil, "unreachable"},
		{"_initialize loops", Guest{Init: Forever()}, actor.ErrDeadline, ""},
		{"data outside memory", Guest{More: data}, nil, "data"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			limit := 10 * time.Minute
			if tc.is != nil {
				limit = 50 * time.Millisecond
			}
			e := newEngine(t, Config{EngineConfig: compile.EngineConfig{InitTimeout: limit}})
			_, err := enginetest.Load(t, e, tc.guest.Bytes()).NewInstance(context.Background(), 1<<20)
			var trap *actor.TrapError
			if tc.is != nil && !errors.Is(err, tc.is) || tc.is == nil && !errors.As(err, &trap) || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("got %v", err)
			}
			if s := e.Stats(); s.Instances != 0 || s.MemoryBytes != 0 {
				t.Errorf("something is left: %+v", s)
			}
		})
	}
}

// Close waits for turns, and when its time is up stops those that run.
func TestCloseEngine(t *testing.T) {
	e, err := New(context.Background(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	e.closeGrace = time.Hour // a busy machine may be slow to let the guest find out
	wasm := Guest{Imports: []Import{Host("log", "iii", "i")},
		Turn: Code(I32Const(0), I32Const(0), I32Const(1), Call(0), Drop, Forever(), I32Const(0))}.Bytes()
	p := enginetest.Load(t, e, wasm)
	i, err := p.NewInstance(context.Background(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	other, err := p.NewInstance(context.Background(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	running := make(chan struct{})
	ended := make(chan error)
	go func() {
		var once sync.Once
		calls := &cancelingCalls{newCalls(), func() { once.Do(func() { close(running) }) }}
		ended <- i.Run(context.Background(), frame(""), calls)
	}()
	<-running
	hurry, stop := context.WithCancel(context.Background())
	closed := make(chan error)
	go func() { closed <- e.Close(hurry) }()
	for e.gate.Enter() { // until the close has begun
		e.gate.Leave()
	}
	select {
	case err := <-ended:
		t.Errorf("a turn was stopped before its time: %v", err)
	default:
	}
	stop()
	if err := <-ended; !errors.Is(err, actor.ErrStopping) {
		t.Errorf("the turn: %v", err)
	}
	if err := <-closed; err != nil {
		t.Errorf("close under a running turn: %v", err)
	}
	if err := other.Run(context.Background(), frame(""), newCalls()); !errors.Is(err, actor.ErrStopping) {
		t.Errorf("a turn after close: %v", err)
	}
	if err := e.Close(context.Background()); err != nil {
		t.Errorf("close again: %v", err)
	}
	if err := i.Close(context.Background()); err != nil {
		t.Errorf("close an instance after its engine: %v", err)
	}
	if _, err := e.Load(context.Background(), actor.DigestOf(wasm), nil); !errors.Is(err, actor.ErrStopping) {
		t.Errorf("load after close: %v", err)
	}
}
