package dapr

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/inbox"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/failure"
)

// Messages stores messages to actors.
type Messages interface {
	// Send stores a message from outside, with an idempotency key once: repeated reports
	// whether an earlier call stored it.
	Send(ctx context.Context, r *inbox.Request, idempotencyKey string) (id actor.ReminderID, repeated bool, err error)
}

// serveSend is the plain HTTP form of ActorService.Send, for one message:
//
//	POST|PUT /v2.0/actors/APP/TYPE/ID/send/METHOD[?delay=DURATION|?at=TIME]
//
// The body is the payload. The answer, 202, has the ID: {"id": …, "repeated": …}.
func (a *Actors) serveSend(w http.ResponseWriter, r *http.Request, inv *actor.Invocation) error {
	inv.ID, inv.Token, inv.Trace = edge.RequestID(r.Context()), edge.CallerName(r.Context()), edge.TraceOf(r.Context())
	key, method, err := parsePath(r.URL.EscapedPath(), resourceSend)
	if err == nil {
		err = actor.ValidateName("method", method)
	}
	if inv.Key, inv.Method = key, method; err != nil {
		return err
	}
	if err := edge.ExchangeOf(r.Context()).ForApp(key.App); err != nil {
		return err
	}
	if a.Messages == nil {
		return &failure.Error{Kind: failure.KindNotImplemented, Text: "this server has no messages"}
	}
	if r.Method != http.MethodPut && r.Method != http.MethodPost {
		w.Header().Set("Allow", "POST, PUT")
		return &failure.Error{Kind: failure.KindMethodRefused, Text: "messages are sent with POST or PUT"}
	}
	m := inbox.Request{To: key, Method: method}
	if m.At, m.After, err = dueOf(r); err != nil {
		return err
	}
	idempotency, err := edge.IdempotencyKey(r.Header)
	if err != nil {
		return err
	}
	m.Payload.ContentType = r.Header.Get("Content-Type")
	if m.Payload.Data, err = a.readPayload(r); err != nil {
		return err
	}
	ctx, cancel, err := withTimeout(r)
	if err != nil {
		return err
	}
	defer cancel()
	id, repeated, err := a.Messages.Send(ctx, &m, idempotency)
	if err != nil {
		return err
	}
	answer, err := json.Marshal(struct {
		ID       string `json:"id"`
		Repeated bool   `json:"repeated,omitempty"`
	}{id.String(), repeated})
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", actor.ContentTypeJSON)
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusAccepted)
	_, _ = w.Write(append(answer, '\n')) // fails only with the connection; the message is stored
	return nil
}

// dueOf returns when the message of a request is due: zero for at once.
func dueOf(r *http.Request) (at time.Time, after time.Duration, err error) {
	query := r.URL.Query()
	delay, when := query.Get("delay"), query.Get("at")
	switch {
	case delay != "" && when != "":
		err = &actor.ArgumentError{Field: "query", Problem: "has both delay and at; give one of them"}
	case delay != "":
		after, err = parseDuration("delay", delay)
	case when != "":
		if at, err = time.Parse(time.RFC3339, when); err != nil {
			err = &actor.ArgumentError{Field: "at", Problem: "is no time; give one such as 2026-12-24T18:00:00Z"}
		}
	}
	return at, after, err
}
