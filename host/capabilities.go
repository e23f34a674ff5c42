package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
)

// Grants says what an app was given. It answers from memory where it can. The
// error says that it cannot say now.
type Grants interface {
	// Config returns a configuration value of an app; false if there is none.
	Config(ctx context.Context, app, name string) ([]byte, bool, error)
	// Secret returns a secret of an app; false if there is none.
	Secret(ctx context.Context, app, name string) ([]byte, bool, error)
}

// Egress sends the requests of guests, as far as their app may.
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
}

// EgressEnd is one finished request.
type EgressEnd struct {
	Key actor.Key
	// Outcome is a code of abi/SPEC.md section 6, "ok" if there was an answer.
	Outcome  string
	Duration time.Duration // from the guest's call, waiting for commits included
	// Sent and Received are the bytes of the bodies.
	Sent, Received int
}

// errRecorded ends a guest whose call is answered with what is recorded of it.
var errRecorded = errors.New("the call is recorded already")

// errDropped ends a guest whose turn is to run again, on the state loaded anew.
var errDropped = errors.New("the state that the turn ran on was dropped")

func (t *turn) ConfigGet(name []byte) ([]byte, abi.Code) {
	if t.host.cfg.Grants == nil {
		return t.given("configuration value", name, t.uses.Config, nothingGiven)
	}
	return t.given("configuration value", name, t.uses.Config, t.host.cfg.Grants.Config)
}

func (t *turn) SecretGet(name []byte) ([]byte, abi.Code) {
	if t.host.cfg.Grants == nil {
		return t.given("secret", name, t.uses.Secrets, nothingGiven)
	}
	return t.given("secret", name, t.uses.Secrets, t.host.cfg.Grants.Secret)
}

func nothingGiven(context.Context, string, string) ([]byte, bool, error) { return nil, false, nil }

func (t *turn) given(what string, name []byte, declared []string, get func(ctx context.Context, app, name string) ([]byte, bool, error)) ([]byte, abi.Code) {
	if !slices.Contains(declared, string(name)) {
		return nil, abi.CodeDenied
	}
	value, ok, err := get(t.ctx, t.key.App, string(name))
	switch {
	case err != nil:
		t.Log(int32(slog.LevelWarn), fmt.Sprintf("cannot read the %s %s: %v", what, name, err))
		return nil, abi.CodeNotReady
	case !ok:
		return nil, abi.CodeNotFound
	}
	return value, 0
}

func (t *turn) HTTP(r *abi.HTTPRequest) (abi.HTTPResponse, error) {
	began := time.Now() // of the machine, as deadlines are
	answer, err := t.request(r)
	if err != nil {
		return abi.HTTPResponse{}, err
	}
	end := EgressEnd{Key: t.key, Outcome: answer.Code, Duration: time.Since(began), Sent: len(r.Body), Received: len(answer.Body)}
	if answer.Status != 0 {
		end.Outcome = "ok"
	}
	if answer.Code == abi.HTTPDenied {
		t.Log(int32(slog.LevelWarn), "an HTTP request was denied: "+answer.Message)
	}
	t.host.events.Egress(end)
	return answer, nil
}

func (t *turn) request(r *abi.HTTPRequest) (abi.HTTPResponse, error) {
	if t.host.cfg.Egress == nil {
		return abi.HTTPResponse{Code: abi.HTTPDenied, Message: "this host sends no requests"}, nil
	}
	return t.host.cfg.Egress.Do(t.ctx, EgressRequest{
		App: t.key.App, Declared: t.uses.HTTP, ReadOnly: t.readOnly, Request: r, Leave: t.leave,
	})
}

// leave readies the turn for something that leaves the host: it waits until all
// that the turn could have observed is durable, and marks the call, which is not
// run again from then on. Only the warm lane runs on what is not committed; of a
// turn on committed state there is nothing to wait for.
//
// A call with a key is looked up first: one that is recorded sends nothing, and is
// answered with its record.
func (t *turn) leave() error {
	if t.activation != nil {
		dropped, err := t.host.calmDown(t.ctx, t.activation)
		if err == nil && !dropped {
			dropped, err = t.host.confirmTip(t.ctx, t.activation, t.began)
		}
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return actor.ErrDeadline
		case errors.Is(err, context.Canceled):
			return actor.ErrCanceled
		case err != nil:
			return err
		case dropped:
			return errDropped
		}
	}
	if t.call.keyed() && !t.readOnly && !t.left {
		if known, ok := t.host.lookUp(t.ctx, t.call); ok {
			t.recorded = &known
			return errRecorded
		}
	}
	t.left = true
	// With an idempotency key the caller has said that it may be sent again.
	t.call.stats.left = !t.call.keyed()
	return nil
}

// finalError is the error of a turn that left the host and was not committed. It
// must not tell callers to try again: what left cannot be called back.
func finalError(err error) error {
	var c *actor.Condition
	if errors.As(err, &c) && c.Retryable() {
		return fmt.Errorf("%w (%v)", actor.ErrLeft, err)
	}
	return err
}
