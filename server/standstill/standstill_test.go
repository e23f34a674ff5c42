package standstill

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/inbox"
	"github.com/greenroom-run/greenroom/server/rpc"
)

const limit, every = 500 * time.Millisecond, 100 * time.Millisecond

// TestGuard refuses calls from the moment at which a sign of life is late until a while after it
// came, whichever clock stood still.
func TestGuard(t *testing.T) {
	g := NewGuard(limit, slog.New(slog.DiscardHandler))
	now := time.Now()
	pass := func(d time.Duration, refused bool) {
		t.Helper()
		now = now.Add(d)
		if err := g.check(now); errors.Is(err, actor.ErrStoodStill) != refused || err != nil != refused {
			t.Errorf("after %v: %v", d, err)
		}
	}
	// goes on has it give signs of life for a while.
	goesOn := func(d time.Duration) {
		for ; d > every; d -= every {
			now = now.Add(every)
			g.beat(now)
		}
		now = now.Add(d)
		g.beat(now)
	}
	pass(time.Hour, false) // it gives no signs of life yet
	g.beat(now)
	pass(limit, false)
	pass(1, true)
	g.beat(now)
	pass(0, true)
	goesOn(after - 1)
	pass(0, true)
	goesOn(1)
	pass(limit, false)
	g.beat(now)

	// The monotonic clock stands still while a machine is suspended. Without its reading there is
	// the wall's clock alone.
	now = now.Round(0)
	pass(limit+1, true)
	g.beat(now)
	goesOn(after - 1)
	pass(0, true)
	goesOn(1)
	pass(0, false)
}

func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGuard(limit, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { g.Run(ctx); close(done) }()
		synctest.Wait()
		<-time.After(10 * limit)
		if err := g.check(time.Now()); err != nil {
			t.Error(err)
		}
		cancel()
		<-done
		<-time.After(10 * limit)
		if err := g.check(time.Now()); err != nil {
			t.Errorf("after its end: %v", err)
		}
	})
}

// reached counts what reaches a host.
type reached struct {
	rpc.Host
	rpc.Messages
	n int
}

func (r *reached) Invoke(context.Context, actor.Invocation) (actor.Reply, error) {
	r.n++
	return actor.Reply{}, nil
}

func (r *reached) Begin(context.Context, actor.Invocation, host.Receiver) host.Begun {
	r.n++
	return nil
}

func (r *reached) Send(context.Context, *inbox.Request, string) (actor.ReminderID, bool, error) {
	r.n++
	return actor.ReminderID{}, false, nil
}

type answer struct{ err error }

func (a *answer) Answer(_ actor.Reply, err error) { a.err = err }

// TestWhatIsGuarded is what has an idempotency key.
func TestWhatIsGuarded(t *testing.T) {
	g, under, ctx := NewGuard(limit, slog.New(slog.DiscardHandler)), &reached{}, t.Context()
	g.beat(time.Now().Add(-2 * limit))
	h, m, a := Host{under, g}, Messages{under, g}, &answer{}
	_, err := h.Invoke(ctx, actor.Invocation{IdempotencyKey: "k"})
	h.Begin(ctx, actor.Invocation{IdempotencyKey: "k"}, a).GiveUp()
	_, _, sent := m.Send(ctx, &inbox.Request{}, "k")
	for _, err := range []error{err, a.err, sent} {
		if !errors.Is(err, actor.ErrStoodStill) {
			t.Errorf("with a key: %v", err)
		}
	}
	if under.n != 0 {
		t.Errorf("%d of them reached the host", under.n)
	}
	_, err = h.Invoke(ctx, actor.Invocation{})
	h.Begin(ctx, actor.Invocation{}, a)
	_, _, sent = m.Send(ctx, &inbox.Request{}, "")
	if err != nil || sent != nil || under.n != 3 {
		t.Errorf("without a key: %v, %v; %d reached the host", err, sent, under.n)
	}
}
