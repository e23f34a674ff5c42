package turn

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
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

// ConfigGet implements [engine.Calls].
func (t *Turn) ConfigGet(name []byte) ([]byte, abi.Code) {
	if t.env.Settings == nil {
		return t.given("configuration value", name, t.spec.Uses.Config, nothingGiven)
	}
	return t.given("configuration value", name, t.spec.Uses.Config, t.env.Settings.Config)
}

// SecretGet implements [engine.Calls].
func (t *Turn) SecretGet(name []byte) ([]byte, abi.Code) {
	if t.env.Settings == nil {
		return t.given("secret", name, t.spec.Uses.Secrets, nothingGiven)
	}
	return t.given("secret", name, t.spec.Uses.Secrets, t.env.Settings.Secret)
}

func nothingGiven(context.Context, string, string) ([]byte, bool, error) { return nil, false, nil }

func (t *Turn) given(what string, name []byte, declared []string, get func(ctx context.Context, app, name string) ([]byte, bool, error)) ([]byte, abi.Code) {
	if !slices.Contains(declared, string(name)) {
		return nil, abi.CodeDenied
	}
	value, ok, err := get(t.ctx, t.spec.Key.App, string(name))
	switch {
	case err != nil:
		t.Log(int32(slog.LevelWarn), fmt.Sprintf("cannot read the %s %s: %v", what, name, err))
		return nil, abi.CodeNotReady
	case !ok:
		return nil, abi.CodeNotFound
	}
	return value, 0
}

// HTTP implements [engine.Calls].
func (t *Turn) HTTP(r *abi.HTTPRequest) (abi.HTTPResponse, error) {
	began := time.Now() // of the machine, as deadlines are
	span := t.spec.Trace.Child()
	answer, err := t.request(r, span)
	if err != nil {
		return abi.HTTPResponse{}, err
	}
	end := EgressEnd{Key: t.spec.Key, Trace: span, Outcome: answer.Code, Duration: time.Since(began), Sent: len(r.Body), Received: len(answer.Body)}
	if answer.Status != 0 {
		end.Outcome = "ok"
	}
	if answer.Code == abi.HTTPDenied {
		t.Log(int32(slog.LevelWarn), "an HTTP request was denied: "+answer.Message)
	}
	t.env.Sent(end)
	return answer, nil
}

func (t *Turn) request(r *abi.HTTPRequest, span *actor.Trace) (answer abi.HTTPResponse, err error) {
	if t.env.Egress == nil {
		return abi.HTTPResponse{Code: abi.HTTPDenied, Message: "this host sends no requests"}, nil
	}
	engine.Outside(t.ctx, func() {
		answer, err = t.env.Egress.Do(t.ctx, EgressRequest{
			App: t.spec.Key.App, Declared: t.spec.Uses.HTTP, ReadOnly: t.spec.ReadOnly, Request: r, Leave: t.spec.Leaver.Leave,
			Trace: span,
		})
	})
	return answer, err
}
