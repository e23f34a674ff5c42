package extism

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/abi/manifest"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine/compile"
	"github.com/greenroom-run/greenroom/engine/confine"
	"github.com/greenroom-run/greenroom/engine/enginetest"
	. "github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
)

// The functions that the plug-ins of these tests import, in this order.
const (
	fnAlloc uint32 = iota
	fnStoreU8
	fnStoreU64
	fnLoadU64
	fnOutputSet
	fnErrorSet
	fnVarSet
	fnHTTPRequest
	fnFree
	fnLength
	fnStateSet
	fnStateGet
	fnProcExit
	fnLogInfo
	fnRandom
	fnInputLoad
	fnReset
	imported
)

// plug writes a plug-in by hand: with the method Do, one page of memory, and the
// imports above. More functions begin at the index imported+1.
func plug(do []byte, more ...func(*Builder)) []byte {
	b := &Builder{}
	env := func(name string, params, results []byte) { b.ImportFunc(envModule, name, params, results) }
	one, two := []byte{I64}, []byte{I64, I64}
	env("alloc", one, one)
	env("store_u8", []byte{I64, I32}, nil)
	env("store_u64", two, nil)
	env("load_u64", one, one)
	env("output_set", two, nil)
	env("error_set", one, nil)
	env("var_set", two, nil)
	env("http_request", two, one)
	env("free", one, nil)
	env("length", one, one)
	b.ImportFunc(userModule, "greenroom_state_set", two, nil)
	b.ImportFunc(userModule, "greenroom_state_get", one, one)
	b.ImportFunc("wasi_snapshot_preview1", "proc_exit", []byte{I32}, nil)
	env("log_info", one, nil)
	b.ImportFunc(userModule, "greenroom_random", one, one)
	env("input_load_u64", one, one)
	env("reset", nil, nil)
	b.Memory(1, 0)
	b.Func("Do", nil, []byte{I32}, 1, do...)
	for _, f := range more {
		f(b)
	}
	wasm, err := manifest.Embed(b.Bytes(), []byte(`{"abi":1,"types":[{"name":"T","methods":[{"name":"Do"}]}]}`))
	if err != nil {
		panic(err)
	}
	return wasm
}

func i64Const(v uint64) []byte { return I64Const(int64(v)) }

// block allocates n bytes and leaves the offset on the stack.
func block(n uint64) []byte { return Code(i64Const(n), Call(fnAlloc)) }

func TestHostilePlugins(t *testing.T) {
	e := newEngine(t, Config{})
	done := I32Const(0)
	const far = 1 << 40
	for _, tt := range []struct {
		name   string
		do     []byte
		more   func(*Builder)
		trap   actor.TrapKind
		is     error
		status actor.Status
		text   string
	}{
		{name: "does nothing", do: done},
		{name: "returns a number", do: I32Const(-3), status: statusUnknown, text: "returned -3"},
		{name: "traps", do: Code(Unreachable), trap: actor.TrapUnreachable, text: "unreachable"},
		{name: "exits with 0", do: Code(I32Const(0), Call(fnProcExit), done), trap: actor.TrapUnreachable, text: "exited with code 0"},
		{name: "exits with 3", do: Code(I32Const(3), Call(fnProcExit), done), trap: actor.TrapUnreachable, text: "exited with code 3"},
		{name: "loops", do: Code(Forever(), done), is: actor.ErrDeadline},
		{name: "loops in host calls", do: Code(Loop(Code(block(8), Call(fnFree), Again())...), done), is: actor.ErrDeadline},
		{name: "loops in state", do: Code(Loop(Code(block(1), Call(fnStateGet), Drop, Again())...), done), is: actor.ErrDeadline},
		{name: "recurses", do: Code(Call(imported)), trap: actor.TrapStack, text: "10000 deep"},
		{
			name: "recurses like a tree", do: Code(I32Const(90), Call(imported+1)), is: actor.ErrDeadline,
			more: func(b *Builder) {
				b.Func("", []byte{I32}, []byte{I32}, 0, Code(
					LocalGet(0), I32Const(2), I32LtU, If(Code(LocalGet(0), Return)...),
					LocalGet(0), I32Const(1), I32Sub, Call(imported+1), LocalGet(0), I32Const(2), I32Sub, Call(imported+1), I32Add)...)
			},
		},
		{
			name: "grows until it fails", trap: actor.TrapMemory, text: "above its limit of 8388608",
			do: Code(Loop(Code(I32Const(16), MemoryGrow(), I32Const(-1), 0x46, If(Unreachable), Again())...), done),
		},
		{
			name: "allocates until it fails", trap: actor.TrapMemory, text: "above its limit",
			do: Code(Loop(Code(block(1<<20), 0x50, If(Unreachable), Again())...), done),
		},
		{name: "outputs what is not there", do: Code(i64Const(far), i64Const(8), Call(fnOutputSet), done), trap: actor.TrapProtocol, text: "output_set was given 8 bytes"},
		{name: "outputs too much", do: Code(i64Const(0), i64Const(far), Call(fnOutputSet), done), trap: actor.TrapProtocol},
		{name: "outputs nearly everything", do: Code(i64Const(math.MaxUint32), i64Const(math.MaxUint32), Call(fnOutputSet), done), trap: actor.TrapProtocol},
		{name: "replies more than it may", do: Code(i64Const(64), i64Const(200_000), Call(fnOutputSet), done), status: statusResourceExhausted, text: "the reply"},
		{name: "reads outside", do: Code(i64Const(math.MaxUint32), Call(fnLoadU64), Drop, done), trap: actor.TrapProtocol, text: "outside of Extism's memory"},
		{name: "writes outside", do: Code(i64Const(math.MaxUint32), i64Const(0), Call(fnStoreU64), done), trap: actor.TrapProtocol},
		{name: "reads input outside", do: Code(i64Const(1<<31), Call(fnInputLoad), Drop, done), trap: actor.TrapProtocol},
		{name: "frees what is none", do: Code(i64Const(far), Call(fnFree), done)},
		{name: "asks for the length of nothing", do: Code(i64Const(far+3), Call(fnLength), Drop, done)},
		{name: "makes an HTTP request", do: Code(i64Const(0), i64Const(0), Call(fnHTTPRequest), Drop, done), status: statusInvalidArgument, text: "not Extism's JSON"},
		{name: "names no key", do: Code(i64Const(0), Call(fnStateGet), Drop, done), status: statusInvalidArgument, text: "a state key must have"},
		{name: "sets what is not JSON", do: Code(block(1), block(3), Call(fnStateSet), done), status: statusInvalidArgument, text: "is not JSON"},
		{name: "wants much randomness", do: Code(i64Const(1<<33), Call(fnRandom), Drop, done), status: statusInvalidArgument, text: "at most 65536"},
		{name: "sets an error and succeeds", do: Code(block(4), Call(fnErrorSet), done), status: statusUnknown},
		{name: "logs without end", do: Code(Loop(Code(block(4000), Call(fnLogInfo), Call(fnReset), Again())...), done), is: actor.ErrDeadline},
		{
			// Every byte of the kernel's data, and then whatever walks its lists.
			name: "damages the kernel", is: actor.ErrDeadline,
			do: Code(
				Loop(Code(
					LocalGet(0), 0xad, i64Const(0xffffffe4ffffffe4), Call(fnStoreU64), // i64.extend_i32_u
					LocalGet(0), I32Const(4), I32Add, LocalSet(0),
					LocalGet(0), I32Const(1<<18), I32LtU, []byte{0x0d, 0},
				)...),
				Loop(Code(block(8), Drop, i64Const(64), Call(fnLength), Drop, i64Const(64), Call(fnFree), Again())...),
				done),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			more := []func(*Builder){}
			if tt.more != nil {
				more = append(more, tt.more)
			}
			p := enginetest.Load(t, e, plug(tt.do, more...))
			i := instantiate(t, p)
			limit := 10 * time.Minute
			if tt.is != nil {
				limit = 100 * time.Millisecond
			}
			err := i.Run(enginetest.Deadline(t, limit), frame("x", "Do", "{}"), newCalls())
			var trap *actor.TrapError
			var ge *actor.GuestError
			switch {
			case tt.name == "damages the kernel": // how it ends is the kernel's to say; that it ends is ours
				if err == nil {
					t.Error("no error")
				}
			case tt.is != nil:
				if !errors.Is(err, tt.is) {
					t.Fatalf("got %T: %v, want %v", err, err, tt.is)
				}
			case tt.trap != "":
				if !errors.As(err, &trap) || trap.Kind != tt.trap {
					t.Fatalf("got %T: %v, want a trap %s", err, err, tt.trap)
				}
			case tt.status != 0:
				if !errors.As(err, &ge) || ge.Status != tt.status {
					t.Fatalf("got %T: %v, want the status %d", err, err, tt.status)
				}
			case err != nil:
				t.Fatalf("got %T: %v", err, err)
			}
			if err != nil && !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%q does not say %q", err, tt.text)
			}
			again := i.Run(enginetest.Deadline(t, limit), frame("x", "Do", "{}"), newCalls())
			if broken := strings.Contains(errText(again), "broken"); broken != (err != nil && !errors.As(err, &ge)) {
				t.Errorf("after %v: %v", err, again)
			}
		})
	}
}

// lateContext has passed its deadline, and nobody has noticed yet: its timer waits
// for a processor.
type lateContext struct{ context.Context }

func (lateContext) Deadline() (time.Time, bool) { return time.Unix(1, 0), true }

func TestDeadlineBeforeItsTimer(t *testing.T) {
	e := newEngine(t, Config{})
	late := lateContext{context.Background()}
	for name, more := range map[string]func(*Builder){
		"start function": func(b *Builder) { b.Start(b.Func("", nil, nil, 0, Forever()...)) },
		"initialize":     func(b *Builder) { b.Func("_initialize", nil, nil, 0, Forever()...) },
	} {
		p := enginetest.Load(t, e, plug(I32Const(0), more))
		i, err := p.NewInstance(late, testMemory)
		if err == nil {
			err = i.Run(late, frame("x", "Do", "{}"), newCalls())
		}
		if !errors.Is(err, actor.ErrDeadline) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := instantiate(t, enginetest.Load(t, e, plug(Code(Forever(), I32Const(0))))).Run(late, frame("x", "Do", "{}"), newCalls()); !errors.Is(err, actor.ErrDeadline) {
		t.Errorf("turn: %v", err)
	}
}

// What a plug-in has the host do is in its fuel: each call, and the bytes.
func TestHostCallsAreCharged(t *testing.T) {
	const size = 40_000
	e := newEngine(t, Config{})
	used := func(times int, limit uint64) (uint64, error) {
		do := Code(bytes.Repeat(Code(block(size), Call(fnLogInfo)), times), I32Const(0))
		calls := newCalls()
		calls.fuel.Limit = limit
		err := instantiate(t, enginetest.Load(t, e, plug(do))).Run(context.Background(), frame("x", "Do", "{}"), calls)
		return calls.fuel.Used, err
	}
	once, err := used(1, 0)
	if err != nil {
		t.Fatal(err)
	}
	thrice, err := used(3, 0)
	if want := once + 2*(size/byteUnits+2*importCost); err != nil || thrice < want || thrice > want+100 {
		t.Errorf("used %d and %d, want about %d: %v", once, thrice, want, err)
	}
	var fuel *actor.FuelError
	if _, err := used(3, thrice-1); !errors.As(err, &fuel) {
		t.Errorf("with too little: %v", err)
	}
	if _, err := used(3, thrice); err != nil {
		t.Errorf("with just enough: %v", err)
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// What one actor leaves in the memories of plug-in and kernel, another does not
// find.
func TestNoByteReachesAnotherActor(t *testing.T) {
	e := newEngine(t, Config{})
	// Do replies what is at 4096 of its own memory, then writes there; and it
	// leaves 8 bytes in the kernel's memory that it does not free.
	wrap, offset := []byte{0xa7}, Code(LocalGet(0), 0xad) // i32.wrap_i64, i64.extend_i32_u
	do := Code(
		block(4096), wrap, LocalSet(0),
		offset, I32Const(4096), []byte{0x29, 3, 0}, Call(fnStoreU64), // i64.load
		offset, i64Const(4096), Call(fnOutputSet),
		offset, i64Const(8), []byte{0x7c}, i64Const(0x4242424242424242), Call(fnStoreU64), // i64.add
		I32Const(4096), i64Const(0x4141414141414141), []byte{0x37, 3, 0}, // i64.store
		I32Const(0))
	b := &Builder{}
	for _, f := range []struct {
		name            string
		params, results []byte
	}{{"alloc", []byte{I64}, []byte{I64}}, {"store_u8", []byte{I64, I32}, nil}, {"store_u64", []byte{I64, I64}, nil}, {"load_u64", []byte{I64}, []byte{I64}}, {"output_set", []byte{I64, I64}, nil}} {
		b.ImportFunc(envModule, f.name, f.params, f.results)
	}
	b.Memory(1, 0)
	b.Func("Do", nil, []byte{I32}, 1, do...)
	i := instantiate(t, enginetest.Load(t, e, b.Bytes()))
	run := func(id string) string {
		c := newCalls()
		if err := i.Run(context.Background(), frame(id, "Do", ""), c); err != nil {
			t.Fatal(err)
		}
		return string(c.reply.Data)
	}
	run("a")
	if got := run("a"); !strings.HasPrefix(got, "AAAAAAAA") {
		t.Fatalf("the test does not work: the same actor sees %q", got[:16])
	}
	for _, id := range []string{"b", "c", "a"} {
		got := run(id)
		if strings.ContainsAny(got[:8], "A") {
			t.Errorf("%s sees the plug-in's memory of another actor", id)
		}
		if strings.Trim(got[16:], "\x00") != "" {
			t.Errorf("%s sees the kernel's memory of another actor", id)
		}
	}
}

func TestMemoryLimit(t *testing.T) {
	e := newEngine(t, Config{})
	p := enginetest.Load(t, e, plug(I32Const(0)))
	var trap *actor.TrapError
	for _, limit := range []int64{0, 1, 1 << 20} { // the kernel alone needs 1 MiB
		if _, err := p.NewInstance(context.Background(), limit); !errors.As(err, &trap) || trap.Kind != actor.TrapMemory {
			t.Errorf("with %d bytes: %v", limit, err)
		}
	}
	i := instantiate(t, p)
	if got := i.MemoryBytes(); got != 17*confine.PageSize {
		t.Errorf("it holds %d bytes", got)
	}
	err := i.Run(context.Background(), frame("x", "Do", strings.Repeat("x", testMemory)), newCalls())
	if !errors.As(err, &trap) || trap.Kind != actor.TrapMemory || !strings.Contains(err.Error(), "payload") {
		t.Errorf("a payload as large as the memory: %v", err)
	}
	small := newEngine(t, Config{EngineConfig: compile.EngineConfig{MaxInstances: 1}})
	q := enginetest.Load(t, small, plug(I32Const(0)))
	instantiate(t, q)
	if _, err := q.NewInstance(context.Background(), testMemory); !errors.Is(err, actor.ErrOverloaded) {
		t.Errorf("one more than allowed: %v", err)
	}
}

func TestHostBugIsNoTrap(t *testing.T) {
	e := newEngine(t, Config{})
	i := instantiate(t, enginetest.Load(t, e, plug(Code(block(1), Call(fnStateGet), Drop, I32Const(0)))))
	c := newCalls()
	c.panics = true
	err := i.Run(context.Background(), frame("x", "Do", ""), c)
	var trap *actor.TrapError
	if err == nil || errors.As(err, &trap) || actor.AsCondition(err) != nil || strings.Contains(err.Error(), "the host is broken") {
		t.Errorf("got %v", err)
	}
}

func TestCanceledAndClosed(t *testing.T) {
	e := newEngine(t, Config{})
	p := enginetest.Load(t, e, plug(Code(Forever(), I32Const(0))))
	i := instantiate(t, p)
	ctx, cancel := context.WithCancel(context.Background())
	finished := make(chan error)
	go func() { finished <- i.Run(ctx, frame("x", "Do", ""), newCalls()) }()
	cancel()
	if err := <-finished; !errors.Is(err, actor.ErrCanceled) {
		t.Errorf("canceled: %v", err)
	}
	if err := i.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if err := i.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if err := e.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.NewInstance(context.Background(), testMemory); !errors.Is(err, actor.ErrStopping) {
		t.Errorf("after close: %v", err)
	}
}

// Plug-ins that loop yield their processor, in turns and while they start.
func TestPluginsYield(t *testing.T) {
	e := newEngine(t, Config{})
	loops := instantiate(t, enginetest.Load(t, e, plug(Code(Forever(), I32Const(0)))))
	enginetest.CheckYields(t, func(ctx context.Context) error { return loops.Run(ctx, frame("x", "Do", "{}"), newCalls()) })
	for name, more := range map[string]func(*Builder){
		"start function": func(b *Builder) { b.Start(b.Func("", nil, nil, 0, Forever()...)) },
		"initialize":     func(b *Builder) { b.Func("_initialize", nil, nil, 0, Forever()...) },
	} {
		p := enginetest.Load(t, e, plug(I32Const(0), more))
		t.Run(name, func(t *testing.T) {
			enginetest.CheckYields(t, func(ctx context.Context) error {
				_, err := p.NewInstance(ctx, testMemory)
				return err
			})
		})
	}
}
