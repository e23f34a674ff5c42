package routing

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestReleasedOnce: a call counts off once of what its peer has, whoever ends it, and however
// often.
func TestReleasedOnce(t *testing.T) {
	ch := &channel{usage: usage{newAccount("calls", 100), newAccount("bytes", 1000)}}
	var calls [2]sentCall
	for i := range calls {
		calls[i].Inv.Payload.Data = make([]byte, 10)
		calls[i].Inv.Key.App = "app"
		calls[i].channel = ch
		if err := calls[i].reserve(); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		calls[0].release()
	}
	if n, bytes := ch.usage.count(); n != 1 || bytes != 10 {
		t.Errorf("of 2 calls of 10 bytes one has ended: %d with %d are left", n, bytes)
	}
}

// TestHalf: what stops after the router has as much time as the router.
func TestHalf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		endless, cancel := half(t.Context())
		cancel()
		if !errors.Is(endless.Err(), context.Canceled) || t.Context().Err() != nil {
			t.Errorf("%v, %v", endless.Err(), t.Context().Err())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		part, cancel := half(ctx)
		defer cancel()
		<-part.Done()
		if took := time.Since(began); took != 30*time.Second || ctx.Err() != nil {
			t.Errorf("it ended after %v, %v", took, ctx.Err())
		}
	})
}
