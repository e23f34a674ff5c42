package routing_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/routing"
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
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
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
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
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

// TestCallsAtAPeerAreBounded: each channel takes as many calls as may be in flight, and as
// many more that wait for it.
func TestCallsAtAPeerAreBounded(t *testing.T) {
	_, a, b := pair(t, setup{router: func(c *routing.Config) { c.MaxInFlight, c.Channels, c.MaxWait = 1, 1, 50*time.Millisecond }})
	entered, release := blocking(b.host)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
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
