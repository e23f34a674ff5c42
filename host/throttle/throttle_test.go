package throttle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/greenroom-run/greenroom/actor"
)

// rulebook is a source whose rules change.
type rulebook struct {
	mu    sync.Mutex
	rules actor.Rules
	err   error
	reads int
}

func (b *rulebook) Rules(context.Context, string) (*actor.Rules, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reads++
	r := b.rules
	return &r, b.err
}

func (b *rulebook) set(r actor.Rules, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rules, b.err = r, err
}

func governor(t *testing.T, b *rulebook, hosts int) *Governor {
	g := New(Config{Source: b, Hosts: func() int { return hosts }})
	t.Cleanup(g.Stop)
	return g
}

func call(method, id, token string) Call {
	return Call{Method: method, ID: id, Token: token, Now: time.Now()}
}

func still() error { return nil }

// refusal returns the condition and the wait of a refusal.
func refusal(t *testing.T, err error, want *actor.Condition, text string) time.Duration {
	t.Helper()
	var limit *actor.LimitError
	if !errors.Is(err, want) || !errors.As(err, &limit) || !strings.Contains(err.Error(), text) {
		t.Fatalf("got %v, want %s with %q", err, want.Kind(), text)
	}
	return limit.RetryAfter
}

// Whatever calls come, no more are admitted in any time than the burst and the rate allow, and one that comes when its
// refusal said is admitted.
func TestRates(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		rate := actor.Rate{PerSecond: rapid.Float64Range(0.01, 1000).Draw(r, "rate"), Burst: rapid.Float64Range(1, 50).Draw(r, "burst")}
		hosts := rapid.IntRange(1, 5).Draw(r, "hosts")
		m := newMeter(rate, 1)
		began := time.Unix(1_000_000, 0)
		now, admitted := began, 0
		for range rapid.IntRange(1, 200).Draw(r, "calls") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(r, "pause")))
			retry, ok := m.take("k", 1, hosts, now)
			if !ok {
				if retry <= 0 || retry > longestWait {
					r.Fatalf("told to wait %v", retry)
				}
				if now = now.Add(retry); retry < longestWait {
					if _, ok = m.take("k", 1, hosts, now); !ok {
						r.Fatalf("refused again after %v", retry)
					}
				}
			}
			if ok {
				admitted++
			}
			most := max(1, rate.Burst/float64(hosts)) + rate.PerSecond/float64(hosts)*now.Sub(began).Seconds()
			if float64(admitted) > most+1e-6 {
				r.Fatalf("%d admitted in %v, at most %f may be", admitted, now.Sub(began), most)
			}
		}
	})
}

// TestWaitIsLongEnough: a call that has waited for its RetryAfter is admitted, however RetryAfter was rounded.
func TestWaitIsLongEnough(t *testing.T) {
	for _, tt := range []struct {
		rate  actor.Rate
		after time.Duration
	}{{actor.Rate{PerSecond: 1000, Burst: 1}, 1181}, {actor.Rate{PerSecond: 2e9, Burst: 1e12}, 1_333_333}, {actor.Rate{PerSecond: 1. / 60}, 12345}} {
		for hosts := range 7 {
			m, now := newMeter(tt.rate, 1), time.Unix(1_000_000, 0)
			for i := range 1000 {
				_, burst := m.share(hosts + 1)
				now = now.Add(tt.after)
				retry, ok := m.take("k", burst, hosts+1, now)
				if ok {
					continue
				}
				if now = now.Add(retry); retry == longestWait {
					continue
				}
				if more, ok := m.take("k", burst, hosts+1, now); !ok {
					t.Fatalf("%+v at %d hosts, call %d: told to wait %v, and then %v", tt.rate, hosts+1, i, retry, more)
				}
			}
		}
	}
}

func TestQuotasAndLimitsRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &rulebook{rules: actor.Rules{
			Quotas: map[actor.Quota]actor.Rate{actor.QuotaTurns: {PerSecond: 10, Burst: 4}},
			Limits: map[actor.LimitScope]actor.Limit{
				{Type: "T"}:                {Rate: actor.Rate{PerSecond: 1, Burst: 2}, Per: actor.PerActor},
				{Type: "T", Method: "Pay"}: {Rate: actor.Rate{PerSecond: 1}, Per: actor.PerToken},
			},
		}}
		typ := TypeOf(governor(t, b, 1), "shop", "T", true)
		admit := func(c Call) error { return typ.Admit(t.Context(), c) }
		for range 2 {
			if err := admit(call("Add", "a", "")); err != nil {
				t.Fatal(err)
			}
		}
		if after := refusal(t, admit(call("Add", "a", "")), actor.ErrRateLimited, "the limit of T is 1 turns per second for each actor"); after != time.Second {
			t.Errorf("told to wait %v", after)
		}
		if err := admit(call("Pay", "b", "x")); err != nil {
			t.Errorf("another actor: %v", err)
		}
		refusal(t, admit(call("Pay", "c", "x")), actor.ErrRateLimited, "the limit of T/Pay is")
		if err := admit(call("Pay", "c", "y")); err != nil { // what the refused one took of the type and the quota was given back
			t.Errorf("another token: %v", err)
		}
		if after := refusal(t, admit(call("Add", "d", "")), actor.ErrQuotaExceeded, "the quota turns of the app shop is 10 turns per second"); after != 100*time.Millisecond {
			t.Errorf("told to wait %v", after)
		}
		time.Sleep(100 * time.Millisecond)
		if err := admit(call("Add", "d", "")); err != nil {
			t.Error(err)
		}
		if err := (*Type)(nil).Admit(t.Context(), call("Add", "a", "")); err != nil {
			t.Error(err)
		}
	})
}

// Fuel is known when a turn has ended: the next calls are refused until it is paid for.
func TestFuelIsPaidAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &rulebook{rules: actor.Rules{Quotas: map[actor.Quota]actor.Rate{actor.QuotaFuel: {PerSecond: 1000}}}}
		typ := TypeOf(governor(t, b, 2), "shop", "T", true)
		if err := typ.Admit(t.Context(), call("Add", "a", "")); err != nil {
			t.Fatal(err)
		}
		typ.Spend(2500) // where the host's share is 500 a second
		if after := refusal(t, typ.Admit(t.Context(), call("Add", "a", "")), actor.ErrQuotaExceeded, "units of fuel"); after != 4*time.Second {
			t.Errorf("told to wait %v", after)
		}
		time.Sleep(4 * time.Second)
		if err := typ.Admit(t.Context(), call("Add", "a", "")); err != nil {
			t.Error(err)
		}
	})
}

// Hosts divide what is bounded for all, and not what is bounded for each actor of one host.
func TestHostsShareRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			per     actor.LimitKey
			oneHost bool
			want    int
		}{{actor.PerNone, true, 4}, {actor.PerActor, true, 12}, {actor.PerActor, false, 4}, {actor.PerToken, true, 4}} {
			b := &rulebook{rules: actor.Rules{Limits: map[actor.LimitScope]actor.Limit{{Type: "T"}: {Rate: actor.Rate{PerSecond: 12}, Per: c.per}}}}
			typ, n := TypeOf(governor(t, b, 3), "shop", "T", c.oneHost), 0
			for typ.Admit(t.Context(), call("Add", "a", "x")) == nil {
				n++
			}
			if n != c.want {
				t.Errorf("%+v: %d calls at once", c, n)
			}
		}
	})
}

// The keys in memory are bounded.
func TestKeysAreBounded(t *testing.T) {
	m := newMeter(actor.Rate{PerSecond: 1}, 10)
	now := time.Unix(1000, 0)
	for i := range 100 {
		if _, ok := m.take(fmt.Sprint("k", i), 1, 1, now); !ok {
			t.Fatal("a new key is refused")
		}
	}
	if len(m.keys) != 10 {
		t.Errorf("%d keys are kept", len(m.keys))
	}
}

// Rules are read again when they are old, without a call that waits; while that fails the last known ones hold. The first read is waited for.
func TestRulesAreReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &rulebook{err: errors.New("gone")}
		g := governor(t, b, 1)
		typ := TypeOf(g, "shop", "T", true)
		admit := func() error { return typ.Admit(t.Context(), call("Add", "a", "")) }
		if err := admit(); !errors.Is(err, actor.ErrUnavailable) {
			t.Fatalf("without rules: %v", err)
		}
		paused := actor.Rules{Paused: map[string]actor.Pause{"T": {Refuse: true}}}
		b.set(paused, nil)
		refusal(t, admit(), actor.ErrTypePaused, "T of the app shop, and its calls are refused")
		b.set(actor.Rules{}, errors.New("gone"))
		time.Sleep(3 * time.Second)
		for range 3 {
			refusal(t, admit(), actor.ErrTypePaused, "")
			synctest.Wait()
		}
		if b.reads < 3 {
			t.Errorf("%d reads", b.reads)
		}
		b.set(actor.Rules{}, nil)
		refusal(t, admit(), actor.ErrTypePaused, "") // and has them read
		synctest.Wait()
		if err := admit(); err != nil {
			t.Error(err)
		}
		b.set(paused, nil)
		if err := admit(); err != nil {
			t.Errorf("before they are old: %v", err)
		}
		if err := g.Changed(t.Context(), "shop"); err != nil {
			t.Error(err)
		}
		refusal(t, admit(), actor.ErrTypePaused, "")
	})
}

// entering calls Enter, and returns what it returned.
func entering(ctx context.Context, typ *Type, c Call, may func() error) chan error {
	done := make(chan error, 1)
	go func() {
		_, err := typ.Enter(ctx, c, may)
		done <- err
	}()
	synctest.Wait()
	return done
}

func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		paused := func(refuse bool) actor.Rules {
			return actor.Rules{Paused: map[string]actor.Pause{"T": {Refuse: refuse}}}
		}
		b := &rulebook{rules: paused(false)}
		g := governor(t, b, 1)
		typ := TypeOf(g, "shop", "T", true)
		c := call("Add", "a", "")
		if err := typ.Admit(t.Context(), c); err != nil {
			t.Fatalf("a call that may wait: %v", err)
		}
		firing, called := c, c
		firing.Firing, called.Called = true, true
		for _, c := range []Call{firing, called} {
			refusal(t, typ.Admit(t.Context(), c), actor.ErrTypePaused, "")
		}
		if err := TypeOf(g, "shop", "U", true).Admit(t.Context(), firing); err != nil || TypeOf(g, "shop", "U", true).Waits("Add") || !typ.Waits("Add") {
			t.Errorf("another type: %v", err)
		}

		// The context ends the wait.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		refusal(t, <-entering(ctx, typ, c, still), actor.ErrTypePaused, "has waited 500ms")

		// So does who asks for the wait, within a second.
		began := time.Now()
		if err := <-entering(t.Context(), typ, c, func() error { return actor.ErrNotOwner }); !errors.Is(err, actor.ErrNotOwner) || time.Since(began) != lookEvery {
			t.Errorf("%v after %v", err, time.Since(began))
		}

		// A call waits until its type is resumed elsewhere, though no other call has that read.
		c.Now = time.Now()
		waits := entering(t.Context(), typ, c, still)
		time.Sleep(10 * time.Second)
		if len(waits) > 0 {
			t.Fatal("the call has not waited")
		}
		b.set(actor.Rules{}, nil)
		began = time.Now()
		if err := <-waits; err != nil || time.Since(began) > g.cfg.MaxAge+lookEvery {
			t.Errorf("%v after %v", err, time.Since(began))
		}

		// Or here.
		b.set(paused(false), nil)
		if err := g.Changed(t.Context(), "shop"); err != nil {
			t.Fatal(err)
		}
		waits = entering(t.Context(), typ, c, still)
		b.set(actor.Rules{}, nil)
		began = time.Now()
		if err := g.Changed(t.Context(), "shop"); err != nil {
			t.Fatal(err)
		}
		if err := <-waits; err != nil || time.Since(began) != 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}

		// To refuse calls refuses those that wait, which cancels what is queued.
		b.set(paused(false), nil)
		_ = g.Changed(t.Context(), "shop")
		waits = entering(t.Context(), typ, c, still)
		b.set(paused(true), nil)
		_ = g.Changed(t.Context(), "shop")
		refusal(t, <-waits, actor.ErrTypePaused, "its calls are refused")

		// The end of the host ends all waits.
		b.set(paused(false), nil)
		_ = g.Changed(t.Context(), "shop")
		waits = entering(t.Context(), typ, c, still)
		g.Stop()
		if err := <-waits; !errors.Is(err, actor.ErrStopping) {
			t.Errorf("after Stop: %v", err)
		}
	})
}

// Turns beyond a concurrency wait, keys have places in turn, and who gives up or has ended leaves its place.
func TestConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &rulebook{rules: actor.Rules{Limits: map[actor.LimitScope]actor.Limit{{Type: "T", Method: "Slow"}: {Concurrency: 2, Per: actor.PerToken}}}}
		typ := TypeOf(governor(t, b, 1), "shop", "T", true)
		if err := typ.Admit(t.Context(), call("Slow", "a", "")); err != nil {
			t.Fatal(err)
		}
		if typ.Waits("Add") || !typ.Waits("Slow") {
			t.Error("which methods wait")
		}
		var mu sync.Mutex
		var order []string
		leaves := make(chan func(), 100)
		enter := func(ctx context.Context, token string, n int) {
			leave, err := typ.Enter(ctx, call("Slow", fmt.Sprint(n), token), still)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			order = append(order, token)
			mu.Unlock()
			leaves <- leave
		}
		for i := range 6 {
			go enter(t.Context(), "loud", i)
			synctest.Wait()
		}
		for i := range 2 {
			go enter(t.Context(), "quiet", i)
			synctest.Wait()
		}
		if len(order) != 2 {
			t.Fatalf("%d turns run", len(order))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		refusal(t, <-entering(ctx, typ, call("Slow", "x", "late"), still), actor.ErrRateLimited, "the limit of T/Slow is 2 turns at the same time, and the call has waited 1m0s")
		for range 8 {
			(<-leaves)()
			synctest.Wait()
		}
		if got := strings.Join(order, " "); got != "loud loud loud quiet loud quiet loud loud" && got != "loud loud quiet loud quiet loud loud loud" {
			t.Errorf("places went to %s", got)
		}
		// All are free again.
		for range 2 {
			if _, err := typ.Enter(t.Context(), call("Slow", "x", "a"), still); err != nil {
				t.Error(err)
			}
		}
	})
}

// A limit that stays keeps its tokens when another one changes.
func TestOtherLimitsKeepTheirTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := actor.Limit{Rate: actor.Rate{PerSecond: 0.001}}
		b := &rulebook{rules: actor.Rules{Limits: map[actor.LimitScope]actor.Limit{{Type: "T"}: limit}}}
		g := governor(t, b, 1)
		typ := TypeOf(g, "shop", "T", true)
		if err := typ.Admit(t.Context(), call("Add", "a", "")); err != nil {
			t.Fatal(err)
		}
		b.set(actor.Rules{Limits: map[actor.LimitScope]actor.Limit{{Type: "T"}: limit, {Type: "U"}: limit}}, nil)
		if err := g.Changed(t.Context(), "shop"); err != nil {
			t.Fatal(err)
		}
		refusal(t, typ.Admit(t.Context(), call("Add", "a", "")), actor.ErrRateLimited, "")
		if err := TypeOf(g, "shop", "U", true).Admit(t.Context(), call("Add", "a", "")); err != nil {
			t.Error(err)
		}
	})
}
