package dapr

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/inbox"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/events"
	"github.com/greenroom-run/greenroom/server/failure"
	"github.com/greenroom-run/greenroom/server/reminders"
)

// Actors serves calls of actors over plain HTTP.
type Actors struct {
	edge *edge.Edge
	Config
}

// Config is what the plain HTTP form calls.
type Config struct {
	Host      Host             // runs turns
	Timers    Timers           // nil: requests get 501
	Reminders Reminders        // nil: requests get 501
	Setter    reminders.Setter // sets and deletes Reminders
	Messages  Messages         // nil: requests get 501
	Events    *events.Subscriptions
}

// Host runs turns. [*transcode.Host] does.
type Host interface {
	Invoke(ctx context.Context, inv actor.Invocation) (actor.Reply, error)
	// Prepare puts a message of a client into the form that its method takes.
	Prepare(ctx context.Context, r *inbox.Request) error
	// EventsInJSON sends events, those of streaming rpcs in the JSON form.
	EventsInJSON(ctx context.Context, key actor.Key, list []actor.Event, send func([]actor.Event) error) error
}

// Messages stores messages to actors.
type Messages interface {
	// Send stores a message from outside, with an idempotency key once: repeated reports
	// whether an earlier call stored it.
	Send(ctx context.Context, r *inbox.Request, idempotencyKey string) (id actor.ReminderID, repeated bool, err error)
}

// New adds the plain HTTP form to an edge.
func New(e *edge.Edge, conf Config) {
	a := &Actors{e, conf}
	e.HandleActors("/v2.0/", "/v2.0/actors", a.serveActor)
	e.HandleEvents("/v2.0/actors/events", a.serveEvents)
}

// serveActor serves everything below an actor's path.
func (a *Actors) serveActor(w http.ResponseWriter, r *http.Request) {
	var inv actor.Invocation // what is known of it
	var err error
	switch resource := resourceOf(r.URL.EscapedPath()); {
	case asksForSeveral(r.URL.EscapedPath()):
		err = a.serveSeveral(w, r, &inv)
	case resource == resourceSend:
		err = a.serveSend(w, r, &inv)
	case resource == resourceReminders, resource == resourceTimers:
		err = a.serveScheduled(w, r, resource, &inv)
	default:
		err = a.serveMethod(w, r, &inv)
	}
	if err != nil {
		a.refuseActor(w, r, inv, err)
	}
}

// serveMethod is the plain HTTP form of the Dapr Actors V2 proposal:
//
//	PUT|POST|GET /v2.0/actors/APP/TYPE/ID/method/METHOD
//
// The body is the payload. GET is for read-only methods; its payload, if the
// method takes one, is the query parameter "payload".
func (a *Actors) serveMethod(w http.ResponseWriter, r *http.Request, inv *actor.Invocation) (err error) {
	if *inv, err = a.invocationOf(r); err != nil {
		return err
	}
	reply, err := a.invoke(w, r, *inv)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set(edge.HeaderVersion, strconv.FormatUint(reply.Version, 10))
	edge.SetFuel(h, reply)
	h.Set("Content-Type", safeMediaType(reply.Payload.ContentType))
	h.Set("Content-Length", strconv.Itoa(len(reply.Payload.Data)))
	h.Set("Cache-Control", "no-store")
	// A guest chooses the content type: a page of its making must not run
	// scripts in this server's name.
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	_, _ = w.Write(reply.Payload.Data) // fails only with the connection; the turn is committed
	return nil
}

// invoke makes a call within the request's timeout, and names the host that answered.
func (a *Actors) invoke(w http.ResponseWriter, r *http.Request, inv actor.Invocation) (actor.Reply, error) {
	ctx, cancel, err := withTimeout(r)
	if err != nil {
		return actor.Reply{}, err
	}
	defer cancel()
	reply, err := a.Host.Invoke(ctx, inv)
	edge.SetHost(w.Header(), reply)
	return reply, err
}

// serveSeveral is the plain HTTP form of ActorService.InvokeAll:
//
//	POST|PUT /v2.0/actors/APP
//
// The body is {"calls": [{"type": …, "id": …, "method": …, "data": JSON}]}. The answer has the
// replies in their order: {"replies": [JSON]}, a text for what is not JSON, null for nothing.
func (a *Actors) serveSeveral(w http.ResponseWriter, r *http.Request, inv *actor.Invocation) error {
	inv.ID, inv.Token, inv.Trace = edge.RequestID(r.Context()), edge.CallerName(r.Context()), edge.TraceOf(r.Context())
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
	calls, err := actor.ParseCalls(app, "body", body)
	if err != nil {
		return err
	}
	inv.Method, inv.Payload.Data = actor.MethodAll, actor.EncodeCalls(calls)
	if calls, err = actor.DecodeCalls(app, inv.Payload.Data); err != nil {
		return err
	}
	inv.Key = calls[0].Key
	reply, err := a.invoke(w, r, *inv)
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
	if err := a.Host.Prepare(ctx, &m); err != nil {
		return err
	}
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

// scheduledForm is the form of what an actor has by name to run later: of its reminders,
// or of its timers.
type scheduledForm interface {
	validateName(name string) error
	// get returns what JSON is written from.
	get(ctx context.Context, name actor.ReminderName) (any, error)
	put(ctx context.Context, name actor.ReminderName, body []byte) error
	remove(ctx context.Context, name actor.ReminderName) error
}

// serveScheduled is the plain HTTP form of reminders and of timers, which is that of Dapr:
//
//	POST|PUT|GET|DELETE /v2.0/actors/APP/TYPE/ID/reminders/NAME
//	GET                 /v2.0/actors/APP/TYPE/ID/reminders
//	POST|PUT|GET|DELETE /v2.0/actors/APP/TYPE/ID/timers/NAME
//
// It sets the key of inv as soon as it has read it.
func (a *Actors) serveScheduled(w http.ResponseWriter, r *http.Request, resource string, inv *actor.Invocation) error {
	key, name, err := parsePath(r.URL.EscapedPath(), resource)
	if inv.Key = key; err != nil {
		return err
	}
	if err := edge.ExchangeOf(r.Context()).ForApp(key.App); err != nil {
		return err
	}
	var form scheduledForm = timersForm{a.Timers}
	absent := a.Timers == nil
	if resource == resourceReminders {
		form, absent = remindersForm{a.Reminders, a.Setter}, a.Reminders == nil
	}
	if absent {
		return &failure.Error{Kind: failure.KindNotImplemented, Text: "this server has no " + resource}
	}
	list := resource == resourceReminders && name == "" && r.Method == http.MethodGet
	if !list {
		if err := form.validateName(name); err != nil {
			return err
		}
	}
	ctx, cancel, err := withTimeout(r)
	if err != nil {
		return err
	}
	defer cancel()
	named := actor.ReminderName{Key: key, Name: name}
	var found any
	switch {
	case list:
		named.Name = r.URL.Query().Get("after")
		found, err = remindersForm{a.Reminders, a.Setter}.list(ctx, named)
	case r.Method == http.MethodGet:
		found, err = form.get(ctx, named)
	case r.Method == http.MethodPost || r.Method == http.MethodPut:
		var body []byte
		switch body, err = a.readPayload(r); {
		case err != nil:
		case len(body) > reminders.MaxBody:
			err = edge.ErrMessageTooLarge(reminders.MaxBody)
		default:
			err = form.put(ctx, named, body)
		}
	case r.Method == http.MethodDelete:
		err = form.remove(ctx, named)
	default:
		w.Header().Set("Allow", "DELETE, GET, POST, PUT")
		err = &failure.Error{Kind: failure.KindMethodRefused, Text: resource + " are set with POST or PUT, read with GET, and removed with DELETE"}
	}
	switch {
	case err != nil:
		return err
	case found == nil:
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	body, _ := json.Marshal(found) // strings and JSON that was checked
	h := w.Header()
	h.Set("Content-Type", actor.ContentTypeJSON)
	h.Set("Content-Length", strconv.Itoa(len(body)+1))
	h.Set("Cache-Control", "no-store")
	_, _ = w.Write(append(body, '\n')) // fails only with the connection
	return nil
}

// invocationOf reads everything of a request but its deadline. With an error,
// the invocation has what is known by then.
func (a *Actors) invocationOf(r *http.Request) (actor.Invocation, error) {
	inv := actor.Invocation{ID: edge.RequestID(r.Context()), Token: edge.CallerName(r.Context()), Trace: edge.TraceOf(r.Context())}
	var err error
	if inv.Key, inv.Method, err = ParseActorPath(r.URL.EscapedPath()); err != nil {
		return inv, err
	}
	if err := edge.ExchangeOf(r.Context()).ForApp(inv.Key.App); err != nil {
		return inv, err
	}
	if inv.Consistency, err = edge.Consistency(r.Header); err != nil {
		return inv, err
	}
	inv.Payload.ContentType = r.Header.Get("Content-Type")
	switch r.Method {
	case http.MethodGet:
		inv.ReadOnly = true
		inv.Payload.Data, err = queryPayload(r.URL.RawQuery)
	case http.MethodPut, http.MethodPost:
		if inv.IdempotencyKey, err = edge.IdempotencyKey(r.Header); err != nil {
			return inv, err
		}
		inv.Payload.Data, err = a.readPayload(r)
	default:
		err = &failure.Error{Kind: failure.KindMethodRefused, Text: "actors are called with PUT, POST or, for read-only methods, GET"}
	}
	return inv, err
}

func queryPayload(rawQuery string) ([]byte, error) {
	query, err := url.ParseQuery(rawQuery)
	if err != nil {
		return nil, &actor.ArgumentError{Field: "query string", Problem: "is not percent-encoded: " + err.Error()}
	}
	switch values := query["payload"]; len(values) {
	case 0:
		return nil, nil
	case 1:
		return []byte(values[0]), nil
	default:
		return nil, &actor.ArgumentError{Field: "query parameter payload", Problem: "is given more than once; give one"}
	}
}

func (a *Actors) readPayload(r *http.Request) ([]byte, error) {
	if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return nil, &actor.ArgumentError{Field: "Content-Encoding", Problem: "is " + strconv.Quote(enc) + "; send the payload as it is"}
	}
	if r.ContentLength > a.edge.Conf.MaxPayloadBytes {
		return nil, edge.ErrPayloadTooLarge(a.edge.Conf.MaxPayloadBytes)
	}
	// The claim is believed up to what costs nothing. One byte more than it, to
	// find the end without growing.
	data := make([]byte, 0, min(max(r.ContentLength, 511), 64<<10)+1)
	for {
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		n, err := r.Body.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case err == nil:
		case err == io.EOF:
			return data, nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			return nil, &actor.ArgumentError{Field: "body", Problem: "ended before its Content-Length; send all of it"}
		default:
			return nil, err
		}
	}
}

// withTimeout applies the deadline that the request asks for.
func withTimeout(r *http.Request) (context.Context, context.CancelFunc, error) {
	v := r.Header.Get(edge.HeaderTimeout)
	if v == "" {
		return r.Context(), func() {}, nil
	}
	ms, err := strconv.ParseUint(v, 10, 64)
	if err != nil || len(v) > 10 {
		return nil, nil, &actor.ArgumentError{Field: edge.HeaderTimeout, Problem: "is " + strconv.Quote(v) + "; write milliseconds in at most 10 digits"}
	}
	ctx, cancel := context.WithTimeout(r.Context(), time.Duration(ms)*time.Millisecond)
	return ctx, cancel, nil
}

// safeMediaType returns a media type as a header may carry it.
func safeMediaType(s string) string {
	if s == "" || s == actor.ContentTypeJSON {
		return actor.ContentTypeJSON
	}
	if mediaType, params, err := mime.ParseMediaType(s); err == nil {
		if clean := mime.FormatMediaType(mediaType, params); clean != "" {
			return clean
		}
	}
	return "application/octet-stream"
}

// refuseActor answers an error of the plain HTTP form.
func (a *Actors) refuseActor(w http.ResponseWriter, r *http.Request, inv actor.Invocation, err error) {
	f := a.edge.FailTurn(r.Context(), edge.RequestID(r.Context()), err, &inv)
	if f.Status == http.StatusMethodNotAllowed && w.Header().Get("Allow") == "" {
		allow := "GET, POST, PUT"
		if r.Method == http.MethodGet {
			allow = "POST, PUT" // the method exists, but is not read-only
		}
		w.Header().Set("Allow", allow)
	}
	if r.ProtoMajor == 1 && (f.Status == http.StatusRequestEntityTooLarge || f.Status == http.StatusRequestTimeout) {
		w.Header().Set("Connection", "close") // rather than reading the rest
	}
	failure.WriteHTTP(w, f, edge.RequestID(r.Context()))
}
