package server

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/failure"
)

func TestToken(t *testing.T) {
	f := start(t, func(c *Config) { c.Token = "s3cret" })
	c := client(t, false)
	protected := []string{actorPath(key("a"), "Get"), "/metrics", "/v2.0/x", "/nothing", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"}
	for _, path := range protected {
		for _, header := range []string{"", "Bearer", "Bearer ", "Bearer wrong", "Bearer s3cre", "Bearer s3crets", "Basic s3cret", "s3cret", "Bearer S3CRET"} {
			a := do(t, c, "GET", f.url+path, "", "Authorization", header)
			if a.StatusCode != http.StatusUnauthorized || a.Header.Get("WWW-Authenticate") != "Bearer" || !strings.Contains(a.body, `"unauthenticated"`) {
				t.Errorf("%s with %q: %s %s", path, header, a.Status, a.body)
			}
		}
	}
	if _, ok := f.host.last(); ok {
		t.Error("the host was called")
	}
	for _, header := range []string{"Bearer s3cret", "bearer s3cret", "BEARER s3cret"} {
		if a := do(t, c, "GET", f.url+actorPath(key("a"), "Get"), "", "Authorization", header); a.StatusCode != http.StatusOK {
			t.Errorf("%q: %s", header, a.Status)
		}
	}
	for _, open := range []string{"/healthz", "/readyz"} {
		if a := do(t, c, "GET", f.url+open, ""); a.StatusCode == http.StatusUnauthorized {
			t.Errorf("%s: %s", open, a.Status)
		}
	}
}

// TestTokenOverRPC: refused in the caller's own protocol, with a typed error.
func TestTokenOverRPC(t *testing.T) {
	f := start(t, func(c *Config) { c.Token = "s3cret" })
	for _, p := range protocols() {
		t.Run(p.name, func(t *testing.T) {
			actors := greenroomv1connect.NewActorServiceClient(client(t, p.http2), f.url, p.opts...)
			query := connect.NewRequest(&greenroomv1.QueryRequest{Actor: &greenroomv1.ActorKey{Type: "T", Id: "a"}, Method: "Get"})
			_, err := actors.Query(t.Context(), query)
			wantError(t, err, connect.CodeUnauthenticated, failure.KindUnauthenticated)

			query.Header().Set("Authorization", "Bearer s3cret")
			if _, err := actors.Query(t.Context(), query); err != nil {
				t.Error(err)
			}
			if !p.http2 {
				return
			}
			mods := greenroomv1connect.NewModuleServiceClient(client(t, true), f.url, p.opts...)
			stream := mods.Upload(t.Context())
			_ = stream.Send(nil) // opens the stream; the answer says why it failed
			_, err = stream.Receive()
			wantError(t, err, connect.CodeUnauthenticated, failure.KindUnauthenticated)
		})
	}
}

func TestBrowsersOnLoopback(t *testing.T) {
	path := actorPath(key("a"), "Add")
	type request struct {
		host, origin string
		want         actor.Kind // empty: answered
	}
	tests := []struct {
		name     string
		change   func(*Config)
		requests []request
	}{
		{"by default", nil, []request{
			{"", "", ""},
			{"localhost", "", ""}, {"localhost:1", "", ""}, {"127.0.0.1:1", "", ""}, {"[::1]:1", "", ""}, {"[::1]", "", ""},
			{"localhost:1", "http://localhost:1", ""},
			{"evil.example:1", "", failure.KindHostRefused},
			{"evil.example:1", "http://evil.example:1", failure.KindHostRefused},
			{"localhost.evil.example", "", failure.KindHostRefused},
			{"127.0.0.1.evil.example", "", failure.KindHostRefused},
			{"192.0.2.1", "", failure.KindHostRefused},
			{"", "http://evil.example", failure.KindOriginRefused},
			{"", "null", failure.KindOriginRefused},
			{"localhost:1", "http://localhost:2", failure.KindOriginRefused},
			{"localhost:1", "https://localhost:1", failure.KindOriginRefused},
			{"localhost", "http://", failure.KindOriginRefused},
		}},
		{"with an allowed origin", func(c *Config) { c.AllowedOrigins = []string{"https://App.example"} }, []request{
			{"", "https://app.example", ""},
			{"", "https://app.example.evil", failure.KindOriginRefused},
			{"", "http://app.example", failure.KindOriginRefused},
			{"evil.example", "https://app.example", failure.KindHostRefused},
		}},
		{"with any origin", func(c *Config) { c.AllowedOrigins = []string{"*"} }, []request{
			{"", "https://app.example", ""}, {"evil.example", "", failure.KindHostRefused},
		}},
		{"insecure", func(c *Config) { c.Insecure = true }, []request{
			{"any.example", "", ""}, {"any.example", "http://any.example", ""},
			{"any.example", "http://evil.example", failure.KindOriginRefused},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := start(t, tt.change)
			for _, r := range tt.requests {
				headers := []string{"Content-Type", "text/plain"} // what a page may send without a preflight
				if r.host != "" {
					headers = append(headers, "Host", r.host)
				}
				if r.origin != "" {
					headers = append(headers, "Origin", r.origin)
				}
				a := do(t, client(t, false), "POST", f.url+path, "1", headers...)
				switch {
				case r.want == "" && a.StatusCode != http.StatusOK:
					t.Errorf("host %q, origin %q: %s %s", r.host, r.origin, a.Status, a.body)
				case r.want != "" && (a.StatusCode != http.StatusForbidden || a.failure(t).Kind != string(r.want)):
					t.Errorf("host %q, origin %q: %s %s", r.host, r.origin, a.Status, a.body)
				}
				if _, called := f.host.last(); called != (r.want == "") {
					t.Errorf("host %q, origin %q: called=%v", r.host, r.origin, called)
				}
			}
		})
	}
}

func TestCORS(t *testing.T) {
	const origin = "https://app.example"
	f := start(t, func(c *Config) { c.AllowedOrigins = []string{origin}; c.Token = "t" })
	c := client(t, false)
	for _, path := range []string{greenroomv1connect.ActorServiceInvokeProcedure, actorPath(key("a"), "Add")} {
		for _, method := range []string{"POST", "PUT", "GET"} {
			a := do(t, c, "OPTIONS", f.url+path, "", "Origin", origin, "Access-Control-Request-Method", method,
				"Access-Control-Request-Headers", "authorization,connect-protocol-version,connect-timeout-ms,content-type")
			if a.StatusCode/100 != 2 || a.Header.Get("Access-Control-Allow-Origin") != origin || a.Header.Get("Access-Control-Allow-Headers") == "" {
				t.Errorf("preflight of %s %s: %s %v", method, path, a.Status, a.Header)
			}
		}
	}
	a := do(t, c, "OPTIONS", f.url+actorPath(key("a"), "Add"), "", "Origin", "https://evil.example", "Access-Control-Request-Method", "PUT")
	if a.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("preflight of another origin: %v", a.Header)
	}
	a = do(t, c, "PUT", f.url+actorPath(key("a"), "Add"), "1", "Origin", origin, "Authorization", "Bearer t")
	exposed := a.Header.Get("Access-Control-Expose-Headers")
	if a.StatusCode != http.StatusOK || a.Header.Get("Access-Control-Allow-Origin") != origin || !strings.Contains(exposed, edge.HeaderVersion) {
		t.Errorf("%s %v", a.Status, a.Header)
	}
	// A page must be able to read why it was refused.
	a = do(t, c, "PUT", f.url+actorPath(key("a"), "Add"), "1", "Origin", origin)
	if a.StatusCode != http.StatusUnauthorized || a.Header.Get("Access-Control-Allow-Origin") != origin {
		t.Errorf("%s %v", a.Status, a.Header)
	}
}

// TestPagesThatEmbed: a page that only embeds what it asks for, like an image,
// sends no origin. Its browser says where it comes from.
func TestPagesThatEmbed(t *testing.T) {
	for _, tt := range []struct {
		site, origin string
		allowed      []string
		want         bool
	}{
		{"", "", nil, true}, {"none", "", nil, true}, {"same-origin", "", nil, true},
		{"cross-site", "", nil, false}, {"same-site", "", nil, false}, {"new-site", "", nil, false},
		{"cross-site", "", []string{"https://app.example"}, false},
		{"cross-site", "https://app.example", []string{"https://app.example"}, true},
		{"same-site", "https://app.example", []string{"https://app.example"}, true},
		{"cross-site", "https://evil.example", []string{"https://app.example"}, false},
		{"cross-site", "", []string{"*"}, true},
	} {
		f := start(t, func(c *Config) { c.AllowedOrigins = tt.allowed })
		query := "/greenroom.v1.ActorService/Query?encoding=json&message=" + url.QueryEscape(`{"actor":{"type":"T","id":"a"},"method":"Get"}`)
		for _, path := range []string{actorPath(key("a"), "Get"), query} {
			headers := []string{"Sec-Fetch-Site", tt.site}
			if tt.origin != "" {
				headers = append(headers, "Origin", tt.origin)
			}
			a := do(t, client(t, false), "GET", f.url+path, "", headers...)
			if _, called := f.host.last(); called != tt.want || (a.StatusCode == http.StatusOK) != tt.want {
				t.Errorf("%s %+v: called %v, %s", path, tt, called, a.Status)
			}
		}
		// Whether the server lives is no secret.
		if a := do(t, client(t, false), "GET", f.url+"/healthz", "", "Sec-Fetch-Site", tt.site); a.StatusCode != http.StatusOK {
			t.Errorf("/healthz from %q: %s", tt.site, a.Status)
		}
	}
}

// TestAnswersStayWithTheirOrigin: whatever is answered says that it is not for
// other pages to embed, nor for a browser to take for something else.
func TestAnswersStayWithTheirOrigin(t *testing.T) {
	f := start(t, nil)
	for _, r := range [][2]string{
		{"GET", "/healthz"}, {"GET", "/readyz"}, {"GET", "/metrics"}, {"GET", "/nothing"}, {"GET", actorPath(key("a"), "Get")},
		{"PUT", actorPath(key("a"), "Get")}, {"GET", actorPath(key("a"), "Add")}, {"POST", "/greenroom.v1.ActorService/Query"},
		{"POST", "/greenroom.v1.LogService/Tail"}, {"OPTIONS", "/healthz"},
	} {
		a := do(t, client(t, false), r[0], f.url+r[1], "{}", "Content-Type", "application/json")
		if a.Header.Get("X-Content-Type-Options") != "nosniff" || a.Header.Get("Cross-Origin-Resource-Policy") != "same-origin" {
			t.Errorf("%v: %s %v", r, a.Status, a.Header)
		}
	}
}

// TestPathsHaveOneForm: what only decodes to a path that is served is another.
func TestPathsHaveOneForm(t *testing.T) {
	f := start(t, nil)
	for _, path := range []string{
		"/greenroom.v1.ActorService/Query", "/healthz", "/metrics", "/grpc.health.v1.Health/Check", "/v2.0/actors/default/T/a/method/Get",
	} {
		for at := 1; at < len(path); at++ {
			if strings.HasPrefix(path, edge.ActorsPrefix) && at >= len(edge.ActorsPrefix) {
				break // what follows is the caller's to encode
			}
			encoded := fmt.Sprintf("%s%%%02X%s", path[:at], path[at], path[at+1:])
			a := do(t, client(t, false), "GET", f.url+encoded, "", "Content-Type", "application/json")
			if a.StatusCode != http.StatusNotFound || a.failure(t).Kind != "path_not_found" {
				t.Fatalf("%s: %s %s", encoded, a.Status, a.body)
			}
		}
	}
}
