package inhost

import (
	"context"
	"errors"
	"os"
	"strconv"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/must"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/engine/compile"
	"github.com/greenroom-run/greenroom/engine/wasm"
	"github.com/greenroom-run/greenroom/host/overlay"
)

// GuestRole runs the guest with no host around it: what is left of a turn when
// nobody queues, commits or answers it. It is what no host on the same engine can
// be cheaper than.
const GuestRole = "guest-alone"

// GuestSpec says how to run it. The plan has one call outstanding.
type GuestSpec struct {
	Wasm       string // path of the module
	Plan       load.Plan
	StateBytes int
	Method     string
	Payload    string // JSON
	ReadOnly   bool
}

// guestMemory is what an instance may have, in bytes: the host's default.
const guestMemory = 64 << 20

// Guest plays [GuestRole].
func Guest(ctx context.Context, s GuestSpec) (load.Result, error) {
	turn, end := s.Open(ctx)
	defer must.Close(end)
	return load.Drive(ctx, s.Plan, func(ctx context.Context, _, target, _ int) error { return turn(ctx, target) })
}

// Open makes one instance that runs the turns of all actors of the plan, and is made
// as it was between two of them. turn runs one of an actor; one goroutine at a time
// calls it. end closes the instance.
func (s GuestSpec) Open(ctx context.Context) (turn func(ctx context.Context, target int) error, end func() error) {
	module := must.Get(os.ReadFile(s.Wasm))
	engine := must.Get(wasm.New(ctx, wasm.Config{EngineConfig: compile.EngineConfig{Logger: quiet}}))
	program := must.Get(engine.Load(ctx, actor.DigestOf(module), func(context.Context) ([]byte, error) { return module, nil }))
	guest := must.Get(program.NewInstance(ctx, guestMemory))
	all := make([]aloneActor, s.Plan.Actors)
	t := &aloneTurn{now: time.Now()}
	fill := GuestSpec{Method: "Fill", Payload: strconv.Itoa(s.StateBytes)}
	for i := range all {
		all[i] = aloneActor{id: "c" + strconv.Itoa(i), state: &overlay.State{}}
		must.Check(t.run(ctx, guest, &all[i], fill))
	}
	return func(ctx context.Context, target int) error { return t.run(ctx, guest, &all[target], s) },
		func() error { return errors.Join(guest.Close(ctx), engine.Close(ctx)) }
}

// aloneActor is an actor of [GuestSpec.Open].
type aloneActor struct {
	id    string
	state *overlay.State
	rev   uint64
}

// aloneTurn is what the guest of a counter asks for. Any other call is a nil
// method's.
type aloneTurn struct {
	engine.Calls
	now   time.Time
	revs  overlay.Revisions
	state overlay.Overlay
	fuel  engine.Fuel
	buf   []byte
	reply []byte
}

func (t *aloneTurn) run(ctx context.Context, guest engine.Instance, a *aloneActor, s GuestSpec) error {
	const stateLimit = 1 << 20
	t.state.Reset(a.state, &t.revs, a.rev, stateLimit)
	t.fuel = engine.Fuel{}
	frame := abi.Turn{
		What: abi.WhatMethod, App: actor.DefaultApp, Type: "Counter", ID: a.id, Method: s.Method, InvocationID: "bench",
		TimeUnixNano: t.now.UnixNano(), Revision: a.rev, Payload: []byte(s.Payload),
	}
	if s.ReadOnly {
		frame.Flags = abi.FlagReadOnly
	}
	err := guest.Run(ctx, &frame, t)
	if err != nil || s.ReadOnly {
		return err
	}
	if a.state, _, err = t.state.Seal(); err != nil {
		return err
	}
	a.rev = t.state.Revision()
	return nil
}

func (t *aloneTurn) StateGet(key []byte) ([]byte, abi.Format, abi.Code) {
	value, format, ok := t.state.Get(key)
	if !ok {
		return nil, 0, abi.CodeNotFound
	}
	return value, format, 0
}

func (t *aloneTurn) StateSet(key, value []byte, format abi.Format) abi.Code {
	return t.state.Set(key, value, format)
}

func (t *aloneTurn) StateJSON() ([]byte, abi.Code) {
	t.buf = t.state.AppendJSON(t.buf[:0])
	return t.buf, 0
}

func (t *aloneTurn) StatePatch(before, after []byte) (int, abi.Code) {
	return t.state.Patch(before, after)
}

func (t *aloneTurn) StateVersion() uint64  { return 1 }
func (t *aloneTurn) StateRevision() uint64 { return t.state.Revision() }

func (t *aloneTurn) Reply(_ string, payload []byte) abi.Code {
	t.reply = append([]byte(nil), payload...)
	return 0
}

func (t *aloneTurn) Now() time.Time     { return t.now }
func (t *aloneTurn) Fuel() *engine.Fuel { return &t.fuel }
func (t *aloneTurn) Log(int32, string)  {}
