package turn

import (
	"context"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
)

// Settings reads the settings of an app, from memory if it can. An error means that they
// cannot be read now.
type Settings interface {
	// Config returns a configuration value of an app; false if there is none.
	Config(ctx context.Context, app, name string) ([]byte, bool, error)
	// Secret returns a secret of an app; false if there is none.
	Secret(ctx context.Context, app, name string) ([]byte, bool, error)
}

// Egress sends the requests of guests that their app is permitted to send.
type Egress interface {
	// Do sends a request and returns its answer, or why there is none. Before
	// anything leaves, and after all that can be refused without it was, it calls
	// r.Leave. The error is Leave's, and then nothing was sent.
	Do(ctx context.Context, r EgressRequest) (abi.HTTPResponse, error)
}

// EgressRequest is a request of a turn.
type EgressRequest struct {
	App string
	// Declared are the host rules of the type's manifest.
	Declared []string
	// ReadOnly turns send GET and HEAD alone.
	ReadOnly bool
	// Request is the egress's to keep.
	Request *abi.HTTPRequest
	Leave   func() error
	// Trace is the span of the request, which its headers name unless the guest sets them
	// itself. Nil: none.
	Trace *actor.Trace
}

// EgressEnd is one finished request.
type EgressEnd struct {
	Key   actor.Key
	Trace *actor.Trace // its span; nil: it is in no trace
	// Outcome is a code of abi/SPEC.md section 6, "ok" if there was an answer.
	Outcome  string
	Duration time.Duration // from the guest's call, waiting for commits included
	// Sent and Received are the bytes of the bodies.
	Sent, Received int
}
