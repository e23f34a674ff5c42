package dapr

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/events"
	"github.com/greenroom-run/greenroom/server/failure"
)

// serveEvents is the plain HTTP form of ActorService.Subscribe, for browsers: a stream of
// server-sent events.
//
//	GET /v2.0/actors/APP/TYPE/ID/events[?from=start|now|POSITION]
//
// The id of each event is its position, which a browser that connects again sends as
// Last-Event-ID; event is its name, and data its payload: JSON on one line, a text, or base64 for
// what is neither, as its content type says. Events of streaming rpcs are in the JSON form.
func (a *Actors) serveEvents(w http.ResponseWriter, r *http.Request) {
	var inv actor.Invocation
	inv.ID, inv.Token, inv.Trace = edge.RequestID(r.Context()), edge.CallerName(r.Context()), edge.TraceOf(r.Context())
	if err := a.streamEvents(w, r, &inv); err != nil {
		a.refuseActor(w, r, inv, err)
	}
}

func (a *Actors) streamEvents(w http.ResponseWriter, r *http.Request, inv *actor.Invocation) error {
	key, _, err := parsePath(r.URL.EscapedPath()+"/-", strings.TrimPrefix(edge.EventsSuffix, "/"))
	if inv.Key = key; err != nil {
		return err
	}
	if err := edge.ExchangeOf(r.Context()).ForApp(key.App); err != nil {
		return err
	}
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", "GET")
		return &failure.Error{Kind: failure.KindMethodRefused, Text: "events are read with GET"}
	}
	after, err := positionOf(r)
	if err != nil {
		return err
	}
	s := eventStream{w: w, out: http.NewResponseController(w)}
	deliver := func(list []actor.Event) error {
		return a.Host.EventsInJSON(r.Context(), key, list, func(part []actor.Event) error {
			defer edge.ExchangeOf(r.Context()).ReleaseBody() // what the JSON form took
			return s.deliver(part)
		})
	}
	err = a.Events.Subscribe(r.Context(), key, after, events.Subscription{Waits: s.idle, Began: s.began, Deliver: deliver, Idle: s.idle})
	if s.open {
		return nil // the client connects again, and learns then what the matter is
	}
	return err
}

// eventStream is a stream of server-sent events.
type eventStream struct {
	w    http.ResponseWriter
	out  *http.ResponseController
	open bool // the headers are sent
}

func (s *eventStream) began(at actor.EventPosition) error {
	return s.send(fmt.Appendf(nil, "retry: %d\nid: %s\n\n", retryAfter.Milliseconds(), at))
}

func (s *eventStream) deliver(list []actor.Event) error {
	var b bytes.Buffer
	for i := range list {
		appendEvent(&b, &list[i])
	}
	return s.send(b.Bytes())
}

// idle sends a comment, also before the subscription begins.
func (s *eventStream) idle() error { return s.send([]byte(":\n\n")) }

func (s *eventStream) send(data []byte) error {
	if !s.open {
		s.open = true
		h := s.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Accel-Buffering", "no") // nginx would hold events back
	}
	if _, err := s.w.Write(data); err != nil {
		return err
	}
	return s.out.Flush()
}

// retryAfter is when a browser connects again.
const retryAfter = time.Second

// positionOf returns where a request wants its events from; nil: what is published from now on.
func positionOf(r *http.Request) (*actor.EventPosition, error) {
	for name := range r.URL.Query() {
		if name != "from" { // a misspelt one would give only what is published from now on
			return nil, &actor.ArgumentError{Field: "query", Problem: fmt.Sprintf("has the unknown parameter %q; known is from", name)}
		}
	}
	field, from := "Last-Event-ID", r.Header.Get("Last-Event-ID")
	if from == "" {
		field, from = "from", r.URL.Query().Get("from")
	}
	return events.ParseFrom(field, from)
}

// appendEvent writes an event. No name has a line break, and JSON needs none.
func appendEvent(b *bytes.Buffer, e *actor.Event) {
	fmt.Fprintf(b, "id: %s\nevent: %s\n", e.Position, e.Name)
	data := e.Payload.Data
	switch {
	case actor.IsJSON(e.Payload.ContentType):
		var line bytes.Buffer
		if json.Compact(&line, data) == nil {
			data = line.Bytes()
		}
	case !strings.HasPrefix(e.Payload.ContentType, "text/"):
		data = []byte(base64.StdEncoding.EncodeToString(data))
	}
	for line := range bytes.Lines(bytes.ReplaceAll(data, []byte("\r"), []byte("\n"))) {
		fmt.Fprintf(b, "data: %s\n", bytes.TrimSuffix(line, []byte("\n")))
	}
	if len(data) == 0 {
		b.WriteString("data:\n")
	}
	b.WriteString("\n")
}
