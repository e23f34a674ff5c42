package edge

import (
	"fmt"
	"sync/atomic"

	"github.com/greenroom-run/greenroom/actor"
)

// requestsUse is what all requests together hold that are not InvokeStreams.
type requestsUse struct {
	// Bodies are bytes of what has been read, until the request is answered, and
	// of messages that are being unpacked, also of streams; uploads are those of
	// uploads, until each message is on disk.
	Bodies, Uploads share
	// Answers are bytes that wait for their clients to accept them.
	Answers atomic.Int64
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
	Used          atomic.Int64
}

func (u *requestsUse) init(c Config) {
	u.Bodies.which, u.Bodies.limit, u.Bodies.always = "requests that are not answered yet", c.MaxRequestsBytes, alwaysReadBody
	u.Uploads.which, u.Uploads.limit, u.Uploads.always = "messages of uploads", c.Bounds.UploadMessages, alwaysUpload
}

// take counts n bytes for a request that has before already, and says why it gets
// no more. The bytes count all the same, until they are given back.
func (s *share) take(n, before int64) error {
	if s.Used.Add(n) > s.limit && before+n > s.always {
		return errRequestsFull(s.which, s.limit)
	}
	return nil
}

func (s *share) release(n int64) { s.Used.Add(-n) }

func errRequestsFull(which string, limit int64) error {
	return fmt.Errorf("%w: %s take all of their %d bytes; send less at once, or try again later", actor.ErrHostFull, which, limit)
}
