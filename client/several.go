package client

import (
	"context"

	"github.com/greenroom-run/greenroom/actor"
)

// InvokeAll runs several calls of actors of one app as one transaction, in order: all of them
// take effect, or none does. One server must hold all actors; otherwise the error has the kind
// not_atomic, and nothing has run. The idempotency key is that of all calls together; empty: as
// Do has it. Of the requests only the app (of the first), type, ID, method, payload and
// content type count. The replies are in the order of the calls, without versions. An error is
// an [*Error], whose message names the call that failed.
func (c *Client) InvokeAll(ctx context.Context, idempotencyKey string, calls ...Request) ([]Reply, error) {
	if len(calls) == 0 {
		return nil, nil
	}
	list := make([]actor.Call, len(calls))
	for i, r := range calls {
		list[i] = actor.Call{
			Key: actor.Key{Type: r.Type, ID: r.ID}, Method: r.Method,
			Payload: actor.Payload{ContentType: r.ContentType, Data: r.Payload},
		}
	}
	first := calls[0]
	reply, err := c.Do(ctx, Request{
		App: first.App, Type: first.Type, ID: first.ID, Method: actor.MethodAll, Payload: actor.EncodeCalls(list), IdempotencyKey: idempotencyKey,
	})
	if err != nil {
		return nil, err
	}
	payloads, err := actor.DecodePayloads(reply.Payload)
	if err != nil {
		return nil, err
	}
	replies := make([]Reply, len(payloads))
	for i, p := range payloads {
		replies[i] = Reply{Payload: p.Data, ContentType: p.ContentType, Host: reply.Host}
	}
	return replies, nil
}
