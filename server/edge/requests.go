package edge

import (
	"fmt"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/fair"
)

// requestsUse is what all requests together hold that are not InvokeStreams, in bytes. Apps
// share each account.
type requestsUse struct {
	// Bodies are what has been read, until the request is answered, and messages that
	// are being unpacked, also of streams; Uploads are those of uploads, until each
	// message is on disk.
	Bodies, Uploads *fair.Account
	// Answers are what waits for clients to accept it.
	Answers *fair.Account
}

// requestUse is what one request counts for.
type requestUse struct {
	app string // that the request is for, once that is known
	// declared is how long the rest of the body is by its headers or its envelope, until that is
	// reserved; -1: unknown.
	declared int64
	// enveloped reports whether the length of the body is in its envelope, which has not been read
	// completely; prefix is what has been read of the envelope.
	enveloped bool
	prefix    []byte
	// BodyBytes is how much has been read of the body, unless the route is long-lived, or all
	// of it if its length was declared; reserved is the part of that which was not read yet, and
	// bodyOwner the app for which it counts.
	BodyBytes, reserved int64
	bodyOwner           string
}

// alwaysReadBody is how much of a body is read whatever others hold, in bytes: about
// what a connection takes anyway.
const alwaysReadBody = 4 << 10

// alwaysUpload is the same for a message of an upload.
const alwaysUpload = 128 << 10

func (u *requestsUse) init(c Config) {
	u.Bodies = shared("bytes of requests that are not answered yet", c.MaxRequestsBytes)
	u.Uploads = fair.NewAccount(fair.Bounds{Name: "bytes of messages of uploads", Total: c.Bounds.UploadMessages})
	u.Answers = shared("bytes of answers that clients have not accepted", c.MaxRequestsBytes)
}

// shared returns an account of total bytes. Each app may always take a 64th of it. Callers may
// invent names of apps, so these shares are bounded: together they add at most total once more.
func shared(name string, total int64) *fair.Account {
	return fair.NewAccount(fair.Bounds{Name: name, Total: total, Always: total / 64, Most: total})
}

func errRequestsFull(full error) error {
	return fmt.Errorf("%w: %w; send less at once, or try again later", actor.ErrHostFull, full)
}
