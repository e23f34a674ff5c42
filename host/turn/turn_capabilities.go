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
