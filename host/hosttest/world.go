package hosttest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/host"
)

// Func is a method. A [*actor.GuestError] fails the turn on purpose, as any
// other error does with status unknown; a panic is a trap. After the end of
// Context the outcome is that of a stopped guest, whatever it returns.
type Func func(t *Turn) error

// Actor is an actor type written in Go.
type Actor struct {
	Placement   string // defaults to ring
	Instance    string // defaults to shared, for sticky to dedicated
	Pool        string // defaults to user
	StateSchema uint32
	Limits      abi.Limits
	Uses        abi.Capabilities
	Methods     map[string]Func
	ReadOnly    map[string]Func
	// Atomic are the methods that are called in their callers' commits only.
	Atomic    map[string]bool
	Reentrant []string // methods
	Private   []string // methods
	Life      Life
	Messages  abi.MessagePolicy
	// Migrate takes migrate turns, if there is one.
	Migrate Func
	// MemoryBytes is what an instance claims to hold.
	MemoryBytes int64
	// Late lets a turn that returns after its context has ended be done all the
	// same, like a guest that was only just quick enough.
	Late bool
	// Yields says that the functions wait for nothing but by [Turn.Yield], as guests do. Other
	// functions may wait for anything, and their turns have no slot of host.Config.Slots.
	Yields bool
	// MakeError fails every NewInstance.
	MakeError error
}

// Life is what the manifest of a type says of the lives of its actors.
type Life struct {
	Sets  map[string][]string // of each method
	Hooks abi.Hooks           // names of Methods
	Spawn string
	// WaitsOutside has calls of methods outside an actor's set wait.
	WaitsOutside bool
}

func (a *Actor) spec(name string) *abi.TypeSpec {
	s := &abi.TypeSpec{
		Name: name, Placement: a.Placement, Instance: a.Instance, Pool: cmp.Or(a.Pool, abi.PoolUser),
		StateSchema: a.StateSchema, Migrate: a.Migrate != nil, Limits: a.Limits, Capabilities: a.Uses, Hooks: a.Life.Hooks, Spawn: a.Life.Spawn, Messages: a.Messages,
	}
	if s.Placement == "" {
		s.Placement = abi.PlacementRing
	}
	if s.Instance == "" {
		s.Instance = abi.InstanceShared
		if s.Placement == abi.PlacementSticky {
			s.Instance = abi.InstanceDedicated
		}
	}
	if a.Life.WaitsOutside {
		s.OutsideSet = abi.OutsideSetWait
	}
	for m := range a.Methods {
		spec := abi.MethodSpec{Name: m}
		if a.Atomic[m] {
			spec.Atomic = abi.AtomicRequired
		}
		s.Methods = append(s.Methods, spec)
	}
	for m := range a.ReadOnly {
		s.Methods = append(s.Methods, abi.MethodSpec{Name: m, ReadOnly: true})
	}
	for i := range s.Methods {
		s.Methods[i].Reentrant = slices.Contains(a.Reentrant, s.Methods[i].Name)
		s.Methods[i].Sets = a.Life.Sets[s.Methods[i].Name]
		s.Methods[i].Private = slices.Contains(a.Private, s.Methods[i].Name)
	}
	return s
}

// World deploys native actors and runs them. It is safe for concurrent use.
type World struct {
	mu       sync.Mutex
	types    map[host.Scope]*serving // what Current shows
	newest   map[host.Scope]*serving // what Refresh will show
	programs map[actor.Digest]*program
	unread   error // what Refresh fails with
	changes  atomic.Uint64
	open     atomic.Int64
}

type serving struct {
	deployment actor.Deployment
	spec       *abi.TypeSpec
	removed    bool
}

var (
	_ engine.Engine     = (*World)(nil)
	_ host.ModuleSource = (*World)(nil)
)

// New returns a World without actor types.
func New() *World {
	return &World{
		types:    make(map[host.Scope]*serving),
		newest:   make(map[host.Scope]*serving),
		programs: make(map[actor.Digest]*program),
	}
}

// Deploy serves a type by a from now on, as its next generation.
func (w *World) Deploy(app, typ string, a Actor) actor.Deployment {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.deploy(app, typ, a)
	w.types[host.Scope{App: app, Type: typ}] = w.newest[host.Scope{App: app, Type: typ}]
	w.changes.Add(1)
	return d
}

// DeployElsewhere is Deploy on another machine: hosts see it after a Refresh.
func (w *World) DeployElsewhere(app, typ string, a Actor) actor.Deployment {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.deploy(app, typ, a)
}

func (w *World) deploy(app, typ string, a Actor) actor.Deployment {
	scope := host.Scope{App: app, Type: typ}
	d := actor.Deployment{App: app, Type: typ, Generation: 1, StateSchema: a.StateSchema}
	if was := w.newest[scope]; was != nil {
		d.Generation = was.deployment.Generation + 1
	}
	d.Digest = actor.DigestOf(fmt.Appendf(nil, "%s %d", scope, d.Generation))
	w.programs[d.Digest] = &program{world: w, actor: a}
	w.newest[scope] = &serving{deployment: d, spec: a.spec(typ)}
	return d
}

// Remove ends serving a type.
func (w *World) Remove(app, typ string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	scope := host.Scope{App: app, Type: typ}
	delete(w.types, scope)
	w.newest[scope].removed = true
	w.changes.Add(1)
}

// Current implements host.ModuleSource.
func (w *World) Current(app, typ string) (actor.Deployment, *abi.TypeSpec, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.types[host.Scope{App: app, Type: typ}]
	if s == nil {
		return actor.Deployment{}, nil, actor.ErrTypeNotFound
	}
	return s.deployment, s.spec, nil
}

// Changes implements host.ModuleSource.
func (w *World) Changes() uint64 { return w.changes.Load() }

// FailRefresh has Refresh fail with err from now on; nil: it succeeds.
func (w *World) FailRefresh(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unread = err
}

// Refresh implements host.ModuleSource.
func (w *World) Refresh(_ context.Context, app string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unread != nil {
		return w.unread
	}
	w.changes.Add(1)
	for scope, s := range w.newest {
		if scope.App == app && !s.removed {
			w.types[scope] = s
		}
	}
	return nil
}

// ModuleBytes implements host.ModuleSource.
func (w *World) ModuleBytes(context.Context, string, actor.Digest) ([]byte, error) {
	return []byte("native"), nil
}

// Load implements engine.Engine.
func (w *World) Load(ctx context.Context, digest actor.Digest, wasm func(context.Context) ([]byte, error)) (engine.Program, error) {
	if _, err := wasm(ctx); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.programs[digest]
	if p == nil {
		return nil, actor.ErrModuleNotFound
	}
	return p, nil
}

// Open returns how many instances are not closed.
func (w *World) Open() int { return int(w.open.Load()) }

// CheckClosed fails the test if an instance is open.
func (w *World) CheckClosed(t testing.TB) {
	t.Helper()
	if n := w.Open(); n != 0 {
		t.Errorf("%d instances are still open", n)
	}
}

type program struct {
	world *World
	actor Actor
}

func (p *program) NewInstance(ctx context.Context, _ int64) (engine.Instance, error) {
	if p.actor.MakeError != nil {
		return nil, p.actor.MakeError
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	memory := engine.MemoryOf(ctx)
	if !memory.Take(p.actor.MemoryBytes) {
		return nil, fmt.Errorf("make native actor: %w", actor.ErrOverloaded)
	}
	p.world.open.Add(1)
	return &instance{program: p, memory: memory, local: make(map[string]any)}, nil
}

type instance struct {
	program *program
	memory  engine.Memory
	local   map[string]any
	busy    atomic.Bool
	broken  bool
	closed  bool
}

func (in *instance) Run(ctx context.Context, frame *abi.Turn, calls engine.Calls) (err error) {
	if !in.busy.CompareAndSwap(false, true) {
		panic("hosttest: an instance runs two turns at once")
	}
	defer in.busy.Store(false)
	if in.broken || in.closed {
		panic("hosttest: a broken or closed instance runs a turn")
	}
	defer func() {
		var guest *actor.GuestError
		in.broken = err != nil && !errors.As(err, &guest)
	}()
	if err := stopped(ctx); err != nil {
		return err
	}
	err = in.call(&Turn{Context: ctx, Frame: frame, Calls: calls, Local: in.local})
	if stop := stopped(ctx); stop != nil && !in.program.actor.Late {
		return stop
	}
	return err
}

func (in *instance) call(t *Turn) (err error) {
	f := in.function(t.Frame)
	if f == nil {
		return &actor.TrapError{Kind: actor.TrapProtocol, Message: "no such method"}
	}
	defer func() {
		trap := recover()
		if e, ok := trap.(*ended); ok {
			err = fmt.Errorf("run native actor: %w", e.err)
			return
		}
		if trap != nil {
			err = &actor.TrapError{Kind: actor.TrapUnreachable, Message: fmt.Sprint(trap)}
		}
	}()
	if in.program.actor.Yields {
		err = f(t)
	} else {
		engine.Outside(t.Context, func() { err = f(t) })
	}
	if err == nil {
		return nil
	}
	var guest *actor.GuestError
	if !errors.As(err, &guest) {
		guest = &actor.GuestError{Message: err.Error()}
	}
	if code := t.Calls.Fail(guest); code != 0 {
		return &actor.TrapError{Kind: actor.TrapProtocol, Message: fmt.Sprintf("fail: code %d", code)}
	}
	return guest
}

func (in *instance) function(frame *abi.Turn) Func {
	a := &in.program.actor
	if frame.What == abi.WhatMigrate {
		return a.Migrate
	}
	if f := a.Methods[frame.Method]; f != nil {
		return f
	}
	return a.ReadOnly[frame.Method]
}

func (in *instance) MemoryBytes() int64 { return in.program.actor.MemoryBytes }

func (in *instance) Close(context.Context) error {
	if in.busy.Load() {
		panic("hosttest: an instance is closed while it runs")
	}
	if !in.closed {
		in.closed = true
		in.memory.Give(in.program.actor.MemoryBytes)
		in.program.world.open.Add(-1)
	}
	return nil
}
