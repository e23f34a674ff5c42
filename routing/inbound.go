package routing

import (
	"context"
	"sync"
)

// inbound has the streams that peers have opened here, one of each channel. It remembers a
// stream only while the stream is served: the peer sends no call before its hello is answered,
// so an older hello that arrives after all newer streams have ended brings no call.
type inbound struct {
	mu   sync.Mutex
	open map[inboundChannel]*inboundStream
}

// inboundChannel is a channel of a process. The process is empty if the peer is of an earlier
// version, which names no channel.
type inboundChannel struct {
	process string
	number  uint32
}

type inboundStream struct {
	number uint64
	end    context.CancelCauseFunc
}

var (
	errOlderStream = &HelloError{"the caller has opened a newer stream of this channel"}
	errNewerStream = &HelloError{"the caller has opened this channel anew"}
)

// begin makes a stream the current one of its channel, and returns the context for serving it.
// The contexts of older streams have ended when begin returns. A stream that is not newer is
// refused with a [*HelloError]. The caller calls done once the stream is no longer served.
func (in *inbound) begin(ctx context.Context, ch inboundChannel, number uint64) (served context.Context, done func(), err error) {
	ctx, end := context.WithCancelCause(ctx)
	if ch.process == "" {
		return ctx, func() { end(nil) }, nil
	}
	s := &inboundStream{number, end}
	in.mu.Lock()
	defer in.mu.Unlock()
	if older := in.open[ch]; older != nil {
		if number <= older.number {
			end(nil)
			return nil, nil, errOlderStream
		}
		older.end(errNewerStream) // under mu, so before the hello is answered
	}
	in.open[ch] = s
	return ctx, func() { in.done(ch, s) }, nil
}

// done forgets a stream.
func (in *inbound) done(ch inboundChannel, s *inboundStream) {
	s.end(nil)
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.open[ch] == s {
		delete(in.open, ch)
	}
}
