package routing_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/routing"
	"github.com/greenroom-run/greenroom/server"
)

// sized is a call with a payload of so many bytes.
func sized(id string, bytes int) actor.Invocation {
	inv := call(id)
	inv.Payload.Data = make([]byte, bytes)
	return inv
}

// TestBytesAreBounded: the payloads of calls that wait for an owner, and of those that a
// peer has, take no more than they may together; one alone always fits.
func TestBytesAreBounded(t *testing.T) {
	_, a, _ := pair(t, setup{router: func(c *routing.Config) { c.MaxWaitingBytes = 100 }})
	for _, alone := range []int{60, 1000} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		waits, leave := context.WithCancel(ctx)
		waiting := async(waits, a, sized("nobody's", alone))
		eventually(t, "it waits", func() bool { _, bytes := a.router.Waiting(); return bytes == int64(alone) })
		if _, err := a.router.Invoke(ctx, sized("nobody's", 60)); !errors.Is(err, actor.ErrNoOwner) {
			t.Errorf("60 bytes where %d wait: %v", alone, err)
		}
		leave()
		if got := <-waiting; !errors.Is(got.err, actor.ErrCanceled) {
			t.Errorf("%d bytes alone: %v", alone, got.err)
		}
	}

	_, a, b := pair(t, setup{router: func(c *routing.Config) { c.MaxWaitingBytes, c.MaxWait = 100, 50*time.Millisecond }})
	for _, alone := range []int{60, 1000} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		entered, release := blocking(b.host)
		sent := async(ctx, a, sized("b", alone))
		<-entered
		_, err := a.router.Invoke(ctx, sized("b", 60))
		close(release)
		if !errors.Is(err, actor.ErrNoOwner) || len(entered) != 0 {
			t.Fatalf("60 bytes where a peer has %d: %v", alone, err)
		}
		if got := <-sent; got.err != nil {
			t.Errorf("%d bytes alone: %v", alone, got.err)
		}
	}
}

// TestCallsAtAPeerAreBounded: each channel takes as many calls as may be in flight.
func TestCallsAtAPeerAreBounded(t *testing.T) {
	_, a, b := pair(t, setup{router: func(c *routing.Config) { c.MaxInFlight, c.Channels, c.MaxWait = 2, 1, 50*time.Millisecond }})
	entered, release := blocking(b.host)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	outcomes := make(chan error, 3)
	for range 3 {
		go func() {
			_, err := a.router.Invoke(ctx, call("b"))
			outcomes <- err
		}()
	}
	<-entered
	err := <-outcomes
	close(release)
	if !errors.Is(err, actor.ErrNoOwner) {
		t.Fatalf("one more than may be there: %v", err)
	}
	for range 2 {
		if err := <-outcomes; err != nil {
			t.Errorf("one that may be there: %v", err)
		}
	}
}

// appCall is a call of an app's actor.
func appCall(app, id string) actor.Invocation {
	inv := call(id)
	inv.Key.App = app
	return inv
}

// TestAppsShareTheChannelsOfAPeer has one app's calls hang at a peer, as many as may be in flight,
// and more that wait for that; another app's calls are answered meanwhile.
func TestAppsShareTheChannelsOfAPeer(t *testing.T) {
	const inFlight, waiting, flood, calls = 16, 16, 100, 20
	_, a, b := pair(t, setup{router: func(c *routing.Config) { c.MaxInFlight, c.Channels, c.MaxWaiting = inFlight, 1, waiting }})
	entered, release := make(chan struct{}, flood), make(chan struct{})
	b.host.set(func(_ context.Context, inv actor.Invocation) (actor.Reply, error) {
		if inv.Key.App == "loud" {
			entered <- struct{}{}
			<-release
		}
		return actor.Reply{}, nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var loud []chan outcome
	for range flood {
		loud = append(loud, async(ctx, a, appCall("loud", "b")))
	}
	for range inFlight - inFlight/8 { // all that one app may have there
		<-entered
	}
	for range calls {
		if _, err := a.router.Invoke(ctx, appCall("quiet", "b")); err != nil {
			t.Fatal(err)
		}
	}
	if len(entered) > 0 {
		t.Errorf("the flood has %d calls more at the peer than it may", len(entered))
	}
	close(release)
	for _, c := range loud {
		if got := <-c; got.err != nil && !errors.Is(got.err, actor.ErrNoOwner) {
			t.Error(got.err)
		}
	}
}

// TestAppsShareWhatWaitsForAnOwner has as many calls and bytes of one app wait as may; another
// app's call waits beside them, and is answered.
func TestAppsShareWhatWaitsForAnOwner(t *testing.T) {
	for name, of := range map[string]struct {
		waiting int
		size    int
	}{"calls": {16, 0}, "bytes": {1000, 100}} {
		t.Run(name, func(t *testing.T) {
			tb, a, _ := pair(t, setup{router: func(c *routing.Config) { c.MaxWaiting, c.MaxWaitingBytes = of.waiting, 1600 }})
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			flood, end := context.WithCancel(ctx)
			invocation := func(app, id string) actor.Invocation {
				inv := appCall(app, id)
				inv.Payload.Data = make([]byte, of.size)
				return inv
			}
			refused := make(chan error, 100)
			for range 100 {
				go func() {
					_, err := a.router.Invoke(flood, invocation("loud", "nobody's"))
					refused <- err
				}()
			}
			for range 100 - 14 {
				if err := <-refused; !errors.Is(err, actor.ErrNoOwner) {
					t.Fatal(err)
				}
			}
			quiet := async(ctx, a, invocation("quiet", "later"))
			eventually(t, "it waits beside 14 others", func() bool { calls, _ := a.router.Waiting(); return calls == 15 || len(quiet) > 0 })
			tb.update(func() { tb.owners["later"] = a.id })
			if got := <-quiet; got.err != nil {
				t.Error(got.err)
			}
			end()
			for range 14 {
				<-refused
			}
		})
	}
}

// TestChannelsHaveTheirOwnBounds: what one stream of a client may have does not bound a channel, which
// has the calls of all apps.
func TestChannelsHaveTheirOwnBounds(t *testing.T) {
	_, a, b := pair(t, setup{
		router: func(c *routing.Config) { c.Channels, c.MaxWait = 1, 50*time.Millisecond },
		server: func(c *server.Config) { c.Bounds.StreamInvocations, c.Bounds.StreamBytes = 1, 1 },
	})
	entered, release := blocking(b.host)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var sent []chan outcome
	for range 2 {
		sent = append(sent, async(ctx, a, sized("b", 1000)))
		<-entered
	}
	close(release)
	for _, c := range sent {
		if got := <-c; got.err != nil {
			t.Error(got.err)
		}
	}
}
