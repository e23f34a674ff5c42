package routing

import (
	"context"
	"errors"
	"testing"
)

// TestNewerStreamEndsOlder: a stream ends the older one of its channel before it is served itself,
// and no stream of another channel or process. An older one is refused while the newer one is
// served. Nothing is remembered of streams that are over.
func TestNewerStreamEndsOlder(t *testing.T) {
	in := inbound{open: map[inboundChannel]*inboundStream{}}
	begin := func(process string, channel uint32, number uint64) (context.Context, func()) {
		t.Helper()
		ctx, done, err := in.begin(t.Context(), inboundChannel{process, channel}, number)
		if err != nil {
			t.Fatal(err)
		}
		return ctx, done
	}
	refused := func(number uint64) {
		t.Helper()
		var bad *HelloError
		if _, _, err := in.begin(t.Context(), inboundChannel{"p", 1}, number); !errors.As(err, &bad) {
			t.Errorf("stream %d: %v", number, err)
		}
	}
	first, firstDone := begin("p", 1, 5)
	channel, channelDone := begin("p", 2, 6)
	process, processDone := begin("q", 1, 1)
	unnumbered, unnumberedDone := begin("", 0, 0)
	another, anotherDone := begin("", 0, 0)

	second, secondDone := begin("p", 1, 7)
	var replaced *HelloError
	if first.Err() == nil || !errors.As(context.Cause(first), &replaced) {
		t.Errorf("the older stream: %v", context.Cause(first))
	}
	refused(7)
	refused(6)
	firstDone() // which forgets no other
	refused(6)
	for name, ctx := range map[string]context.Context{"the newer stream": second, "another channel": channel, "another process": process, "no number": unnumbered, "no number again": another} {
		if ctx.Err() != nil {
			t.Errorf("%s: %v", name, context.Cause(ctx))
		}
	}
	for _, done := range []func(){secondDone, channelDone, processDone, unnumberedDone, anotherDone} {
		done()
	}
	if second.Err() == nil || unnumbered.Err() == nil {
		t.Error("a context outlives its stream")
	}
	if len(in.open) != 0 {
		t.Errorf("%d streams are remembered", len(in.open))
	}
}
