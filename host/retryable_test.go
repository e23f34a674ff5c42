package host_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// TestRetryableAfterForwardedCall: an error that says that the request had no effect says so no
// more if another host has committed a part of the turn, unless the request has an idempotency key.
func TestRetryableAfterForwardedCall(t *testing.T) {
	busy := &actor.GuestError{Status: 8, Code: "busy", Message: "busy", Retryable: true, RetryAfter: time.Second, Detail: actor.Payload{ContentType: "text/plain", Data: []byte("full")}}
	payer := hosttest.Actor{Methods: map[string]hosttest.Func{
		"Pay": func(t *hosttest.Turn) error {
			if to := string(t.Frame.Payload); to != "" {
				_, _ = t.Call("T", to, "Do", addFive)
			}
			return busy
		},
		"HavePaid": func(t *hosttest.Turn) error {
			_, err := t.Call("Payer", "b", "Pay", string(t.Frame.Payload))
			return err
		},
	}}
	for _, c := range []struct {
		name, method, to, key string
		outcome               string // of the forwarded call
		retryable             bool
	}{
		{"committed by another host", "Pay", "b", "", "", false},
		{"perhaps committed by another host", "Pay", "b", "", "lost", false},
		{"with an idempotency key", "Pay", "b", "k", "", true},
		{"in one transaction", "Pay", "c", "", "", true},
		{"nothing called", "Pay", "", "", "", true},
		{"committed by a host that another host called", "HavePaid", "c", "", "", false},
		{"nothing committed by another host", "HavePaid", "", "", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hs := newHosts(t, host.Limits{})
				for _, s := range hs.stages {
					s.world.Deploy("app", "Payer", payer)
				}
				hs.outcomes = []string{c.outcome}
				_, err := hs.stages[0].Invoke(t.Context(), actor.Invocation{
					Key: actor.Key{App: "app", Type: "Payer", ID: "a"}, Method: c.method, IdempotencyKey: c.key, Payload: actor.Payload{Data: []byte(c.to)},
				})
				var guest *actor.GuestError
				wait := time.Duration(0)
				if c.retryable {
					wait = time.Second
				}
				if !errors.As(err, &guest) || guest.Retryable != c.retryable || guest.RetryAfter != wait || string(guest.Detail.Data) != "full" {
					t.Errorf("%v, %+v, want retryable: %v", err, guest, c.retryable)
				}
			})
		})
	}
}
