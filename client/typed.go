package client

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/greenroom-run/greenroom/actor"
)

// Call invokes a method with in as JSON and returns its reply decoded from JSON.
// A nil in is sent as no payload; an empty reply is Out's zero value. Errors of
// the call are an [*Error].
func Call[Out any](ctx context.Context, c *Client, typ, id, method string, in any) (Out, error) {
	return do[Out](ctx, c, Request{Type: typ, ID: id, Method: method}, in)
}

// Read is [Call] for methods that are declared read-only.
func Read[Out any](ctx context.Context, c *Client, typ, id, method string, in any) (Out, error) {
	return do[Out](ctx, c, Request{Type: typ, ID: id, Method: method, ReadOnly: true}, in)
}

func do[Out any](ctx context.Context, c *Client, req Request, in any) (out Out, err error) {
	if in != nil {
		if req.Payload, err = json.Marshal(in); err != nil {
			return out, fmt.Errorf("client: encode the input of %s.%s: %w", req.Type, req.Method, err)
		}
	}
	reply, err := c.Do(ctx, req)
	if err != nil || len(reply.Payload) == 0 {
		return out, err
	}
	if !actor.IsJSON(reply.ContentType) {
		return out, fmt.Errorf("client: the reply of %s.%s is %s, not JSON; use Invoke and decode it", req.Type, req.Method, reply.ContentType)
	}
	if err := json.Unmarshal(reply.Payload, &out); err != nil {
		return out, fmt.Errorf("client: decode the reply of %s.%s, which took effect: %w", req.Type, req.Method, err)
	}
	return out, nil
}
