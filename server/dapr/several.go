package dapr

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/failure"
)

// severalCalls is the body of a request for several calls.
type severalCalls struct {
	Calls []struct {
		Type   string          `json:"type"`
		ID     string          `json:"id"`
		Method string          `json:"method"`
		Data   json.RawMessage `json:"data"`
	} `json:"calls"`
}

// asksForSeveral reports whether a path has an app alone.
func asksForSeveral(escaped string) bool {
	app, ok := strings.CutPrefix(escaped, edge.ActorsPrefix)
	return ok && app != "" && !strings.Contains(app, "/")
}

// serveSeveral is the plain HTTP form of ActorService.InvokeAll:
//
//	POST|PUT /v2.0/actors/APP
//
// The body is {"calls": [{"type": …, "id": …, "method": …, "data": JSON}]}. The answer has the
// replies in their order: {"replies": [JSON]}, a text for what is not JSON, null for nothing.
func (a *Actors) serveSeveral(w http.ResponseWriter, r *http.Request, inv *actor.Invocation) error {
	inv.ID, inv.Caller, inv.Trace = edge.RequestID(r.Context()), edge.CallerName(r.Context()), edge.TraceOf(r.Context())
	app, err := url.PathUnescape(strings.TrimPrefix(r.URL.EscapedPath(), edge.ActorsPrefix))
	if err == nil {
		err = actor.ValidateName("app", app)
	}
	if err != nil {
		return err
	}
	if err := edge.ExchangeOf(r.Context()).ForApp(app); err != nil {
		return err
	}
	if r.Method != http.MethodPut && r.Method != http.MethodPost {
		w.Header().Set("Allow", "POST, PUT")
		return &failure.Error{Kind: failure.KindMethodRefused, Text: "several actors are called with POST or PUT"}
	}
	if inv.IdempotencyKey, err = edge.IdempotencyKey(r.Header); err != nil {
		return err
	}
	body, err := a.readPayload(r)
	if err != nil {
		return err
	}
	var asked severalCalls
	if err := json.Unmarshal(body, &asked); err != nil {
		return &actor.ArgumentError{Field: "body", Problem: "is not the JSON of calls: " + err.Error()}
	}
	var calls []actor.Call
	for _, c := range asked.Calls {
		calls = append(calls, actor.Call{Key: actor.Key{App: app, Type: c.Type, ID: c.ID}, Method: c.Method, Payload: actor.Payload{Data: c.Data}})
	}
	inv.Method, inv.Payload.Data = actor.MethodAll, actor.EncodeCalls(calls)
	if calls, err = actor.DecodeCalls(app, inv.Payload.Data); err != nil {
		return err
	}
	inv.Key = calls[0].Key
	ctx, cancel, err := withTimeout(r)
	if err != nil {
		return err
	}
	defer cancel()
	reply, err := a.Host.Invoke(ctx, *inv)
	edge.SetHost(w.Header(), reply)
	if err != nil {
		return err
	}
	payloads, err := actor.DecodePayloads(reply.Payload.Data)
	if err != nil {
		return err
	}
	replies := make([]any, len(payloads))
	for i, p := range payloads {
		switch {
		case len(p.Data) == 0:
		case actor.IsJSON(p.ContentType) && json.Valid(p.Data):
			replies[i] = json.RawMessage(p.Data)
		default:
			replies[i] = string(p.Data)
		}
	}
	answer, err := json.Marshal(map[string]any{"replies": replies})
	if err != nil {
		return err
	}
	h := w.Header()
	edge.SetFuel(h, reply)
	h.Set("Content-Type", actor.ContentTypeJSON)
	h.Set("Content-Length", strconv.Itoa(len(answer)))
	h.Set("Cache-Control", "no-store")
	_, _ = w.Write(answer) // fails only with the connection; the calls are committed
	return nil
}
