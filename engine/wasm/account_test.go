package wasm

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/engine/confine"
	"github.com/greenroom-run/greenroom/engine/enginetest"
	. "github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
)

// purse is the memory that an app has left.
type purse struct{ left atomic.Int64 }

func newPurse(bytes int64) *purse {
	p := &purse{}
	p.left.Store(bytes)
	return p
}

func (p *purse) Take(bytes int64) bool {
	if p.left.Add(-bytes) >= 0 {
		return true
	}
	p.left.Add(bytes)
	return false
}

func (p *purse) Give(bytes int64) { p.left.Add(bytes) }

// fill is code that writes to so many bytes from the second page on.
func fill(bytes int32) []byte {
	return Code(I32Const(confine.PageSize), I32Const(1), I32Const(bytes), []byte{0xfc, 11, 0})
}

func accounted(t *testing.T, e *Engine, p *purse, g Guest, limit int64) *instance {
	t.Helper()
	i, err := enginetest.Load(t, e, g.Bytes()).NewInstance(engine.WithMemory(context.Background(), p), limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = i.Close(context.Background()) // memory alone
		if left := p.left.Load(); left < 0 {
			t.Errorf("%d bytes more were taken than there are", -left)
		}
	})
	return i.(*instance)
}

// What a guest touches is counted before it can touch it, also of memory that it had
// from the start, in any of its turns. What it has not touched is given back once the
// turn is over, and costs others nothing.
func TestMemoryIsCountedBeforeItIsTouched(t *testing.T) {
	const pages, touched = 1000, 60 << 20
	e, all := guestEngine(t), newPurse(100<<20)
	i := accounted(t, e, all, Guest{Pages: pages, Turn: Code(
		I32Const(16), I32Const(16), []byte{0x28, 2, 0}, I32Const(1), I32Add, Store(), // the second turn fills
		I32Const(16), []byte{0x28, 2, 0}, I32Const(2), []byte{0x46}, If(fill(touched)...), I32Const(0))}, 64<<20)
	untouched := func() bool { return e.pool.pages.open() >= 0 && i.MemoryBytes() < 1<<20 && all.left.Load() > 99<<20 }
	if !untouched() {
		t.Errorf("%d bytes are counted for an instance that touched nothing", i.MemoryBytes())
	}
	for turn := 1; turn <= 15; turn++ {
		if err := i.Run(context.Background(), frame("{}"), newCalls()); err != nil {
			t.Fatal(err)
		}
		if got := i.MemoryBytes(); got < pages*confine.PageSize {
			t.Errorf("after turn %d, %d bytes are counted", turn, got)
		}
		i.Trim()
		if got := i.MemoryBytes(); turn == 1 && !untouched() || turn > 1 && (got < touched || got > touched+2<<20) {
			t.Errorf("trimmed after turn %d, %d bytes are counted", turn, got)
		}
		if left := all.left.Load(); left != 100<<20-i.MemoryBytes() {
			t.Errorf("after turn %d, %d bytes are left beside %d", turn, left, i.MemoryBytes())
		}
	}
	i.Close(context.Background())
	if all.left.Load() != 100<<20 || e.Stats().MemoryBytes != 0 {
		t.Error("something is left of a closed instance")
	}
}

// Beyond what the app has, memory.grow is -1, and a guest that traps then is no bug of
// its own: the call may come again.
func TestGrowthEndsWithTheAppsMemory(t *testing.T) {
	e := newEngine(t, Config{})
	grow := func(then ...any) Guest {
		return Guest{Turn: Code(I32Const(16), MemoryGrow(), I32Const(-1), []byte{0x46}, If(Code(then...)...), I32Const(0))}
	}
	replies := grow(I32Const(1), Return)
	app := newPurse(3 << 20)
	i := accounted(t, e, app, replies, 64<<20)
	grown := 0
	err := error(nil)
	for ; err == nil; grown++ {
		err = i.Run(context.Background(), frame("{}"), newCalls())
	}
	if onPurpose := (*actor.GuestError)(nil); grown != 3 || !errors.As(err, &onPurpose) {
		t.Errorf("in turn %d, of a guest that grows by 1 MiB within 3 MiB and answers an error of its own: %v", grown, err)
	}
	i.Close(context.Background())
	traps := accounted(t, e, app, grow(Unreachable), 64<<20)
	for err = nil; err == nil; {
		err = traps.Run(context.Background(), frame("{}"), newCalls())
	}
	if !errors.Is(err, actor.ErrOverloaded) {
		t.Errorf("a guest that traps: %v", err)
	}
}

// An instance or a turn for which there is no memory is refused, and what an image
// brings back counts like what the guest does.
func TestTurnsEndWithTheAppsMemory(t *testing.T) {
	e := newEngine(t, Config{})
	g := Guest{Pages: 20, Init: fill(512 << 10)}
	app := newPurse(2 << 20)
	i := accounted(t, e, app, g, 64<<20)
	i.Trim()
	app.left.Add(-3 << 18) // others have it
	err := i.Run(context.Background(), frame("{}"), newCalls())
	if !errors.Is(err, actor.ErrOverloaded) || app.left.Load() < 0 {
		t.Errorf("a turn without memory: %v, %d bytes left", err, app.left.Load())
	}
	if _, err := enginetest.Load(t, e, g.Bytes()).NewInstance(engine.WithMemory(context.Background(), app), 64<<20); !errors.Is(err, actor.ErrOverloaded) {
		t.Errorf("an instance without memory: %v", err)
	}
	i.Close(context.Background())
	app.left.Add(3 << 18)
	if app.left.Load() != 2<<20 {
		t.Errorf("%d bytes are left", app.left.Load())
	}
	again := accounted(t, e, app, g, 64<<20) // from the image
	for _, id := range []string{"a", "b", "a"} {
		f := frame("{}")
		f.ID = id
		if err := again.Run(context.Background(), f, newCalls()); err != nil {
			t.Error(err)
		}
		if got := again.MemoryBytes(); got < 20*confine.PageSize {
			t.Errorf("%d bytes are counted", got)
		}
	}
}

// trimmingCalls trim the instance, as others may while the host waits for an answer.
type trimmingCalls struct {
	*fakeCalls
	instance *instance
	app      *purse
	others   int64 // bytes that others take meanwhile
	trimmed  bool
}

func (c *trimmingCalls) HTTP(*abi.HTTPRequest) (abi.HTTPResponse, error) {
	c.trimmed = c.instance.Trim()
	c.app.left.Add(-c.others)
	return abi.HTTPResponse{Status: 200}, nil
}

// While a turn waits for an answer from outside, others may have what it has not
// touched; if they keep it, the turn ends.
func TestTurnsThatWaitLeaveMemory(t *testing.T) {
	e := newEngine(t, Config{})
	request := abi.AppendHTTPRequest(nil, &abi.HTTPRequest{Method: "GET", URL: "https://example.com"})
	g := Guest{
		Pages:   30,
		Imports: []Import{Host(abi.FuncHTTPRequest, "ii", "l")},
		More:    func(b *Builder) { b.Data(2048, request) },
		Turn:    Code(I32Const(2048), I32Const(int32(len(request))), Call(0), Drop, I32Const(0)),
	}
	app := newPurse(2 << 20)
	i := accounted(t, e, app, g, 64<<20)
	calls := &trimmingCalls{fakeCalls: newCalls(), instance: i, app: app}
	if err := i.Run(context.Background(), frame("{}"), calls); err != nil || !calls.trimmed {
		t.Fatalf("%v, trimmed: %t", err, calls.trimmed)
	}
	if i.Trim(); i.MemoryBytes() > 1<<20 {
		t.Errorf("%d bytes are counted after the turn", i.MemoryBytes())
	}
	calls.others = 1 << 20
	if err := i.Run(context.Background(), frame("{}"), calls); !errors.Is(err, actor.ErrOverloaded) {
		t.Errorf("got %v", err)
	}
	app.left.Add(1 << 20)
}
