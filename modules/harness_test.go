package modules_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/abi/manifest"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/leaktest"
	"github.com/greenroom-run/greenroom/modules"
	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/embedded"
)

func TestMain(m *testing.M) {
	// PostgreSQL is not waited for: it ends with the process.
	server := goleak.IgnoreAnyFunction("github.com/greenroom-run/greenroom/internal/pgtest.(*Server).startOnce.func1")
	goleak.VerifyTestMain(leaktest.Patient(m, server), server)
}

const app = "shop"

// inspector takes a manifest for a module: the bytes of the tests' modules are
// their manifests.
type inspector struct {
	mu    sync.Mutex
	calls int
	err   error
}

func (i *inspector) Inspect(_ context.Context, code actor.Code) (*abi.Manifest, []actor.Fault, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.calls++
	if i.err != nil {
		return nil, nil, i.err
	}
	wasm := make([]byte, code.Size())
	if _, err := code.ReadAt(wasm, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	m, faults := manifest.Parse(wasm)
	var out []actor.Fault
	for _, f := range faults {
		out = append(out, actor.Fault{Code: f.Code, Message: f.Message})
	}
	return m, out, nil
}

// faulty is a store whose answers a test may change.
type faulty struct {
	store.Modules
	mu          sync.Mutex
	deploy      func(ctx context.Context, ds []actor.Deployment, revision uint64) error
	deployments func(ctx context.Context, app string) ([]actor.Deployment, error)
	put         func(ctx context.Context, m actor.Module, wasm actor.Code, most int64) error
	module      func(m actor.Module) actor.Module
	bytes       func([]byte) []byte
}

func (f *faulty) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *faulty) Deploy(ctx context.Context, ds []actor.Deployment, revision uint64) error {
	f.mu.Lock()
	deploy := f.deploy
	f.mu.Unlock()
	if deploy != nil {
		return deploy(ctx, ds, revision)
	}
	return f.Modules.Deploy(ctx, ds, revision)
}

func (f *faulty) Deployments(ctx context.Context, app string) ([]actor.Deployment, error) {
	f.mu.Lock()
	deployments := f.deployments
	f.mu.Unlock()
	if deployments != nil {
		return deployments(ctx, app)
	}
	return f.Modules.Deployments(ctx, app)
}

func (f *faulty) PutModule(ctx context.Context, m actor.Module, wasm actor.Code, most int64) error {
	if f.put != nil {
		return f.put(ctx, m, wasm, most)
	}
	return f.Modules.PutModule(ctx, m, wasm, most)
}

func (f *faulty) Module(ctx context.Context, app string, d actor.Digest) (actor.Module, error) {
	m, err := f.Modules.Module(ctx, app, d)
	if err == nil && f.module != nil {
		m = f.module(m)
	}
	return m, err
}

func (f *faulty) ModuleBytes(ctx context.Context, app string, d actor.Digest) ([]byte, error) {
	b, err := f.Modules.ModuleBytes(ctx, app, d)
	if err == nil && f.bytes != nil {
		b = f.bytes(b)
	}
	return b, err
}

// fixture is a started service on a store of its own.
type fixture struct {
	*modules.Service
	t         *testing.T
	store     *faulty
	inspector *inspector
	passed    atomic.Int64 // by how much, as a time.Duration, the clock of the store is ahead
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, inspector: &inspector{}}
	now := func() time.Time { return time.Now().Add(time.Duration(f.passed.Load())) }
	st, err := embedded.Open(context.Background(), embedded.Config{Dir: t.TempDir(), MinFreeBytes: -1, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return f.on(st)
}

// on starts the service on a store.
func (f *fixture) on(st store.Modules) *fixture {
	f.t.Helper()
	f.store = &faulty{Modules: st}
	f.Service = f.service(time.Hour)
	return f
}

// service starts another service on the same store, as another process would.
func (f *fixture) service(poll time.Duration) *modules.Service {
	f.t.Helper()
	s, err := modules.New(modules.Config{Store: f.store, Inspector: f.inspector, MaxBytes: 4096, PollInterval: poll})
	if err != nil {
		f.t.Fatal(err)
	}
	if err := s.Start(context.Background()); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { s.Stop(context.Background()) })
	return s
}

// typ writes a type of a manifest: its name, then members, then its methods.
func typ(name, members string, methods ...string) string {
	for i, m := range methods {
		if !strings.HasPrefix(m, "{") {
			methods[i] = fmt.Sprintf(`{"name":%q}`, m)
		}
	}
	if members != "" {
		members += ","
	}
	return fmt.Sprintf(`{"name":%q,%s"methods":[%s]}`, name, members, strings.Join(methods, ","))
}

func module(types ...string) []byte {
	return []byte(`{"abi":1,"types":[` + strings.Join(types, ",") + `]}`)
}

func (f *fixture) upload(types ...string) actor.Digest {
	f.t.Helper()
	m, err := f.Upload(context.Background(), app, bytes.NewReader(module(types...)), nil)
	if err != nil {
		f.t.Fatal(err)
	}
	return m.Digest
}

func (f *fixture) deploy(d actor.Digest, types ...string) []string {
	f.t.Helper()
	_, warnings, err := f.Deploy(context.Background(), modules.DeployRequest{App: app, Digest: d, Types: types})
	if err != nil {
		f.t.Fatal(err)
	}
	return warnings
}

func (f *fixture) serving(typ string) actor.Deployment {
	f.t.Helper()
	d, spec, err := f.Current(app, typ)
	if err != nil {
		f.t.Fatal(err)
	}
	if spec.Name != typ {
		f.t.Fatalf("%s is served by the specification of %s", typ, spec.Name)
	}
	return d
}
