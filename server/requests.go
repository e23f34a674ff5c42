package server

import (
	"fmt"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/fair"
)

// requestsUse is what all requests together hold that are not InvokeStreams, in bytes. Apps
// share each account.
type requestsUse struct {
	// bodies are what has been read, until the request is answered, and messages that
	// are being unpacked, also of streams; uploads are those of uploads, until each
	// message is on disk.
	bodies, uploads *fair.Account
	// answers are what waits for clients to accept it.
	answers *fair.Account
}

// requestUse is what one request counts for.
type requestUse struct {
	app string // that the request is for, once that is known
	// bodyBytes is how much has been read of the body, unless the route is long-lived, and
	// bodyOwner the app for which that counts.
	bodyBytes int64
	bodyOwner string
}

// alwaysReadBody is how much of a body is read whatever others hold, in bytes: about
// what a connection takes anyway.
const alwaysReadBody = 4 << 10

// alwaysUpload is the same for a message of an upload.
const alwaysUpload = 128 << 10

func (u *requestsUse) init(c Config) {
	u.bodies = fair.NewAccount(fair.Bounds{Name: "bytes of requests that are not answered yet", Total: c.MaxRequestsBytes})
	u.uploads = fair.NewAccount(fair.Bounds{Name: "bytes of messages of uploads", Total: c.bounds.uploadMessages})
	u.answers = fair.NewAccount(fair.Bounds{Name: "bytes of answers that clients have not accepted", Total: c.MaxRequestsBytes})
}

// share is what the body of a request counts for, and how much of it is read whatever
// others hold.
func (x *exchange) share() (account *fair.Account, always int64) {
	if x.route.upload {
		return x.server.requests.uploads, alwaysUpload
	}
	return x.server.requests.bodies, alwaysReadBody
}

// countBody counts bytes of the request's body, and says why it is not read on. What
// it counts, releaseBody takes off.
func (x *exchange) countBody(n int) error {
	account, always := x.share()
	if x.bodyBytes == 0 {
		x.bodyOwner = x.owner()
	}
	full := account.Count(x.bodyOwner, int64(n))
	if x.bodyBytes += int64(n); full != nil && x.bodyBytes > always {
		return errRequestsFull(full)
	}
	return nil
}

// releaseBody ends the count of a request that is answered.
func (x *exchange) releaseBody() {
	if x.bodyBytes > 0 {
		account, _ := x.share()
		account.Give(x.bodyOwner, x.bodyBytes)
		x.bodyBytes = 0
	}
}

// writing counts a part of an answer until the client has accepted it.
func (x *exchange) writing(p []byte) (done func()) {
	owner, n := x.owner(), int64(len(p))
	x.server.requests.answers.Add(owner, n)
	return func() { x.server.requests.answers.Give(owner, n) }
}

// checkAnswers refuses a request of an app of whose answers too much waits for clients.
func (s *Server) checkAnswers(app string) error {
	if full := s.requests.answers.Check(app, 1); full != nil {
		return errRequestsFull(full)
	}
	return nil
}

func errRequestsFull(full error) error {
	return fmt.Errorf("%w: %w; send less at once, or try again later", actor.ErrHostFull, full)
}
