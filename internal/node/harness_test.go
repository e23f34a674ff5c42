package node_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/node"
)

// running is a node with clients for it.
type running struct {
	*node.Node
	URL      string
	actors   greenroomv1connect.ActorServiceClient
	modules  greenroomv1connect.ModuleServiceClient
	settings greenroomv1connect.SettingsServiceClient
}

// patience is far more than a turn, or a node's stop, takes on the busiest machine.
const patience = 5 * time.Minute

// start runs a node, whose turns, compilers and instances have time unless cfg says otherwise; without a store it is the embedded one in a fresh folder.
func start(t *testing.T, cfg node.Config) *running {
	t.Helper()
	if cfg.DataDir == "" && cfg.StoreURL == "" {
		cfg.DataDir = t.TempDir()
	}
	if cfg.Limits.TurnDeadline == 0 {
		cfg.Limits.TurnDeadline = patience
	}
	if cfg.CompileTime == 0 {
		cfg.CompileTime = patience
	}
	if cfg.StartTime == 0 {
		cfg.StartTime = patience
	}
	if cfg.CacheDir == "" {
		cfg.CacheDir = cacheDir(t)
	}
	cfg.Server.Addr = "127.0.0.1:0"
	cfg.Server.Standstill = patience // no call with a key is refused because the machine is busy
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(&testWriter{t: t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	n, err := node.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, n) })
	r := &running{Node: n, URL: "http://" + n.Addr().String()}
	client := h2c()
	t.Cleanup(client.CloseIdleConnections)
	r.actors = greenroomv1connect.NewActorServiceClient(client, r.URL)
	r.modules = greenroomv1connect.NewModuleServiceClient(client, r.URL)
	r.settings = greenroomv1connect.NewSettingsServiceClient(client, r.URL)
	return r
}

func stop(t *testing.T, n *node.Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := n.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// cacheDir is shared by the tests of one run, so that a guest is compiled once.
var cacheDir = func() func(*testing.T) string {
	var once sync.Once
	return func(t *testing.T) string {
		dir := filepath.Join(os.TempDir(), "greenroom-node-test-cache")
		once.Do(func() {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		})
		return dir
	}
}()

// h2c is a client that speaks HTTP/2 without TLS, which streams need.
func h2c() *http.Client {
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: &http.Transport{
		Protocols:       &p,
		DialContext:     (&net.Dialer{}).DialContext,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
	}}
}

// testWriter sends a logger's lines to the test's log until the test has ended.
type testWriter struct {
	t *testing.T
}

func (w *testWriter) Write(p []byte) (int, error) {
	if w.t.Context().Err() == nil {
		w.t.Log(strings.TrimSpace(string(p)))
	}
	return len(p), nil
}

// example builds a guest of this repository, once.
func example(t *testing.T, name, toolchain string) []byte {
	t.Helper()
	return build(t, filepath.Join("..", "..", "examples", name), toolchain)
}

func hasTinyGo() bool {
	_, err := exec.LookPath("tinygo")
	return err == nil
}

// withGoToolchains runs a test of a Go guest with Go, and with TinyGo where it is
// installed.
func withGoToolchains(t *testing.T, test func(t *testing.T, toolchain string)) {
	t.Helper()
	t.Run("go", func(t *testing.T) { test(t, guestbuild.Go) })
	if hasTinyGo() {
		t.Run("tinygo", func(t *testing.T) { test(t, guestbuild.TinyGo) })
	}
}

var (
	buildMu sync.Mutex
	built   = map[string][]byte{}
)

func build(t *testing.T, dir, toolchain string) []byte {
	t.Helper()
	buildMu.Lock()
	defer buildMu.Unlock()
	key := dir + " " + toolchain
	if wasm, ok := built[key]; ok {
		return wasm
	}
	var log bytes.Buffer
	r, err := guestbuild.Build(t.Context(), guestbuild.Request{
		Dir: dir, Out: filepath.Join(t.TempDir(), "guest.wasm"), Toolchain: toolchain, Log: &log,
	})
	if err != nil {
		t.Fatalf("build %s: %v\n%s", dir, err, log.String())
	}
	wasm, err := os.ReadFile(r.Path)
	if err != nil {
		t.Fatal(err)
	}
	built[key] = wasm
	return wasm
}

// upload sends a module and returns the server's last word.
func (r *running) upload(ctx context.Context, app string, wasm []byte) (*greenroomv1.Module, error) {
	stream := r.modules.Upload(ctx)
	defer stream.CloseResponse()
	send := func(req *greenroomv1.UploadRequest) error {
		if err := stream.Send(req); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		return nil // on EOF the reason comes from Receive
	}
	err := send(&greenroomv1.UploadRequest{Content: &greenroomv1.UploadRequest_Header{
		Header: &greenroomv1.UploadHeader{App: app, Size: int64(len(wasm))},
	}})
	for chunk := range chunks(wasm, 256<<10) {
		if err == nil {
			err = send(&greenroomv1.UploadRequest{Content: &greenroomv1.UploadRequest_Chunk{Chunk: chunk}})
		}
	}
	if err != nil {
		return nil, err
	}
	if err := stream.CloseRequest(); err != nil {
		return nil, err
	}
	for {
		msg, err := stream.Receive()
		if err != nil {
			return nil, err
		}
		if m := msg.GetModule(); m != nil {
			return m, nil
		}
	}
}

func chunks(b []byte, size int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(b) > 0 {
			n := min(size, len(b))
			if !yield(b[:n]) {
				return
			}
			b = b[n:]
		}
	}
}

// deploy uploads a module and makes it serve all its types.
func (r *running) deploy(t *testing.T, app string, wasm []byte) *greenroomv1.Module {
	t.Helper()
	m, err := r.upload(t.Context(), app, wasm)
	if err != nil {
		t.Fatalf("upload: %v %v", err, detail(err).GetFaults())
	}
	if _, err := r.modules.Deploy(t.Context(), connect.NewRequest(&greenroomv1.DeployRequest{App: app, Digest: m.Digest})); err != nil {
		t.Fatalf("deploy: %v", err)
	}
	return m
}

func (r *running) call(ctx context.Context, app, typ, id, method, payload string) (string, error) {
	resp, err := r.actors.Invoke(ctx, connect.NewRequest(&greenroomv1.InvokeRequest{
		Actor: &greenroomv1.ActorKey{App: app, Type: typ, Id: id}, Method: method, Payload: []byte(payload),
	}))
	if err != nil {
		return "", err
	}
	return string(resp.Msg.Payload), nil
}

// mustCall calls and compares the reply.
func (r *running) mustCall(t *testing.T, app, typ, id, method, payload, want string) {
	t.Helper()
	got, err := r.call(t.Context(), app, typ, id, method, payload)
	if err != nil || got != want {
		t.Fatalf("%s/%s.%s(%s): got %s %v %v, want %s", typ, id, method, payload, got, err, detail(err), want)
	}
}

// detail returns the typed detail of an error, nil if it has none.
func detail(err error) *greenroomv1.ErrorDetail {
	var ce *connect.Error
	if !errors.As(err, &ce) {
		return nil
	}
	for _, d := range ce.Details() {
		if v, err := d.Value(); err == nil {
			if ed, ok := v.(*greenroomv1.ErrorDetail); ok {
				return ed
			}
		}
	}
	return nil
}

// http sends a plain HTTP request to a path that is escaped already.
func (r *running) http(t *testing.T, method, path, body string) (status int, reply string) {
	t.Helper()
	a := request(t, method, r.URL+path, body)
	return a.StatusCode, a.body
}
