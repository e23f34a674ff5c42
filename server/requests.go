package server

import (
	"fmt"
	"sync/atomic"

	"github.com/greenroom-run/greenroom/actor"
)

// requestsUse is what all requests together hold that are not InvokeStreams.
type requestsUse struct {
	// bodies are bytes of what has been read, until the request is answered, and
	// of messages that are being unpacked, also of streams; uploads are those of
	// uploads, until each message is on disk.
	bodies, uploads share
	// answers are bytes that wait for their clients to accept them.
	answers atomic.Int64
}

// alwaysReadBody is how much of a body is read whatever others hold, in bytes: about
// what a connection takes anyway.
const alwaysReadBody = 4 << 10

// alwaysUpload is the same for a message of an upload.
const alwaysUpload = 128 << 10

// share is memory that requests of one kind have together.
type share struct {
	which         string
	limit, always int64 // in bytes; always is what each may have whatever others hold
	used          atomic.Int64
}

func (u *requestsUse) init(c Config) {
	u.bodies.which, u.bodies.limit, u.bodies.always = "requests that are not answered yet", c.MaxRequestsBytes, alwaysReadBody
	u.uploads.which, u.uploads.limit, u.uploads.always = "messages of uploads", c.bounds.uploadMessages, alwaysUpload
}

// take counts n bytes for a request that has before already, and says why it gets
// no more. The bytes count all the same, until they are given back.
func (s *share) take(n, before int64) error {
	if s.used.Add(n) > s.limit && before+n > s.always {
		return errRequestsFull(s.which, s.limit)
	}
	return nil
}

func (s *share) release(n int64) { s.used.Add(-n) }

// share is what the body of a request counts for.
func (x *exchange) share() *share {
	if x.route.upload {
		return &x.server.requests.uploads
	}
	return &x.server.requests.bodies
}

// countBody counts bytes of the request's body, and says why it is not read on. What
// it counts, releaseBody takes off.
func (x *exchange) countBody(n int) error {
	err := x.share().take(int64(n), x.bodyBytes)
	x.bodyBytes += int64(n)
	return err
}

// releaseBody ends the count of a request that is answered.
func (x *exchange) releaseBody() {
	if x.bodyBytes > 0 {
		x.share().release(x.bodyBytes)
		x.bodyBytes = 0
	}
}

// writing counts a part of an answer until the client has accepted it.
func (x *exchange) writing(p []byte) (done func()) {
	n := int64(len(p))
	x.server.requests.answers.Add(n)
	return func() { x.server.requests.answers.Add(-n) }
}

// checkAnswers refuses further requests while too many bytes of answers wait for their
// clients. The answers of those that were taken before may pass the limit.
func (s *Server) checkAnswers() error {
	if limit := s.conf.MaxRequestsBytes; s.requests.answers.Load() > limit {
		return errRequestsFull("requests whose answers are not accepted", limit)
	}
	return nil
}

func errRequestsFull(which string, limit int64) error {
	return fmt.Errorf("%w: %s take all of their %d bytes; send less at once, or try again later", actor.ErrHostFull, which, limit)
}
