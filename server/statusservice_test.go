package server

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/server/metrics"
)

func statusClient(tb testing.TB, f *fixture, token string) greenroomv1connect.StatusServiceClient {
	tb.Helper()
	return greenroomv1connect.NewStatusServiceClient(client(tb, false), f.url, connect.WithInterceptors(bearer(token)))
}

// TestGetServer: each caller is told what it may do, and no more.
func TestGetServer(t *testing.T) {
	f := start(t, func(c *Config) { withRoles(c); c.Version = "v7" })
	for token, want := range map[string]struct {
		role greenroomv1.Role
		app  string
	}{
		"read": {greenroomv1.Role_ROLE_READ, ""}, "admin": {greenroomv1.Role_ROLE_ADMIN, ""}, "deploy-mine": {greenroomv1.Role_ROLE_DEPLOY, "mine"},
	} {
		got, err := statusClient(t, f, token).GetServer(t.Context(), connect.NewRequest(&greenroomv1.GetServerRequest{}))
		if err != nil {
			t.Fatal(err)
		}
		if m := got.Msg; m.Role != want.role || m.App != want.app || m.Token != strings.Replace(token, "-", ".", 1) || !m.Authenticated || !m.Cluster || m.Version != "v7" || m.MaxModuleBytes == 0 {
			t.Errorf("%s: %v", token, m)
		}
	}
	open := start(t, nil)
	got, err := statusClient(t, open, "").GetServer(t.Context(), connect.NewRequest(&greenroomv1.GetServerRequest{}))
	if err != nil || got.Msg.Authenticated || got.Msg.Cluster || got.Msg.Role != greenroomv1.Role_ROLE_ADMIN {
		t.Errorf("a server that asks for no token: %v %v", got, err)
	}
}

// TestDiagnose: an admin is told of the cluster, a token of one app of that app's calls alone.
func TestDiagnose(t *testing.T) {
	f := start(t, func(c *Config) {
		withRoles(c)
		c.Metrics = metrics.New()
		turn := c.Metrics.HostEvents().TurnEnd
		for _, app := range []string{"mine", "other"} {
			turn(host.TurnEnd{Key: actor.Key{App: app, Type: "Transfer", ID: "a"}, Method: "Pay", Lane: host.LaneWarm, Chain: &host.ChainStats{Actors: 2, Deadlocks: 10}})
		}
	})
	for token, want := range map[string][]string{
		"admin":      {"store", "cluster", "Transfer of app mine", "Transfer of app other"},
		"read":       {"store", "cluster", "Transfer of app mine", "Transfer of app other"},
		"admin-mine": {"store", "Transfer of app mine"},
	} {
		got, err := statusClient(t, f, token).Diagnose(t.Context(), connect.NewRequest(&greenroomv1.DiagnoseRequest{Reach: true}))
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for _, finding := range got.Msg.Findings {
			text.WriteString(finding.Check + ": " + finding.Found + "\n")
		}
		for _, part := range []string{"store", "cluster", "Transfer of app mine", "Transfer of app other"} {
			wanted := false
			for _, w := range want {
				wanted = wanted || w == part
			}
			if strings.Contains(text.String(), part) != wanted {
				t.Errorf("%s is told\n%s", token, text.String())
			}
		}
		if said := strings.Contains(text.String(), "is said to the token of an admin"); said != (token == "read") {
			t.Errorf("%s is told of reach: %v", token, said)
		}
	}
}

// TestListTurns: turns are counted by app and type, and what is not deployed is not.
func TestListTurns(t *testing.T) {
	f := start(t, func(c *Config) {
		c.Metrics = metrics.New()
		turn := c.Metrics.HostEvents().TurnEnd
		for range 99 {
			turn(host.TurnEnd{Key: actor.Key{App: "shop", Type: "Cart", ID: "a"}, Method: "Add", Lane: host.LaneWarm, Duration: time.Millisecond})
		}
		turn(host.TurnEnd{Key: actor.Key{App: "shop", Type: "Cart", ID: "a"}, Method: "Add", Lane: host.LaneWarm, Duration: time.Minute, Err: actor.ErrDeadline})
		turn(host.TurnEnd{Key: actor.Key{App: "shop", Type: "Invented", ID: "a"}, Lane: host.LaneNone, Err: actor.ErrTypeNotFound})
		turn(host.TurnEnd{Key: actor.Key{App: "default", Type: "Other", ID: "a"}, Method: "Add", Lane: host.LaneWarm})
	})
	got, err := statusClient(t, f, "").ListTurns(t.Context(), connect.NewRequest(&greenroomv1.ListTurnsRequest{App: "shop"}))
	if err != nil {
		t.Fatal(err)
	}
	m := got.Msg
	if len(m.Types) != 1 || m.Types[0].Type != "Cart" || m.All.Turns != 100 || m.All.Errors != 1 || m.StepSeconds != 30 {
		t.Fatalf("%v", m)
	}
	if p := m.Types[0].P50Seconds; p < 0.0008 || p > 0.0013 {
		t.Errorf("half of the turns within %v s", p)
	}
}

// TestListTokens: their names and uses, and never a secret.
func TestListTokens(t *testing.T) {
	f := start(t, func(c *Config) { withRoles(c); c.Tokens[0].Secret = "hidden-0123456789" })
	got, err := statusClient(t, f, "admin").ListTokens(t.Context(), connect.NewRequest(&greenroomv1.ListTokensRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(got.Msg.String(), "hidden") {
		t.Error("a secret is in the list")
	}
	for _, token := range got.Msg.Tokens {
		if own := token.Name == "admin"; token.Own != own || (token.LastUsedAt != nil) != own {
			t.Errorf("%v", token)
		}
	}
	if len(got.Msg.Tokens) != 8 {
		t.Errorf("%d tokens", len(got.Msg.Tokens))
	}
}

// uploadModule uploads over HTTP/1.1, as browsers do.
func uploadModule(tb testing.TB, f *fixture, token, app string, wasm []byte) (*greenroomv1.Module, error) {
	tb.Helper()
	stream := greenroomv1connect.NewModuleServiceClient(client(tb, false), f.url, connect.WithInterceptors(bearer(token))).UploadModule(tb.Context())
	_ = stream.Send(&greenroomv1.UploadModuleRequest{Content: &greenroomv1.UploadModuleRequest_Header{Header: &greenroomv1.UploadHeader{App: app, Size: int64(len(wasm))}}})
	for len(wasm) > 0 {
		n := min(len(wasm), 1<<20)
		_ = stream.Send(&greenroomv1.UploadModuleRequest{Content: &greenroomv1.UploadModuleRequest_Chunk{Chunk: wasm[:n]}}) // the answer says why
		wasm = wasm[n:]
	}
	resp, err := stream.CloseAndReceive()
	if err != nil {
		return nil, err
	}
	return resp.Msg.Module, nil
}

func TestUploadModule(t *testing.T) {
	f := start(t, nil)
	wasm := wasmOf(3<<20 + 7)
	m, err := uploadModule(t, f, "", "default", wasm)
	if err != nil {
		t.Fatal(err)
	}
	if m.Digest != string(actor.DigestOf(wasm)) || !bytes.Equal(f.modules.modules[actor.DigestOf(wasm)], wasm) {
		t.Error("other bytes were stored")
	}
	_, err = uploadModule(t, f, "", "default", nil)
	wantError(t, err, connect.CodeInvalidArgument, "invalid_module")
}

// TestConsoleFiles: anybody may load them, and a browser that asks for the root is sent there.
func TestConsoleFiles(t *testing.T) {
	f := start(t, withRoles)
	c := client(t, false)
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	page := do(t, c, "GET", f.url+ConsolePath, "")
	if page.StatusCode != http.StatusOK || !strings.Contains(page.Header.Get("Content-Security-Policy"), "default-src 'none'") || !strings.Contains(page.body, "<title>Greenroom</title>") {
		t.Errorf("%s %s", page.Status, page.body)
	}
	if root := do(t, c, "GET", f.url+"/", "", "Accept", "text/html"); root.StatusCode != http.StatusFound || root.Header.Get("Location") != ConsolePath {
		t.Errorf("a browser at the root: %s", root.Status)
	}
	if root := do(t, c, "GET", f.url+"/", ""); root.StatusCode != http.StatusNotFound || root.failure(t).Kind != "path_not_found" {
		t.Errorf("a program at the root: %s", root.Status)
	}
	if at := f.ConsoleURL(); at != f.url+ConsolePath {
		t.Errorf("the console is at %s", at)
	}
}
