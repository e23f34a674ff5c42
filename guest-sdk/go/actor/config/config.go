// Package config reads the settings of the actor's app: configuration values and
// secrets. Both take two: the type declares the name in [actor.Capabilities], and
// whoever runs the app sets it.
package config

import (
	"unicode/utf8"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
)

// Errors of this package, to compare with [errors.Is].
var (
	// ErrDenied is a name that the type's [actor.Capabilities] do not have.
	ErrDenied = actor.NewError(actor.StatusPermissionDenied, "denied", "not declared")
	// ErrNotSet is a name that the app has no value for.
	ErrNotSet = actor.NewError(actor.StatusFailedPrecondition, "not_set", "not set")
	// ErrNotReady is a value that the host cannot give now.
	ErrNotReady = actor.NewError(actor.StatusUnavailable, "not_ready", "the host cannot give it now").Retry(0)
	// ErrNotText is a secret that is not UTF-8, asked for as text.
	ErrNotText = actor.NewError(actor.StatusFailedPrecondition, "bad_text", "not UTF-8")
)

// Get returns a configuration value of the app: [ErrDenied] if the type does not
// declare it, [ErrNotSet] if the app has none of that name.
func Get(ctx *actor.Context, name string) (string, error) {
	value, code := configGet(ctx, name)
	if code < 0 {
		return "", refusal("configuration value", "Config", "greenroom config set "+name+"=VALUE", name, code)
	}
	return string(value), nil
}

// Secret returns a secret of the app as text, with the errors of [Get],
// [ErrNotReady], and [ErrNotText] for bytes that are none. Keep it in a local
// variable: what is in the state or in the log is a secret no more.
func Secret(ctx *actor.Context, name string) (string, error) {
	value, err := SecretBytes(ctx, name)
	if err == nil && !utf8.Valid(value) {
		err = ErrNotText.Messagef("the secret %q is not UTF-8; read it with config.SecretBytes", name)
	}
	if err != nil {
		return "", err
	}
	return string(value), nil
}

// SecretBytes returns a secret of the app, whatever bytes it has, with the errors
// of [Get] and [ErrNotReady].
func SecretBytes(ctx *actor.Context, name string) ([]byte, error) {
	value, code := secretGet(ctx, name)
	if code < 0 {
		return nil, refusal("secret", "Secrets", "greenroom secrets set "+name, name, code)
	}
	return value, nil
}

func refusal(what, member, command, name string, code abi.Code) error {
	switch code {
	case abi.CodeDenied:
		return ErrDenied.Messagef("the type does not declare the %s %q; add it to actor.Capabilities.%s", what, name, member)
	case abi.CodeNotFound:
		return ErrNotSet.Messagef("the app has no %s %q; set it with: %s", what, name, command)
	case abi.CodeNotReady:
		return ErrNotReady.Messagef("the host cannot give the %s %q now", what, name)
	}
	return actor.NewError(actor.StatusInternal, "host_error", "").Messagef("the host answered with code %d", code)
}
