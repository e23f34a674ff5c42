package edge

import (
	"cmp"
	"time"
)

// Bounds are the limits of a server that are the same for all. The zero value of a
// field means its default; tests set smaller ones.
type Bounds struct {
	// UploadsBytes bounds what all uploads have on disk together, until each is
	// answered. An upload may have 1 MiB all the same.
	UploadsBytes int64
	// UploadMessages bounds what all messages of uploads have in memory, in bytes, which
	// have arrived or do so. A message may have 128 KiB all the same.
	UploadMessages int64
	// UploadTimeout is how long a client may take to send a module.
	UploadTimeout time.Duration
	// StreamInvocations is how many invocations one InvokeStream may have in flight:
	// begun, or answered with the reply not yet written. StreamBytes bounds their
	// payloads and replies; a single invocation may be larger.
	StreamInvocations int
	StreamBytes       int64
	// Streams is how many InvokeStreams may be open at once.
	Streams int
	// ReadHeaderTimeout is how long a client may take to send the headers of a
	// request.
	ReadHeaderTimeout time.Duration
	// BodyTimeout is how long a client may take to send a request's body; for
	// streams, each message. It also bounds how long a client may take to accept
	// each message of a stream; over HTTP/2, AcceptTimeout without one accepted byte ends
	// the connection before. A body of declared length above 4 KiB must also arrive at a rate of 64 KiB
	// in each AcceptTimeout. An InvokeStream may be silent for as long as it likes.
	BodyTimeout time.Duration
	// AcceptTimeout is how long a client may take to accept 256 KiB of an answer, or to send 64 KiB
	// of a body for which memory is reserved. It also bounds
	// how long an HTTP/2 connection may accept no byte.
	AcceptTimeout time.Duration
	// IdleTimeout is how long a connection without requests is kept.
	IdleTimeout time.Duration
	// HealthInterval is how often Config.Check is called.
	HealthInterval time.Duration
}

// WithDefaults returns a copy of b for a server that takes modules of up to
// maxModule bytes.
func (b Bounds) withDefaults(maxModule int64) Bounds {
	b.UploadsBytes = cmp.Or(b.UploadsBytes, 16*maxModule)
	b.UploadMessages = cmp.Or(b.UploadMessages, 16<<20)
	b.UploadTimeout = cmp.Or(b.UploadTimeout, 5*time.Minute)
	b.StreamInvocations = cmp.Or(b.StreamInvocations, 4096)
	b.StreamBytes = cmp.Or(b.StreamBytes, 32<<20)
	b.Streams = cmp.Or(b.Streams, 1000)
	b.ReadHeaderTimeout = cmp.Or(b.ReadHeaderTimeout, 30*time.Second)
	b.BodyTimeout = cmp.Or(b.BodyTimeout, time.Minute)
	b.AcceptTimeout = cmp.Or(b.AcceptTimeout, 10*time.Second)
	b.IdleTimeout = cmp.Or(b.IdleTimeout, 3*time.Minute)
	b.HealthInterval = cmp.Or(b.HealthInterval, 2*time.Second)
	return b
}
