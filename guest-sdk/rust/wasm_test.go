package rustsdk_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine/wasm"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/store/embedded"
)

// TestGuestOnAHost runs testdata/kit as Wasm on a real host: imports and exports,
// buffers that are too small at first, panics, and a stack that ends. What an
// actor does is tested natively, in tests/.
func TestGuestOnAHost(t *testing.T) {
	r := newRig(t, buildKit(t))

	r.want("a", "Add", "5", "5")
	t.Run("a typed error reaches the caller and leaves no trace", func(t *testing.T) {
		_, err := r.call("a", "Fail", "")
		var guest *actor.GuestError
		if !errors.As(err, &guest) {
			t.Fatalf("got %v, want a guest error", err)
		}
		if guest.Status != 8 || guest.Code != "out_of_stock" || guest.Message != "only 3 left 💚" ||
			!guest.Retryable || guest.RetryAfter != 1500*time.Millisecond || string(guest.Detail.Data) != "[3]" {
			t.Errorf("got %+v", guest)
		}
		r.want("a", "Get", "", "5")
	})
	t.Run("a panic is logged and leaves no trace", func(t *testing.T) {
		_, err := r.call("a", "Panic", `"the shelf\nfell down"`)
		var trap *actor.TrapError
		if !errors.As(err, &trap) {
			t.Fatalf("got %v, want a trap", err)
		}
		if !r.logged(int32(slog.LevelError), "the shelf\nfell down") {
			t.Errorf("the log lacks the panic: %+v", r.lines())
		}
		r.want("a", "Get", "", "5")
		r.want("a", "Add", "1", "6")
	})
	t.Run("results larger than a buffer", func(t *testing.T) {
		r.want("b", "Fill", "300", "304000")
		r.want("b", "Add", "1", "1") // loads the long text as well
		r.want("b", "Clear", "", "302")
		r.want("b", "Get", "", "0")
	})
	t.Run("payloads pass as they are", func(t *testing.T) {
		for _, size := range []int{0, 1, 100_000} {
			body := strings.Repeat("\x00\xff", size)
			got, err := r.invoke("a", "Echo", actor.Payload{ContentType: "image/png", Data: []byte(body)})
			if err != nil || got.ContentType != "image/png" || string(got.Data) != body {
				t.Errorf("%d bytes: got %d of %q, %v", len(body), len(got.Data), got.ContentType, err)
			}
		}
	})
	t.Run("the turn is the host's", func(t *testing.T) {
		before := time.Now().UnixNano()
		got, err := r.call("💚/||x", "Turn", "")
		if err != nil {
			t.Fatal(err)
		}
		var facts []string
		if err := json.Unmarshal([]byte(got), &facts); err != nil {
			t.Fatal(err)
		}
		at, err := strconv.ParseInt(facts[1], 10, 64)
		if err != nil || facts[0] != "default||kit.Kit||💚/||x" || at < before || at > time.Now().UnixNano() {
			t.Errorf("got %q, %v; want a time from %d on", facts, err, before)
		}
		if !r.logged(int32(slog.LevelInfo), "turn 💚") {
			t.Errorf("the log lacks the line: %+v", r.lines())
		}
	})
	t.Run("what is printed goes to the actor's log", func(t *testing.T) {
		r.want("a", "Print", `"💚"`, "null")
		for level, text := range map[slog.Level]string{slog.LevelInfo: "out 💚", slog.LevelWarn: "err 💚"} {
			if !r.logged(int32(level), text) {
				t.Errorf("the log lacks %q: %+v", text, r.lines())
			}
		}
	})
	t.Run("a stack without end is a trap", func(t *testing.T) {
		_, err := r.call("a", "Recurse", "0")
		var trap *actor.TrapError
		if !errors.As(err, &trap) {
			t.Errorf("got %v, want a trap", err)
		}
		r.want("a", "Add", "1", "7")
	})
}

// A read-only method that changes its struct through a Cell fails on a host as in the
// test kit: otherwise what it changed would be lost, and nobody told.
func TestReadThatChangesFails(t *testing.T) {
	r := newRig(t, buildKit(t))
	r.spec = &r.types[1]
	r.want("a", "Seen", "", "0")
	_, err := r.call("a", "Look", "")
	var guest *actor.GuestError
	if !errors.As(err, &guest) || guest.Code != "read_only" || !strings.Contains(guest.Message, `the field "seen"`) {
		t.Errorf("got %v", err)
	}
	r.want("a", "Seen", "", "0")
}

// TestModuleOfAnOlderSDK calls modules that were built by SDKs of the past: what was
// deployed once runs on every newer host. testdata/modules/README.md says how they
// came to be; they are never built again.
func TestModuleOfAnOlderSDK(t *testing.T) {
	module, err := os.ReadFile(filepath.Join("testdata", "modules", "account-0.1.0.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, module)

	r.want("alice", "Deposit", `{"amount":100}`, "100")
	r.want("alice", "TransferOut", `{"reference":"t1","peer":"bob","amount":60}`, "40")
	r.want("alice", "TransferOut", `{"reference":"t1","peer":"bob","amount":60}`, "40")
	r.want("bob", "TransferIn", `{"reference":"t1","peer":"alice","amount":60}`, "60")
	r.want("alice", "Balance", "", "40")
	got, err := r.call("bob", "Statement", `{"limit":1}`)
	if err != nil {
		t.Fatal(err)
	}
	got = regexp.MustCompile(`"at":\d+`).ReplaceAllString(got, `"at":0`)
	if want := `{"balance":60,"entries":[{"kind":"transfer_in","amount":60,"balance":60,"at":0,"reference":"t1","peer":"alice"}]}`; got != want {
		t.Errorf("Statement of bob: got %s, want %s", got, want)
	}
	_, err = r.call("alice", "Withdraw", `{"amount":500}`)
	var guest *actor.GuestError
	if !errors.As(err, &guest) {
		t.Fatalf("got %v, want a guest error", err)
	}
	if guest.Status != 9 || guest.Code != "insufficient_funds" || guest.Retryable ||
		string(guest.Detail.Data) != `{"balance":40,"requested":500,"missing":460}` {
		t.Errorf("got %+v", guest)
	}
	r.want("alice", "Balance", "", "40")
}

// buildKit returns testdata/kit as a module.
func buildKit(t *testing.T) []byte {
	t.Helper()
	res, err := guestbuild.Build(t.Context(), guestbuild.Request{
		Dir: filepath.Join("testdata", "kit"),
		Out: filepath.Join(t.TempDir(), "kit.wasm"),
	})
	var missing *guestbuild.ToolchainError
	if errors.As(err, &missing) {
		t.Fatalf("%v (build/rust/setup.sh installs it)", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	module, err := os.ReadFile(res.Path)
	if err != nil {
		t.Fatal(err)
	}
	return module
}

// rig is a host that serves one module, and is its module source.
type rig struct {
	t      *testing.T
	host   *host.Host
	module []byte
	types  []abi.TypeSpec
	spec   *abi.TypeSpec // of the type that is called: the first

	mu   sync.Mutex
	logs []host.GuestLog
}

func newRig(t *testing.T, module []byte) *rig {
	t.Helper()
	ctx := t.Context()
	engine, err := wasm.New(ctx, wasm.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close(context.Background()) })
	m, faults, err := engine.Inspect(ctx, bytes.NewReader(module))
	if err != nil || len(faults) > 0 {
		t.Fatalf("the module is refused: %v %v", faults, err)
	}
	if !strings.HasPrefix(m.SDK, "greenroom-rust/") || len(m.Types) == 0 {
		t.Fatalf("manifest: %+v", m)
	}
	store, err := embedded.Open(ctx, embedded.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })

	r := &rig{t: t, module: module, types: m.Types, spec: &m.Types[0]}
	r.host, err = host.New(host.Config{
		Committer: store, Modules: r, Engine: engine,
		Observers: []host.Events{{GuestLog: func(l host.GuestLog) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.logs = append(r.logs, l)
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.host.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.host.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *rig) Current(app, typ string) (actor.Deployment, *abi.TypeSpec, error) {
	for i := range r.types {
		if r.types[i].Name == typ {
			return actor.Deployment{App: app, Type: typ, Generation: 1, Digest: actor.DigestOf(r.module)}, &r.types[i], nil
		}
	}
	return actor.Deployment{}, nil, actor.ErrTypeNotFound
}

func (r *rig) Changes() uint64 { return 0 }

func (r *rig) Refresh(context.Context, string) error { return nil }

func (r *rig) ModuleBytes(context.Context, string, actor.Digest) ([]byte, error) {
	return r.module, nil
}

func (r *rig) invoke(id, method string, payload actor.Payload) (actor.Payload, error) {
	reply, err := r.host.Invoke(r.t.Context(), actor.Invocation{
		Key: actor.Key{App: "default", Type: r.spec.Name, ID: id}, Method: method, Payload: payload,
	})
	return reply.Payload, err
}

func (r *rig) call(id, method, payload string) (string, error) {
	reply, err := r.invoke(id, method, actor.Payload{Data: []byte(payload)})
	return string(reply.Data), err
}

func (r *rig) want(id, method, payload, want string) {
	r.t.Helper()
	if got, err := r.call(id, method, payload); err != nil || got != want {
		r.t.Errorf("%s(%s) of %s: got %q, %v; want %q", method, payload, id, got, err, want)
	}
}

func (r *rig) lines() []host.GuestLog {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]host.GuestLog(nil), r.logs...)
}

func (r *rig) logged(level int32, text string) bool {
	for _, l := range r.lines() {
		if l.Level == level && strings.Contains(l.Text, text) {
			return true
		}
	}
	return false
}
