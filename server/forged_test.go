package server

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// TestForgedPageTokens: whatever text a token with a right sum has, each list refuses it
// with an error of the caller's.
func TestForgedPageTokens(t *testing.T) {
	f := start(t, func(c *Config) { c.Cluster, c.Reminders, c.Messages = fakeCluster{}, noReminders{}, &fakeMessages{} })
	lists := 0
	for name, m := range procedures(t) {
		if m.Input().Fields().ByName("page_token") == nil {
			continue
		}
		lists++
		request := map[string]any{"app": "default"}
		app, typ := "default", ""
		if m.Input().Fields().ByName("app") == nil {
			delete(request, "app")
			app = ""
		}
		if m.Input().Fields().ByName("type") != nil {
			request["type"], typ = "T", "T"
		}
		if m.Input().Fields().ByName("actor") != nil {
			request["actor"], app, typ = map[string]any{"type": "T", "id": "x"}, "default", "T/x"
		}
		if m.Input().Fields().ByName("all") != nil {
			request["all"] = true
		}
		for _, after := range []string{
			"\x01", "\x00", "x\x00y", "x\x00y\x00z", "T\x00\x00z", "T\x00y\x00z\x00", "\x00\x00\x00", "\xff", strings.Repeat("\x00", 600),
		} {
			request["pageToken"] = forgedToken(name, app, typ, after)
			body, err := json.Marshal(request)
			if err != nil {
				t.Fatal(err)
			}
			if a := do(t, client(t, false), "POST", f.url+name, string(body), "Content-Type", "application/json"); a.StatusCode != http.StatusBadRequest || !strings.Contains(a.body, "page_token") {
				t.Errorf("%s with a token of %q: %s %s", name, after, a.Status, a.body)
			}
		}
	}
	if lists < 10 {
		t.Errorf("%d procedures have pages", lists)
	}
	if log := f.log.String(); strings.Contains(log, "panic") {
		t.Error(log)
	}
}

// forgedToken returns a page token with a right sum: anybody can make one.
func forgedToken(procedure, app, typ, after string) string {
	sum := sha256.Sum256([]byte(procedure + "|" + app + "|" + typ + "|" + after))
	return base64.RawURLEncoding.EncodeToString(append(sum[:6:6], after...))
}
