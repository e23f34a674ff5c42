package node_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/abi"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	. "github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
	"github.com/greenroom-run/greenroom/internal/node"
	"github.com/greenroom-run/greenroom/internal/pgtest"
)

// Where the guests below keep what they ask for, and put what they get.
const (
	askAt  = 4096
	gotAt  = 16 << 10
	gotCap = 40 << 10
)

func typeUsing(capabilities string) string {
	return `{"abi":1,"types":[{"name":"T","methods":[{"name":"Do"},{"name":"View","read_only":true}],"capabilities":` + capabilities + `}]}`
}

// getter replies with what a function gives for a name, or with the code's last
// digit and a minus sign.
func getter(function, name, capabilities string) []byte {
	return Guest{
		Manifest: typeUsing(capabilities),
		Imports:  []Import{Host(function, "iiii", "l"), Host("reply", "iiii", "i")},
		More:     func(b *Builder) { b.Data(askAt, []byte(name)); b.Data(askAt+512, []byte("-")) },
		Turn: Code(
			I32Const(askAt), I32Const(int32(len(name))), I32Const(gotAt), I32Const(gotCap), Call(0), []byte{0xa7}, LocalSet(2), // i32.wrap_i64
			LocalGet(2), I32Const(0), []byte{0x48}, // i32.lt_s
			If(Code(
				I32Const(askAt+513), I32Const('0'), LocalGet(2), I32Sub, Store(), // one byte is enough
				I32Const(0), I32Const(0), I32Const(askAt+512), I32Const(2), Call(1), Drop, I32Const(0), []byte{0x0f}, // return
			)...),
			I32Const(0), I32Const(0), I32Const(gotAt), LocalGet(2), Call(1), Drop, I32Const(0)),
	}.Bytes()
}

// sender sends a request in each turn, and replies with the response frame.
func sender(r abi.HTTPRequest, capabilities string) []byte {
	frame := abi.AppendHTTPRequest(nil, &r)
	return Guest{
		Manifest: typeUsing(capabilities),
		Imports:  []Import{Host("http_request", "ii", "l"), Host("http_response", "ii", "l"), Host("reply", "iiii", "i")},
		More:     func(b *Builder) { b.Data(askAt, frame) },
		Turn: Code(
			I32Const(askAt), I32Const(int32(len(frame))), Call(0), Drop,
			I32Const(gotAt), I32Const(gotCap), Call(1), []byte{0xa7}, LocalSet(2),
			I32Const(0), I32Const(0), I32Const(gotAt), LocalGet(2), Call(2), Drop, I32Const(0)),
	}.Bytes()
}

// TestKeyRotation changes the key of secrets on each store: a server that starts
// with both keys leaves nothing that needs the old one.
func TestKeyRotation(t *testing.T) {
	keyA, keyB := strings.Repeat("a1", 32), strings.Repeat("b2", 32)
	stores := map[string]node.Config{"embedded": {DataDir: t.TempDir()}, "postgresql": {StoreURL: pgtest.URL(t)}}
	if url, ok := pgtest.CockroachURL(t); ok {
		stores["cockroachdb"] = node.Config{StoreURL: url}
	}
	for name, cfg := range stores {
		t.Run(name, func(t *testing.T) {
			cfg.SecretsKeyFile = filepath.Join(t.TempDir(), "keys")
			restart := func(keys ...string) *running {
				t.Helper()
				if err := os.WriteFile(cfg.SecretsKeyFile, []byte(strings.Join(keys, "\n")), 0o600); err != nil {
					t.Fatal(err)
				}
				return start(t, cfg)
			}
			r := restart(keyA)
			r.deploy(t, "rotation", getter("secret_get", "key", `{"secrets":["key"]}`))
			done[*connect.Response[greenroomv1.SetSecretResponse]](t)(r.settings.SetSecret(t.Context(),
				connect.NewRequest(&greenroomv1.SetSecretRequest{App: "rotation", Name: "key", Value: []byte("hush")})))
			for _, keys := range [][]string{{keyB, keyA}, {keyB}} {
				stop(t, r.Node)
				r = restart(keys...)
				r.mustCall(t, "rotation", "T", "x", "Do", "", "hush")
			}
		})
	}
}

// done checks the error of a call whose answer is empty.
func done[T any](t *testing.T) func(T, error) {
	return func(_ T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A value is given to a type that declares it in an app that has it, and to nobody
// else. A secret is in the data folder sealed alone.
func TestConfigAndSecrets(t *testing.T) {
	dir := t.TempDir()
	r := start(t, node.Config{DataDir: dir})
	ctx := t.Context()
	settings := r.settings
	reply := func(app string) string {
		t.Helper()
		got, err := r.call(ctx, app, "T", "x", "Do", "")
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	const value = "s3cret-and-long-enough-to-be-searched-for"
	r.deploy(t, "shop", getter("secret_get", "key", `{"secrets":["key"]}`))
	r.deploy(t, "other", getter("secret_get", "key", `{"secrets":["key"]}`))
	r.deploy(t, "curious", getter("secret_get", "key", `{"secrets":["another"]}`))
	r.deploy(t, "conf", getter("config_get", "region", `{"config":["region"]}`))
	if got := reply("shop"); got != "-1" {
		t.Errorf("not set: %q", got)
	}
	for _, app := range []string{"shop", "curious"} {
		done[*connect.Response[greenroomv1.SetSecretResponse]](t)(settings.SetSecret(ctx, connect.NewRequest(&greenroomv1.SetSecretRequest{App: app, Name: "key", Value: []byte(value)})))
	}
	done[*connect.Response[greenroomv1.SetConfigResponse]](t)(settings.SetConfig(ctx, connect.NewRequest(&greenroomv1.SetConfigRequest{App: "conf", Name: "region", Value: "eu"})))
	for app, want := range map[string]string{"shop": value, "other": "-1", "curious": "-7", "conf": "eu"} {
		if got := reply(app); got != want {
			t.Errorf("%s: got %q, want %q", app, got, want)
		}
	}
	got, err := settings.GetSettings(ctx, connect.NewRequest(&greenroomv1.GetSettingsRequest{App: "shop"}))
	if err != nil || len(got.Msg.Secrets) != 1 || !got.Msg.Secrets[0].Readable || got.Msg.Secrets[0].KeyId == "" || strings.Contains(got.Msg.String(), value) {
		t.Errorf("listed %v, %v", got, err)
	}
	done[*connect.Response[greenroomv1.UnsetSecretResponse]](t)(settings.UnsetSecret(ctx, connect.NewRequest(&greenroomv1.UnsetSecretRequest{App: "shop", Name: "key"})))
	if got := reply("shop"); got != "-1" {
		t.Errorf("after it was removed: %q", got)
	}
	_, err = settings.UnsetSecret(ctx, connect.NewRequest(&greenroomv1.UnsetSecretRequest{App: "shop", Name: "key"}))
	if connect.CodeOf(err) != connect.CodeNotFound || detail(err).GetKind() != "setting_not_found" {
		t.Errorf("removed twice: %v", err)
	}

	info, err := os.Stat(filepath.Join(dir, "secrets.key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key file: %v, %v", info, err)
	}
	stop(t, r.Node)
	err = filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), value) {
			t.Errorf("%s has the secret in it", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What a module imports and does not declare keeps it from being stored.
func TestUndeclaredCapabilities(t *testing.T) {
	r := start(t, node.Config{})
	for name, module := range map[string][]byte{
		"config_get":   getter("config_get", "a", `{"secrets":["a"]}`),
		"secret_get":   getter("secret_get", "a", `{"config":["a"]}`),
		"http_request": sender(abi.HTTPRequest{URL: "https://a.example"}, `{"config":["a"]}`),
	} {
		_, err := r.upload(t.Context(), "", module)
		if connect.CodeOf(err) != connect.CodeInvalidArgument || len(detail(err).GetFaults()) == 0 || detail(err).GetFaults()[0].Code != "undeclared_capability" ||
			!strings.Contains(err.Error(), "greenroom."+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A request goes to a host that is declared and granted; what is missing shows when
// the module is deployed.
func TestHTTP(t *testing.T) {
	r := start(t, node.Config{})
	ctx := t.Context()
	var seen []string
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		seen = append(seen, req.Method+" "+req.URL.Path+" "+string(body)+" "+req.Header.Get("X-Key"))
		w.Header().Set("X-Answer", "yes")
		fmt.Fprint(w, "pong")
	}))
	defer target.Close()
	request := abi.HTTPRequest{Method: "POST", URL: target.URL + "/ping", Headers: []abi.Header{{Name: "X-Key", Value: "k"}}, Body: []byte("ping")}
	module := r.deploy(t, "shop", sender(request, `{"http":["http://127.0.0.1:*"]}`))
	if got := module.Types[0].Capabilities.GetHttp(); len(got) != 1 || got[0] != "http://127.0.0.1:*" {
		t.Errorf("the module is said to use %v", got)
	}
	send := func() abi.HTTPResponse {
		t.Helper()
		got, err := r.call(ctx, "shop", "T", "x", "Do", "")
		if err != nil {
			t.Fatal(err)
		}
		var answer abi.HTTPResponse
		if err := abi.DecodeHTTPResponse([]byte(got), &answer); err != nil {
			t.Fatal(err)
		}
		return answer
	}
	missing := func() []string {
		t.Helper()
		types, err := r.modules.ListTypes(ctx, connect.NewRequest(&greenroomv1.ListTypesRequest{App: "shop"}))
		if err != nil || len(types.Msg.Types) != 1 {
			t.Fatal(types, err)
		}
		return types.Msg.Types[0].Deployment.GetMissing().GetHttp()
	}
	if answer := send(); answer.Code != abi.HTTPDenied || !strings.Contains(answer.Message, "not granted") || len(missing()) != 1 {
		t.Errorf("without a grant: %+v, missing %v", answer, missing())
	}
	settings := r.settings
	grant := &greenroomv1.GrantHTTPRequest{App: "shop", Host: "HTTP://127.0.0.1:*"}
	granted, err := settings.GrantHTTP(ctx, connect.NewRequest(grant))
	if err != nil || granted.Msg.Host != "http://127.0.0.1:*" {
		t.Fatal(granted, err)
	}
	if answer := send(); answer.Code != abi.HTTPDenied || !strings.Contains(answer.Message, "private") || len(missing()) != 0 {
		t.Errorf("with a grant of public addresses: %+v", answer)
	}
	grant.Private = true
	if _, err := settings.GrantHTTP(ctx, connect.NewRequest(grant)); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 0 {
		t.Fatalf("the server saw %q", seen)
	}
	answer := send()
	if answer.Status != 200 || string(answer.Body) != "pong" || len(seen) != 1 || seen[0] != "POST /ping ping k" {
		t.Errorf("got %+v, the server saw %q", answer, seen)
	}
	var header string
	for _, h := range answer.Headers {
		if h.Name == "x-answer" {
			header = h.Value
		}
	}
	if header != "yes" {
		t.Errorf("headers %v", answer.Headers)
	}
	if _, err := settings.RevokeHTTP(ctx, connect.NewRequest(&greenroomv1.RevokeHTTPRequest{App: "shop", Host: "http://127.0.0.1:*"})); err != nil {
		t.Fatal(err)
	}
	if answer := send(); answer.Code != abi.HTTPDenied {
		t.Errorf("after the grant was taken back: %+v", answer)
	}
	if got, err := r.call(ctx, "shop", "T", "x", "View", ""); err == nil {
		var answer abi.HTTPResponse
		if err := abi.DecodeHTTPResponse([]byte(got), &answer); err != nil || answer.Code != abi.HTTPReadOnly {
			t.Errorf("POST in a read-only method: %+v, %v", answer, err)
		}
	}
}

// The example, built for Wasm: it is deployed, given what it uses, and delivers.
func TestWebhookExample(t *testing.T) { withGoToolchains(t, webhookExample) }

func webhookExample(t *testing.T, toolchain string) {
	r := start(t, node.Config{})
	ctx := t.Context()
	type delivery struct{ body, agent, signature, id string }
	deliveries := make(chan delivery, 10)
	subscriber := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		deliveries <- delivery{string(body), req.UserAgent(), req.Header.Get("X-Signature"), req.Header.Get("X-Delivery")}
	}))
	defer subscriber.Close()
	module, err := r.upload(ctx, "", example(t, "webhook", toolchain))
	if err != nil {
		t.Fatal(err, detail(err).GetFaults())
	}
	deployed, err := r.modules.Deploy(ctx, connect.NewRequest(&greenroomv1.DeployRequest{Digest: module.Digest}))
	if err != nil {
		t.Fatal(err)
	}
	if d := deployed.Msg.Deployments[0]; len(d.GetCapabilities().GetHttp()) != 2 || len(d.GetMissing().GetHttp()) != 2 ||
		len(d.GetMissing().GetConfig()) != 1 || len(d.GetMissing().GetSecrets()) != 1 {
		t.Errorf("the deployment uses %v and lacks %v", d.Capabilities, d.Missing)
	}
	done[*connect.Response[greenroomv1.SetConfigResponse]](t)(r.settings.SetConfig(ctx, connect.NewRequest(&greenroomv1.SetConfigRequest{Name: "sender", Value: "shop/1.0"})))
	done[*connect.Response[greenroomv1.SetSecretResponse]](t)(r.settings.SetSecret(ctx, connect.NewRequest(&greenroomv1.SetSecretRequest{Name: "signing_key", Value: []byte("hush")})))
	done[*connect.Response[greenroomv1.GrantHTTPResponse]](t)(r.settings.GrantHTTP(ctx, connect.NewRequest(&greenroomv1.GrantHTTPRequest{Host: "http://127.0.0.1:*", Private: true})))

	if _, err := r.call(ctx, "", "Webhook", "ann", "Subscribe", `"`+subscriber.URL+`/hook"`); err != nil {
		t.Fatal(err)
	}
	r.mustCall(t, "", "Webhook", "ann", "Deliver", `{"name":"order.paid","data":{"order":7}}`, "true")
	got := <-deliveries
	mac := hmac.New(sha256.New, []byte("hush"))
	mac.Write([]byte(got.body))
	if got.body != `{"name":"order.paid","data":{"order":7}}` || got.agent != "shop/1.0" || got.id == "" || got.signature != "sha256="+hex.EncodeToString(mac.Sum(nil)) {
		t.Errorf("delivered %+v", got)
	}
	metrics, err := http.Get(r.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer metrics.Body.Close()
	text, err := io.ReadAll(metrics.Body)
	if want := `greenroom_egress_requests_total{app="default",outcome="ok",type="Webhook"} 1`; err != nil || !strings.Contains(string(text), want) {
		t.Errorf("metrics lack %s, %v", want, err)
	}
}
