package server

import (
	"fmt"
	"sync/atomic"

	"github.com/greenroom-run/greenroom/actor"
)

// requestsUse is what all requests together hold that are not InvokeStreams, nor
// uploads, whose number is bounded.
type requestsUse struct {
	// bodies are bytes of what has been read, until the request is answered, and
	// of messages that are being unpacked, also of streams.
	bodies atomic.Int64
	// answers are bytes that wait for their clients to accept them.
	answers atomic.Int64
}

// alwaysReadBody is how much of a body is read whatever others hold, in bytes: about
// what a connection takes anyway.
const alwaysReadBody = 4 << 10

// readBody counts bytes of the request's body, and says why it is not read on. What
// it counts, over takes off.
func (x *exchange) readBody(n int) error {
	limit := x.server.conf.MaxRequestsBytes
	x.held += int64(n)
	if x.server.requests.bodies.Add(int64(n)) > limit && x.held > alwaysReadBody {
		return errRequestsFull("that are not answered yet", limit)
	}
	return nil
}

// unpacked counts n bytes that a compressed message was found to have beside those
// before, and says why it is not unpacked on.
func (s *Server) unpacked(n, before int64) error {
	limit := s.conf.MaxRequestsBytes
	if s.requests.bodies.Add(n) > limit && before+n > alwaysReadBody {
		return errRequestsFull("that are not answered yet", limit)
	}
	return nil
}

// over ends the count of a request that is answered.
func (x *exchange) over() {
	if x.held > 0 {
		x.server.requests.bodies.Add(-x.held)
		x.held = 0
	}
}

// writing counts a part of an answer until the client has accepted it.
func (x *exchange) writing(p []byte) (done func()) {
	n := int64(len(p))
	x.server.requests.answers.Add(n)
	return func() { x.server.requests.answers.Add(-n) }
}

// room says why no further request is taken, nil if one is. The answers of those
// that were taken before may pass the limit.
func (s *Server) room() error {
	if limit := s.conf.MaxRequestsBytes; s.requests.answers.Load() > limit {
		return errRequestsFull("whose answers are not accepted", limit)
	}
	return nil
}

func errRequestsFull(which string, limit int64) error {
	return fmt.Errorf("%w: requests %s take all of their %d bytes; send less at once, or try again later", actor.ErrHostFull, which, limit)
}
