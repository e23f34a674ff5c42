package confine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/engine/meter"
)

func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		if !g.Enter() {
			t.Fatal("a new gate is closed")
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := g.Close(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("closed with a call inside: %v", err)
		}
		if g.Enter() {
			t.Error("a closed gate let somebody in")
		}
		var closed atomic.Bool
		go func() {
			if err := g.Close(t.Context()); err != nil {
				t.Error(err)
			}
			closed.Store(true)
		}()
		synctest.Wait()
		if closed.Load() {
			t.Error("Close did not wait")
		}
		g.Leave()
		synctest.Wait()
		if !closed.Load() {
			t.Error("Close still waits")
		}
		if err := g.Close(ended); err != nil {
			t.Errorf("an empty gate, closed again: %v", err)
		}
	})
}

func TestAccount(t *testing.T) {
	a := Account{Max: 2}
	for range 2 {
		if err := a.Open(); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Open(); !errors.Is(err, actor.ErrOverloaded) || !strings.Contains(err.Error(), "2 instances") {
		t.Errorf("one too many: %v", err)
	}
	a.Resize(0, 100)
	a.Resize(100, 30)
	if a.Instances() != 2 || a.Bytes() != 30 {
		t.Errorf("%d instances hold %d bytes, want 2 and 30", a.Instances(), a.Bytes())
	}
	a.Close(30)
	if err := a.Open(); err != nil || a.Bytes() != 0 {
		t.Errorf("after one was closed: %v, %d bytes", err, a.Bytes())
	}
}

func TestMap(t *testing.T) {
	for _, size := range []uint64{0, 1 << 16} {
		m, err := Map(size)
		if err != nil || uint64(len(m)) != size {
			t.Fatalf("%d bytes of %d: %v", len(m), size, err)
		}
		for i := range m {
			if m[i] != 0 {
				t.Fatal("it is not zero")
			}
			m[i] = 1
		}
		if err := Unmap(m); err != nil {
			t.Error(err)
		}
	}
}

// burn plays a guest that uses so much fuel in steps of 300,000.
func burn(k *Tank, left int64, amount uint64) (spent uint64, err error) {
	defer func() {
		if s, ok := recover().(*Stop); ok {
			spent, err = k.Spent(left), s
		}
	}()
	const step = 300_000
	for ; amount > 0; amount -= min(amount, step) {
		if left -= int64(min(amount, step)); left < 0 {
			left = k.Refill(left)
		}
	}
	return k.Spent(left), nil
}

func TestTank(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var halted atomic.Bool
		tests := []struct {
			name          string
			limit, amount uint64
			ctx           func() context.Context
			is            error
			spent         uint64
		}{
			{name: "without a limit", amount: 10_000_000, spent: 10_000_000},
			{name: "all of the limit", limit: 2_000_000, amount: 2_000_000, spent: 2_000_000},
			{name: "less than the first grant", limit: chunk / 2, amount: chunk / 2, spent: chunk / 2},
			{name: "beyond the limit", limit: 2_000_000, amount: 2_000_001, is: &actor.FuelError{}, spent: 2_000_001},
			{name: "its caller has gone", amount: 10_000_000, is: actor.ErrCanceled, spent: 300_000, ctx: func() context.Context {
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				return ctx
			}},
			{name: "past its deadline", amount: 10_000_000, is: actor.ErrDeadline, spent: 300_000, ctx: func() context.Context {
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				t.Cleanup(cancel)
				<-time.After(time.Second)
				return ctx
			}},
			{name: "the engine stops", amount: 10_000_000, is: actor.ErrStopping, spent: 300_000, ctx: func() context.Context {
				halted.Store(true)
				return t.Context()
			}},
		}
		for _, test := range tests {
			var k Tank
			ctx := t.Context()
			if test.ctx != nil {
				ctx = test.ctx()
			}
			spent, err := burn(&k, int64(k.Fill(ctx, test.limit, &halted)), test.amount)
			var fuel *actor.FuelError
			switch {
			case errors.As(test.is, new(*actor.FuelError)):
				if !errors.As(err, &fuel) || fuel.Used != test.spent || fuel.Limit != test.limit {
					t.Errorf("%s: %v", test.name, err)
				}
			case !errors.Is(err, test.is):
				t.Errorf("%s: %v, want %v", test.name, err, test.is)
			}
			if spent != test.spent {
				t.Errorf("%s: %d spent, want %d", test.name, spent, test.spent)
			}
			halted.Store(false)
		}
	})
}

// TestTankThatIsLowered: a bound that comes while the guest runs counts from the begin of its run, and
// never gives it more.
func TestTankThatIsLowered(t *testing.T) {
	for _, test := range []struct{ limit, lower, amount, spent, most uint64 }{
		{limit: 0, lower: 1_000_000, amount: 3_000_000, spent: 1_000_000 + 100_000, most: 1_000_000},
		{limit: 2_000_000, lower: 1_000_000, amount: 3_000_000, spent: 1_100_000, most: 1_000_000},
		{limit: 2_000_000, lower: 1, amount: 3_000_000, spent: 800_000, most: 1}, // below what it has used
		{limit: 1_500_000, lower: 2_000_000, amount: 3_000_000, spent: 1_700_000, most: 1_500_000},
		{limit: 2_000_000, lower: 0, amount: 1_500_000, spent: 2_000_000},
	} {
		var k Tank
		left := int64(k.Fill(t.Context(), test.limit, nil))
		spent, err := burn(&k, left, 500_000)
		if err != nil || spent != 500_000 {
			t.Fatal(spent, err)
		}
		k.Lower(test.lower)
		left = int64(k.granted) - int64(spent)
		spent, err = burn(&k, left, test.amount)
		var fuel *actor.FuelError
		if over := errors.As(err, &fuel); over != (test.most > 0) || over && fuel.Limit != test.most || spent != test.spent {
			t.Errorf("%+v: spent %d, %v", test, spent, err)
		}
	}
}

func TestTankOfAGuestThatAsks(t *testing.T) {
	var k Tank
	k.Fill(t.Context(), 700_000, nil)
	for range 2 { // what is left over of one run is not of the next
		left := k.Begin()
		if left != chunk {
			t.Fatalf("%d at the beginning", left)
		}
		k.End(left - 1234)
		if k.Used() != 1234 {
			t.Errorf("%d used", k.Used())
		}
	}
}

func TestTankOfTooManyCalls(t *testing.T) {
	defer func() {
		s, _ := recover().(*Stop)
		var trap *actor.TrapError
		if !errors.As(s, &trap) || trap.Kind != actor.TrapStack {
			t.Errorf("ended by %v", s)
		}
	}()
	var k Tank
	k.Fill(t.Context(), 0, nil)
	k.Refill(meter.DepthExceeded)
}

// What the host did is paid for at the next refill or the end, and ends the guest
// at once if it is too much.
func TestTankOwes(t *testing.T) {
	var k Tank
	k.Fill(t.Context(), 2_000_000, nil)
	left := k.Begin()
	const work = 600_000
	k.Charge(work)
	if left = k.Refill(left - chunk - 1); left <= 0 || k.Used() != chunk+1+work {
		t.Errorf("%d left, %d used", left, k.Used())
	}
	k.Charge(100)
	k.End(left - 10)
	if want := uint64(chunk + 1 + work + 110); k.Used() != want {
		t.Errorf("%d used, want %d", k.Used(), want)
	}
	defer func() {
		s, _ := recover().(*Stop)
		var fuel *actor.FuelError
		if !errors.As(s, &fuel) || fuel.Limit != 2_000_000 || fuel.Used <= fuel.Limit || k.Used() != fuel.Used {
			t.Errorf("ended by %v", s)
		}
	}()
	k.Charge(2_000_000 - work - chunk)
}

// A guest whose time is over is ended while it owes, and not only when it comes for
// fuel itself.
func TestTankOwesAfterItsTime(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var k Tank
	k.Fill(ctx, 0, nil)
	k.Charge(chunk - 1)
	cancel()
	defer func() {
		if s, _ := recover().(*Stop); !errors.Is(s, actor.ErrCanceled) || k.Used() != chunk {
			t.Errorf("ended by %v, %d used", s, k.Used())
		}
	}()
	k.Charge(1)
	t.Error("went on")
}

// processor counts the fuel that guests have used when they yield.
type processor struct{ yields, fuel uint64 }

func (p *processor) Yield(fuel uint64) {
	p.yields++
	p.fuel += fuel
}

func (p *processor) Pause() bool { return true }
func (p *processor) Resume()     {}

// A guest yields after each grant, whether it or the host for it has used that, with what it
// has used since the last time.
func TestTankYields(t *testing.T) {
	var k Tank
	var p processor
	ctx := engine.WithProcessor(t.Context(), &p)
	left := int64(k.Fill(ctx, 0, nil))
	for range 3 {
		left = k.Refill(left - chunk - 1)
	}
	k.Charge(chunk)
	if used := uint64(4*chunk + 3); p.yields != 4 || p.fuel != used {
		t.Errorf("yielded %d times with %d of fuel, want 4 with %d", p.yields, p.fuel, used)
	}
}

// A start that takes longer than it may is not taken for a turn that does.
func TestStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = time.Second
		waits := func(ctx context.Context) error {
			<-ctx.Done()
			return fmt.Errorf("start the guest: %w", Ended(ctx))
		}
		trap := &actor.TrapError{Kind: actor.TrapUnreachable}
		within := func(d time.Duration) context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			t.Cleanup(cancel)
			return ctx
		}
		for name, tc := range map[string]struct {
			ctx   context.Context
			start func(context.Context) error
			is    error
			says  bool
		}{
			"in time":              {t.Context(), func(context.Context) error { return nil }, nil, false},
			"a trap":               {t.Context(), func(context.Context) error { return trap }, trap, false},
			"too late":             {t.Context(), waits, actor.ErrDeadline, true},
			"before the caller's":  {within(time.Hour), waits, actor.ErrDeadline, true},
			"the caller's is over": {within(limit / 2), waits, actor.ErrDeadline, false},
			"the caller has gone":  {gone(t), waits, actor.ErrCanceled, false},
		} {
			err := Start(tc.ctx, limit, tc.start)
			if says := err != nil && strings.Contains(err.Error(), "the guest did not start within 1s; do less"); !errors.Is(err, tc.is) || says != tc.says {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func gone(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
