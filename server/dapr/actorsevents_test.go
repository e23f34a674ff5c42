package dapr

import (
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
