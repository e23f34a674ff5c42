package server

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/abi/envelope"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/modules"
	"github.com/greenroom-run/greenroom/store"
)

// fakeHost echoes: the reply's payload is the invocation's, its version a count.
// invoke, if set, decides instead.
type fakeHost struct {
	mu      sync.Mutex
	invoke  func(ctx context.Context, inv actor.Invocation) (actor.Reply, error)
	calls   []actor.Invocation
	deleted []actor.Key
	// elsewhere makes Begin return before the answer is there.
	elsewhere bool
}

func (h *fakeHost) Invoke(ctx context.Context, inv actor.Invocation) (actor.Reply, error) {
	h.mu.Lock()
	h.calls = append(h.calls, inv)
	n, invoke := len(h.calls), h.invoke
	h.mu.Unlock()
	if invoke != nil {
		return invoke(ctx, inv)
	}
	if inv.ReadOnly && !strings.HasPrefix(inv.Method, "Get") {
		return actor.Reply{}, &actor.TurnError{Key: inv.Key, Method: inv.Method, Err: actor.ErrNotReadOnly}
	}
	return actor.Reply{Payload: inv.Payload, Version: uint64(n)}, nil
}

// Begin implements Host. Its calls run where they are begun, as turns of idle
// actors do, or, after elsewhere is set, elsewhere.
func (h *fakeHost) Begin(ctx context.Context, inv actor.Invocation, to host.Receiver) host.Begun {
	h.mu.Lock()
	elsewhere := h.elsewhere
	h.mu.Unlock()
	if !elsewhere {
		to.Answer(h.Invoke(ctx, inv))
		return notGivenUp{}
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		to.Answer(h.Invoke(ctx, inv))
	}()
	return givenUp(cancel)
}

type notGivenUp struct{}

func (notGivenUp) GiveUp() { panic("a call was given up that was answered") }

type givenUp func()

func (f givenUp) GiveUp() { f() }

// does decides what every invocation does from now on.
func (h *fakeHost) does(invoke func(ctx context.Context, inv actor.Invocation) (actor.Reply, error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.invoke = invoke
}

// fails answers every invocation with err, as its turn's.
func (h *fakeHost) fails(err error) {
	h.does(func(_ context.Context, inv actor.Invocation) (actor.Reply, error) {
		return actor.Reply{}, &actor.TurnError{Key: inv.Key, Method: inv.Method, Err: err}
	})
}

// blocks makes invocations wait until release is closed or their context ends;
// entered gets one value for each that began, ended the error of each that ended.
func (h *fakeHost) blocks() (entered <-chan struct{}, release chan struct{}, ended <-chan error) {
	began, over, release := make(chan struct{}, 100), make(chan error, 100), make(chan struct{})
	h.does(func(ctx context.Context, inv actor.Invocation) (actor.Reply, error) {
		began <- struct{}{}
		select {
		case <-release:
			over <- nil
			return actor.Reply{Payload: inv.Payload, Version: 1}, nil
		case <-ctx.Done():
			over <- ctx.Err()
			return actor.Reply{}, ctx.Err()
		}
	})
	return began, release, over
}

// last returns the latest invocation, and forgets it.
func (h *fakeHost) last() (actor.Invocation, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.calls) == 0 {
		return actor.Invocation{}, false
	}
	inv := h.calls[len(h.calls)-1]
	h.calls = nil
	return inv, true
}

func (h *fakeHost) Delete(_ context.Context, key actor.Key) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if key.ID == "none" {
		return &actor.TurnError{Key: key, Err: actor.ErrActorNotFound}
	}
	h.deleted = append(h.deleted, key)
	return nil
}

func (h *fakeHost) View(_ context.Context, key actor.Key) (host.View, error) {
	if key.ID == "none" {
		return host.View{}, &actor.TurnError{Key: key, Err: actor.ErrActorNotFound}
	}
	return host.View{
		Key: key, Version: 7, Generation: 2, StateSchema: 3, StateSize: 11, UpdatedAt: time.Unix(5, 0),
		Active: true, QueueDepth: 4,
		Entries: []envelope.Entry{
			{Key: "a", Format: abi.FormatJSON, Value: []byte(`1`)},
			{Key: "b", Format: abi.FormatBytes, Value: []byte{0, 255}},
		},
	}, nil
}

// fakeLister has n actors with IDs of three digits.
type fakeLister int

func (n fakeLister) ListServices(_ context.Context, q actor.ServiceQuery) (list []actor.Service, err error) {
	for i := range int(n) {
		if name := fmt.Sprintf("service-%d", i); name > q.After && len(list) < q.Limit {
			list = append(list, actor.Service{Name: name, Actor: actor.Key{App: q.App, Type: "Counter", ID: "a"}})
		}
	}
	return list, nil
}

func (n fakeLister) ListActors(_ context.Context, q store.ActorQuery) (infos []store.ActorInfo, next string, err error) {
	for i := range int(n) {
		id := fmt.Sprintf("%03d", i)
		if id > q.After && len(infos) < q.Limit {
			infos = append(infos, store.ActorInfo{Key: actor.Key{App: q.App, Type: q.Type, ID: id}, Version: 1, StateSize: 2, UpdatedAt: time.Unix(9, 0)})
			if len(infos) == q.Limit {
				next = id
			}
		}
	}
	return infos, next, nil
}

// ScanActors has {"n": N} as the state of actor N.
func (n fakeLister) ScanActors(_ context.Context, q store.ActorScan, visit func(*store.ScannedActor) bool) (examined int, next string, err error) {
	for i := range int(n) {
		id := fmt.Sprintf("%03d", i)
		if id <= q.After || id < q.From || q.Before != "" && id >= q.Before {
			continue
		}
		examined++
		row := store.ScannedActor{ActorInfo: store.ActorInfo{Key: actor.Key{App: q.App, Type: q.Type, ID: id}, Version: 1, StateSize: 2, UpdatedAt: time.Unix(9, 0)}}
		row.State = actor.EncodedState{Format: actor.FormatJSON, Data: fmt.Appendf(nil, `{"n":%d}`, i)}
		if !visit(&row) || examined == q.Limit {
			return examined, id, nil
		}
	}
	return examined, "", nil
}

// fakeModules keeps modules in memory; a module that does not begin like Wasm
// has two faults.
type fakeModules struct {
	mu      sync.Mutex
	modules map[actor.Digest][]byte
	history []actor.Deployment // of type Counter, oldest first

	uploading chan struct{}                 // if set, Upload waits for it to be closed
	services  map[string]modules.ServedType // by app and name, with a slash between them
}

const (
	wasmMagic    = "\x00asm"
	fakeManifest = `{"abi":1,"sdk":"test 1","types":[{"name":"Counter","methods":[{"name":"Add"},{"name":"Get","read_only":true}]}]}`
)

func newFakeModules() *fakeModules { return &fakeModules{modules: make(map[actor.Digest][]byte)} }

func (f *fakeModules) describe(app string, d actor.Digest) actor.Module {
	return actor.Module{App: app, Digest: d, Size: int64(len(f.modules[d])), Manifest: []byte(fakeManifest), CreatedAt: time.Unix(1, 0)}
}

func (f *fakeModules) Upload(ctx context.Context, app string, code actor.Code, progress func(modules.Stage)) (actor.Module, error) {
	if f.uploading != nil {
		select {
		case <-f.uploading:
		case <-ctx.Done():
			return actor.Module{}, ctx.Err()
		}
	}
	wasm := make([]byte, code.Size())
	if _, err := io.ReadFull(io.NewSectionReader(code, 0, code.Size()), wasm); err != nil {
		return actor.Module{}, err
	}
	progress(modules.StageValidating)
	if !strings.HasPrefix(string(wasm), wasmMagic) {
		return actor.Module{}, &actor.InvalidModuleError{Faults: []actor.Fault{{Code: "not_wasm", Message: "no magic"}, {Code: "too_short", Message: "more is needed"}}}
	}
	progress(modules.StageStoring)
	f.mu.Lock()
	defer f.mu.Unlock()
	d := actor.DigestOf(wasm)
	f.modules[d] = slices.Clone(wasm)
	return f.describe(app, d), nil
}

func (f *fakeModules) find(prefix actor.Digest) (actor.Digest, error) {
	for d := range f.modules {
		if strings.HasPrefix(string(d), string(prefix)) {
			return d, nil
		}
	}
	return "", fmt.Errorf("%w: %s", actor.ErrModuleNotFound, prefix)
}

func (f *fakeModules) Module(_ context.Context, app string, prefix actor.Digest) (actor.Module, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d, err := f.find(prefix)
	if err != nil {
		return actor.Module{}, err
	}
	return f.describe(app, d), nil
}

func (f *fakeModules) List(_ context.Context, app string, after actor.Digest, limit int) ([]actor.Module, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ms []actor.Module
	for d := range f.modules {
		if d > after {
			ms = append(ms, f.describe(app, d))
		}
	}
	slices.SortFunc(ms, func(a, b actor.Module) int { return strings.Compare(string(a.Digest), string(b.Digest)) })
	return ms[:min(limit, len(ms))], nil
}

func (f *fakeModules) Bytes(_ context.Context, _ string, prefix actor.Digest) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d, err := f.find(prefix)
	return f.modules[d], err
}

func (f *fakeModules) Delete(_ context.Context, _ string, prefix actor.Digest) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	d, err := f.find(prefix)
	if err != nil {
		return err
	}
	if n := len(f.history); n > 0 && f.history[n-1].Digest == d {
		return actor.ErrModuleInUse
	}
	delete(f.modules, d)
	return nil
}

func (f *fakeModules) deploy(d actor.Deployment) actor.Deployment {
	d.Generation = uint64(len(f.history) + 1)
	f.history = append(f.history, d)
	return d
}

func (f *fakeModules) Deploy(_ context.Context, req modules.DeployRequest) ([]actor.Deployment, []string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d, err := f.find(req.Digest)
	if err != nil {
		return nil, nil, err
	}
	return []actor.Deployment{f.deploy(actor.Deployment{App: req.App, Type: "Counter", Digest: d})}, []string{"method Old is gone"}, nil
}

func (f *fakeModules) Undeploy(_ context.Context, req modules.UndeployRequest) ([]actor.Deployment, []string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.history) == 0 {
		return nil, nil, actor.ErrTypeNotFound
	}
	return []actor.Deployment{f.deploy(actor.Deployment{App: req.App, Type: req.Types[0], Message: req.Message})}, []string{"reminders"}, nil
}

// Apps are a, b and c, with as many types and modules as their place in the alphabet.
func (f *fakeModules) Apps(_ context.Context, after string, limit int) ([]store.AppInfo, error) {
	var apps []store.AppInfo
	for i, name := range []string{"a", "b", "c"} {
		if name > after && len(apps) < limit {
			apps = append(apps, store.AppInfo{App: name, Types: i + 1, Modules: i + 1})
		}
	}
	return apps, nil
}

func (f *fakeModules) Rollback(_ context.Context, req modules.RollbackRequest) (actor.Deployment, []string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if req.Generation == 0 || req.Generation > uint64(len(f.history)) {
		return actor.Deployment{}, nil, actor.ErrNoGeneration
	}
	back := f.history[req.Generation-1]
	return f.deploy(actor.Deployment{App: req.App, Type: req.Type, Digest: back.Digest, RolledBackFrom: uint64(len(f.history))}), nil, nil
}

func (f *fakeModules) History(_ context.Context, _, typ string, before uint64, limit int) ([]actor.Deployment, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ds []actor.Deployment
	for _, d := range slices.Backward(f.history) {
		if d.Type == typ && (before == 0 || d.Generation < before) && len(ds) < limit {
			ds = append(ds, d)
		}
	}
	return ds, nil
}

func (f *fakeModules) Types(context.Context, string) ([]modules.ServedType, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.history) == 0 {
		return nil, nil
	}
	return []modules.ServedType{{
		Spec:       &abi.TypeSpec{Name: "Counter", Placement: "ring", Instance: "shared", Pool: "user", Methods: []abi.MethodSpec{{Name: "Get", ReadOnly: true}}},
		Deployment: f.history[len(f.history)-1],
	}}, nil
}

func (f *fakeModules) Current(app, typ string) (actor.Deployment, *abi.TypeSpec, error) {
	for _, t := range f.serves() {
		if t.Spec.Name == typ {
			return t.Deployment, t.Spec, nil
		}
	}
	ts, _ := f.Types(context.Background(), app)
	for _, t := range ts {
		if t.Spec.Name == typ {
			return t.Deployment, t.Spec, nil
		}
	}
	return actor.Deployment{}, nil, actor.ErrTypeNotFound
}

func (f *fakeModules) serves() map[string]modules.ServedType {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.services
}

// serve replaces what is served, also while requests are under way.
func (f *fakeModules) serve(services map[string]modules.ServedType) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.services = services
}

func (f *fakeModules) HasService(service string) bool {
	for name := range f.serves() {
		if _, of, _ := strings.Cut(name, "/"); of == service {
			return true
		}
	}
	return false
}

func (f *fakeModules) ServiceType(app, service string) (modules.ServedType, bool) {
	t, ok := f.serves()[app+"/"+service]
	return t, ok
}

func (f *fakeModules) Services(app string) (names []string) {
	for name := range f.serves() {
		if in, of, _ := strings.Cut(name, "/"); in == app {
			names = append(names, of)
		}
	}
	slices.Sort(names)
	return names
}
