package dapr

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/actor"
)

// TestPositionOf: what a request of events may ask for, and what the answer to another one names.
func TestPositionOf(t *testing.T) {
	at := actor.EventPosition{Version: 0x1f, Index: 2}
	for _, tc := range []struct{ query, last, want, says string }{
		{want: "now"},
		{query: "from=now", want: "now"},
		{query: "from=start", want: actor.EventPosition{}.String()},
		{query: "from=" + at.String(), want: at.String()},
		{query: "from=start", last: at.String(), want: at.String()},
		{query: "from=abc", says: `from is "abc"; give the position of an event as it was received, or start, or now`},
		{last: "abc", says: `Last-Event-ID is "abc"`},
		{query: "form=start", says: `query has the unknown parameter "form"; known is from`},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?"+tc.query, nil)
		if tc.last != "" {
			r.Header.Set("Last-Event-ID", tc.last)
		}
		got, err := positionOf(r)
		text := "now"
		if got != nil {
			text = got.String()
		}
		if tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) || tc.says == "" && (err != nil || text != tc.want) {
			t.Errorf("%s %s: %s, %v", tc.query, tc.last, text, err)
		}
	}
}

// TestEventStream: a stream of server-sent events has its headers and a comment before its subscription
// begins, if that takes long, and then where it begins and the events.
func TestEventStream(t *testing.T) {
	const began, idle, event = "retry: 1000\nid: 1f-2\n\n", ":\n\n", "id: 20-0\nevent: paid\ndata: 7\n\n"
	for _, waits := range []bool{false, true} {
		w, want := httptest.NewRecorder(), began+event+idle
		s := eventStream{w: w, out: http.NewResponseController(w)}
		if waits {
			want = idle + want
			if err := s.idle(); err != nil || !w.Flushed {
				t.Errorf("a comment before the begin: flushed %v, %v", w.Flushed, err)
			}
		}
		list := []actor.Event{{Position: actor.EventPosition{Version: 0x20}, Name: "paid", Payload: actor.Payload{ContentType: actor.ContentTypeJSON, Data: []byte("7")}}}
		if err := errors.Join(s.began(actor.EventPosition{Version: 0x1f, Index: 2}), s.deliver(list), s.idle()); err != nil {
			t.Error(err)
		}
		if got := w.Body.String(); got != want || w.Header().Get("Content-Type") != "text/event-stream" || !s.open {
			t.Errorf("sent %q with %v, want %q", got, w.Header(), want)
		}
	}
}
