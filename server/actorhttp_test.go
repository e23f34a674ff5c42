package server

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/failure"
)

func TestPlainHTTP(t *testing.T) {
	f := start(t, nil)
	for _, http2 := range []bool{false, true} {
		c := client(t, http2)
		for _, method := range []string{"PUT", "POST"} {
			a := do(t, c, method, f.url+actorPath(key("a"), "Add"), `{"by":2}`, "Content-Type", "application/x")
			if a.StatusCode != http.StatusOK || a.body != `{"by":2}` || a.Header.Get("Content-Type") != "application/x" {
				t.Errorf("%s: %s %s %v", method, a.Status, a.body, a.Header)
			}
			if a.Header.Get(edge.HeaderVersion) != "1" || a.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: %v", method, a.Header)
			}
			inv, _ := f.host.last()
			if inv.Key != key("a") || inv.Method != "Add" || inv.ReadOnly || inv.Payload.ContentType != "application/x" || inv.ID != a.Header.Get(edge.HeaderRequestID) {
				t.Errorf("%s: the host got %+v", method, inv)
			}
		}

		a := do(t, c, "GET", f.url+actorPath(key("a"), "Get")+"?payload=%7B%22a%22%3A%22%26%22%7D&trace=1", "", edge.HeaderConsistency, "strong")
		if a.StatusCode != http.StatusOK || a.body != `{"a":"&"}` || a.Header.Get("Content-Type") != "application/json" {
			t.Errorf("GET: %s %s", a.Status, a.body)
		}
		if inv, _ := f.host.last(); !inv.ReadOnly || inv.Consistency != actor.ConsistencyStrong {
			t.Errorf("GET: the host got %+v", inv)
		}
	}
}

// TestPlainHTTPKeepsIDs: an ID is what its segment decodes to, and nothing else.
func TestPlainHTTPKeepsIDs(t *testing.T) {
	f := start(t, nil)
	for _, http2 := range []bool{false, true} {
		c := client(t, http2)
		c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		for _, id := range oddIDs {
			a := do(t, c, "PUT", f.url+actorPath(key(id), "Add"), "1")
			inv, called := f.host.last()
			if a.StatusCode != http.StatusOK || !called || inv.Key.ID != id {
				t.Errorf("http2=%v %q: %s, the host got %q", http2, id, a.Status, inv.Key.ID)
			}
		}
	}
}

func TestPlainHTTPRefuses(t *testing.T) {
	f := start(t, nil)
	c := client(t, false)
	base := f.url + edge.ActorsPrefix + "default/Counter/"
	tests := []struct {
		name, method, url, body string
		headers                 []string
		status                  int
		kind                    string
		allow                   string
	}{
		{"GET of a writing method", "GET", base + "a/method/Add", "", nil, 405, "not_read_only", "POST, PUT"},
		{"DELETE", "DELETE", base + "a/method/Add", "", nil, 405, "http_method_refused", "GET, POST, PUT"},
		{"PATCH", "PATCH", base + "a/method/Add", "", nil, 405, "http_method_refused", "GET, POST, PUT"},
		{"OPTIONS", "OPTIONS", base + "a/method/Add", "", nil, 405, "http_method_refused", "GET, POST, PUT"},
		{"slash in ID", "PUT", base + "a/b/method/Add", "1", nil, 404, "path_not_found", ""},
		{"empty ID", "PUT", base + "/method/Add", "1", nil, 400, "invalid_argument", ""},
		{"control character", "PUT", base + "%07/method/Add", "1", nil, 400, "invalid_argument", ""},
		{"long ID", "PUT", base + strings.Repeat("a", 513) + "/method/Add", "1", nil, 400, "invalid_argument", ""},
		{"elsewhere", "GET", f.url + "/v2.0/other", "", nil, 404, "path_not_found", ""},
		{"nowhere", "GET", f.url + "/", "", nil, 404, "path_not_found", ""},
		{"consistency", "GET", base + "a/method/Get", "", []string{edge.HeaderConsistency, "weak"}, 400, "invalid_argument", ""},
		{"two payloads", "GET", base + "a/method/Get?payload=1&payload=2", "", nil, 400, "invalid_argument", ""},
		{"query string", "GET", base + "a/method/Get?payload=%", "", nil, 400, "invalid_argument", ""},
		{"compressed", "PUT", base + "a/method/Add", "1", []string{"Content-Encoding", "gzip"}, 400, "invalid_argument", ""},
		{"timeout", "PUT", base + "a/method/Add", "1", []string{edge.HeaderTimeout, "1s"}, 400, "invalid_argument", ""},
		{"long timeout", "PUT", base + "a/method/Add", "1", []string{edge.HeaderTimeout, "12345678901"}, 400, "invalid_argument", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := do(t, c, tt.method, tt.url, tt.body, tt.headers...)
			if w := a.failure(t); a.StatusCode != tt.status || w.Kind != tt.kind || a.Header.Get("Allow") != tt.allow {
				t.Errorf("%s, Allow %q: %s", a.Status, a.Header.Get("Allow"), a.body)
			}
		})
	}
	if inv, ok := f.host.last(); ok && inv.Method != "Add" {
		t.Errorf("the host was called: %+v", inv)
	}
}

func TestPlainHTTPErrors(t *testing.T) {
	f := start(t, nil)
	c := client(t, false)
	url := f.url + actorPath(actor.Key{App: "shop", Type: "Cart", ID: "ann"}, "AddItem")

	f.host.fails(&actor.GuestError{Status: 9, Code: "out_of_stock", Message: "only 2 left", Detail: actor.Payload{Data: []byte(`{"left":2}`)}})
	a := do(t, c, "PUT", url, "1")
	want := `{"code":"failed_precondition","message":"only 2 left","kind":"guest_error","retryable":false,` +
		`"app":"shop","actorType":"Cart","actorId":"ann","method":"AddItem",` +
		`"guest":{"code":"out_of_stock","detail":{"left":2}},"requestId":"` + a.Header.Get(edge.HeaderRequestID) + `"}` + "\n"
	if a.StatusCode != http.StatusBadRequest || a.body != want {
		t.Errorf("%s\n%s\nwant\n%s", a.Status, a.body, want)
	}

	f.host.fails(&actor.GuestError{Status: 14, Message: "x", Retryable: true, Detail: actor.Payload{ContentType: "image/png", Data: []byte{1}}})
	a = do(t, c, "PUT", url, "1")
	if a.StatusCode != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" || !strings.Contains(a.body, `"detail":"AQ=="`) {
		t.Errorf("%s %v %s", a.Status, a.Header, a.body)
	}

	for _, c2 := range []struct {
		after   time.Duration
		seconds string
		ms      uint32
	}{{0, "1", 0}, {time.Millisecond, "1", 1}, {2 * time.Second, "2", 2000}, {2001 * time.Millisecond, "3", 2001}, {1 << 62, "4294968", math.MaxUint32}} {
		f.host.fails(&actor.GuestError{Status: 14, Message: "x", Retryable: true, RetryAfter: c2.after})
		a := do(t, c, "PUT", url, "1")
		if got := a.failure(t); a.Header.Get("Retry-After") != c2.seconds || got.RetryAfterMillis != c2.ms {
			t.Errorf("after %s: Retry-After %q, %s", c2.after, a.Header.Get("Retry-After"), a.body)
		}
		rpc := failure.Of(&actor.GuestError{Status: 14, Retryable: true, RetryAfter: c2.after}, false).RPC()
		if got := rpc.Meta().Get("Retry-After"); got != c2.seconds {
			t.Errorf("after %s: Connect's Retry-After %q", c2.after, got)
		}
	}

	for _, cond := range actor.Conditions() {
		f.host.fails(cond)
		a := do(t, c, "PUT", url, "1")
		w := a.failure(t)
		if a.StatusCode != failure.AnswerOf(cond.Kind()).Status || w.Kind != string(cond.Kind()) || w.Retryable != cond.Retryable() || w.ActorID != "ann" {
			t.Errorf("%s: %s %s", cond.Kind(), a.Status, a.body)
		}
		if (a.Header.Get("Retry-After") != "") != cond.Retryable() {
			t.Errorf("%s: Retry-After %q", cond.Kind(), a.Header.Get("Retry-After"))
		}
	}
}

func TestPlainHTTPDeadline(t *testing.T) {
	f := start(t, nil)
	f.host.does(func(ctx context.Context, _ actor.Invocation) (actor.Reply, error) {
		if d, ok := ctx.Deadline(); !ok || time.Until(d) > time.Hour {
			t.Errorf("deadline %v %v", d, ok)
		}
		if err := actor.CallersDeadline(ctx); !strings.Contains(err.Error(), "1h0m0s, by "+edge.HeaderTimeout) {
			t.Errorf("what a call would be told whose time is up: %v", err)
		}
		return actor.Reply{}, nil
	})
	a := do(t, client(t, false), "PUT", f.url+actorPath(key("a"), "M"), "1", edge.HeaderTimeout, strconv.Itoa(3600_000))
	if a.StatusCode != http.StatusOK {
		t.Error(a.Status)
	}
	f.host.blocks()
	a = do(t, client(t, false), "PUT", f.url+actorPath(key("a"), "M"), "1", edge.HeaderTimeout, "1")
	if w := a.failure(t); a.StatusCode != http.StatusGatewayTimeout || w.Kind != "deadline" {
		t.Errorf("%s %s", a.Status, a.body)
	}
}

// TestContentTypesOfGuests: whatever a guest says, the header stays one header,
// and a browser runs nothing.
func TestContentTypesOfGuests(t *testing.T) {
	f := start(t, nil)
	for said, want := range map[string]string{
		"":                         "application/json",
		"text/html; charset=utf-8": "text/html; charset=utf-8",
		"a/b\r\nSet-Cookie: x=y":   "application/octet-stream",
		"nonsense; =":              "application/octet-stream",
		"\x00":                     "application/octet-stream",
	} {
		f.host.does(func(context.Context, actor.Invocation) (actor.Reply, error) {
			return actor.Reply{Payload: actor.Payload{ContentType: said, Data: []byte("<script>")}}, nil
		})
		a := do(t, client(t, false), "PUT", f.url+actorPath(key("a"), "M"), "1")
		if got := a.Header.Get("Content-Type"); got != want {
			t.Errorf("%q became %q", said, got)
		}
		if a.Header.Get("Set-Cookie") != "" || a.Header.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(a.Header.Get("Content-Security-Policy"), "sandbox") {
			t.Errorf("%q: headers %v", said, a.Header)
		}
	}
}
