package main

import (
	"context"
	"encoding/json"
	"fmt"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// fileCall is one call of a file for --all.
type fileCall struct {
	Type    string          `json:"type"`
	ID      string          `json:"id"`
	Method  string          `json:"method"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// callAll makes the calls of a file as one transaction, and prints their replies, one a line.
func callAll(ctx context.Context, c *cli, f callFlags) error {
	if f.query || f.strong {
		return usagef("--query and --strong are for one call; leave them out with --all")
	}
	if f.timeout <= 0 {
		return usagef("--timeout is %s; give a time above 0", f.timeout)
	}
	source := "@" + f.all
	if f.all == "-" {
		source = "-"
	}
	text, err := readPayload(ctx, c, source, actor.ContentTypeJSON)
	if err != nil {
		return err
	}
	var lines []fileCall
	if err := json.Unmarshal(text, &lines); err != nil {
		return &actor.ArgumentError{Field: f.all, Problem: fmt.Sprintf("is no list of calls: %v; write [{\"type\": …, \"id\": …, \"method\": …, \"payload\": …}]", err)}
	}
	msg := &greenroomv1.InvokeAllRequest{App: c.app}
	for _, l := range lines {
		msg.Calls = append(msg.Calls, &greenroomv1.ActorCall{Type: l.Type, Id: l.ID, Method: l.Method, Payload: l.Payload})
	}
	a, err := c.api()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	req := connect.NewRequest(msg)
	if f.idempotencyKey != "" {
		req.Header().Set("Idempotency-Key", f.idempotencyKey)
	}
	resp, err := a.actors.InvokeAll(ctx, req)
	if err != nil {
		if ctx.Err() == context.DeadlineExceeded {
			return &hintedError{err, fmt.Sprintf("the calls had %s; give them longer with --timeout", f.timeout)}
		}
		return err
	}
	for _, r := range resp.Msg.GetReplies() {
		if c.wantsJSON() {
			if err := writeReply(c, replyOfAll{r}, 0); err != nil {
				return err
			}
			continue
		}
		if err := writePayload(c, r.GetPayload(), r.GetContentType()); err != nil {
			return err
		}
	}
	return nil
}

// replyOfAll is one of several replies, which have no versions.
type replyOfAll struct{ *greenroomv1.CallReply }

func (replyOfAll) GetVersion() uint64 { return 0 }
