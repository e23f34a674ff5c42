package server

import "time"

// bounds are the limits of a server that are the same for all. The zero value of a
// field means its default; tests set smaller ones.
type bounds struct {
	// uploadsBytes bounds what all uploads have on disk together, until each is
	// answered. An upload may have 1 MiB all the same.
	uploadsBytes int64
	// uploadMessages bounds what all messages of uploads have in memory, in bytes, which
	// have arrived or do so. A message may have 128 KiB all the same.
	uploadMessages int64
	// uploadTimeout is how long a client may take to send a module.
	uploadTimeout time.Duration
	// streamInvocations is how many invocations one InvokeStream may have in flight:
	// begun, or answered with the reply not yet written. streamBytes bounds their
	// payloads and replies; a single invocation may be larger.
	streamInvocations int
	streamBytes       int64
	// streams is how many InvokeStreams may be open at once.
	streams int
	// readHeaderTimeout is how long a client may take to send the headers of a
	// request.
	readHeaderTimeout time.Duration
	// bodyTimeout is how long a client may take to send a request's body; for
	// streams, each message. It also bounds how long a client may take to accept
	// each message of a stream. An InvokeStream may be silent for as long as it likes.
	bodyTimeout time.Duration
	// acceptTimeout is how long a client may take to accept 256 KiB of an answer.
	acceptTimeout time.Duration
	// idleTimeout is how long a connection without requests is kept.
	idleTimeout time.Duration
	// healthInterval is how often Config.Check is called.
	healthInterval time.Duration
}

// withDefaults returns a copy of b for a server that takes modules of up to
// maxModule bytes.
func (b bounds) withDefaults(maxModule int64) bounds {
	setDefault(&b.uploadsBytes, 16*maxModule)
	setDefault(&b.uploadMessages, 16<<20)
	setDefault(&b.uploadTimeout, 5*time.Minute)
	setDefault(&b.streamInvocations, 4096)
	setDefault(&b.streamBytes, 32<<20)
	setDefault(&b.streams, 1000)
	setDefault(&b.readHeaderTimeout, 10*time.Second)
	setDefault(&b.bodyTimeout, time.Minute)
	setDefault(&b.acceptTimeout, 10*time.Second)
	setDefault(&b.idleTimeout, 3*time.Minute)
	setDefault(&b.healthInterval, 2*time.Second)
	return b
}
