package turn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/host/overlay"
)

// Env is what all turns of a host share.
type Env struct {
	Random    func([]byte) // fills its argument with the seed of a run's random numbers
	Revisions *overlay.Revisions
	Logger    *slog.Logger
	// Settings and Egress may be nil: then no app has settings, and nothing is sent.
	Settings Settings
	Egress   Egress
	// Reminders and Timers may be nil: then there are none.
	Reminders Reminders
	Timers    Timers
	// Outbox may be nil: then no messages are sent.
	Outbox Outbox
	// Types may be nil: then every type has actors that publish.
	Types Types
	// Services may be nil: then there are none.
	Services Services
	// Followers may be nil: then there are no services to watch.
	Followers Followers
	// Hosts may be nil: then all actors are here.
	Hosts Hosts
	// Logged gets the lines that guests log; nil: they go to Logger. Sent gets each
	// request when it is answered.
	Logged func(Log)
	Sent   func(EgressEnd)
}

// Spec is what one turn is to do, and within which bounds.
type Spec struct {
	Key          actor.Key
	Method       string
	InvocationID string
	Trace        *actor.Trace // of the call; nil: none
	// Run counts the runs of the turn, from 1 on. Discarded means that an earlier
	// run logged something, which has not happened: this run logs that first.
	Run       int
	Discarded bool
	Payload   actor.Payload
	Now       time.Time // as the guest sees it
	ReadOnly  bool
	Stateless bool
	// State is what it runs on, Revision names it for the guest's caches (abi/SPEC.md
	// section 5), and Version is the actor's as guests see it.
	State    *overlay.State
	Revision uint64
	Version  uint64
	Life     uint64
	// StateBytes and PayloadBytes bound the state after the turn and the reply.
	StateBytes, PayloadBytes int64
	// StateSetting and PayloadSetting are what sets the two, for people.
	StateSetting, PayloadSetting string
	Fuel                         uint64 // 0: no bound
	Uses                         abi.Capabilities
	// Leaver is asked before anything leaves the host.
	Leaver Leaver
	// Methods says what reminders and timers may run.
	Methods Methods
	// MethodSet is the set of methods that the actor accepts; empty: all.
	MethodSet string
	// Awaited means that another turn of the actor waits for this one.
	Awaited bool
	// Spawner names actors that the turn spawns.
	Spawner Spawner
	// ReminderBytes bounds what the turn's reminders take, together.
	ReminderBytes int64
	// Firing is the delivery of a reminder that asks for the turn, or for the turn of the same actor
	// that waits for this one; nil: none does. Fired is that reminder as it was found; nil: it was not
	// looked up.
	Firing *actor.Firing
	Fired  *actor.Reminder
	// Timer is the firing of a timer that asks for the turn; without a name: none does.
	Timer TimerFiring
	// Message is the volatile message that asks for the turn; nil: none does.
	Message *actor.Message
	// From is the actor whose turn calls this one; zero: the turn is the outermost.
	From actor.Key
	// Caller runs the turns that this one calls.
	Caller Caller
}

// Caller runs turns of other actors for a turn.
type Caller interface {
	// Call runs what a message asks for. An error ends the guest that called. The code is
	// [abi.CodeReadOnly] if the turn is read-only and the method is not; otherwise 0.
	Call(m *abi.Message) (*abi.Result, abi.Code, error)
}

// TimerFiring is a timer that fires, and when it was due.
type TimerFiring struct {
	Name string
	Due  time.Time
}

// Leaver readies a turn for something that leaves the host, or that rests on more than
// its own state. An error ends the guest: then nothing has left.
type Leaver interface {
	Leave() error
	// Await waits until all that the turn could have observed is durable.
	Await() error
	// ChangedService returns the actor, beside the turn's own, that has claimed or released a service in the
	// same chain; nil if none has.
	ChangedService(name string) *actor.Key
}

// Methods are those of an actor type.
type Methods interface {
	// MethodProblem says why a "reminder" or "timer" cannot run a method, for people;
	// empty if it can.
	MethodProblem(of, method string) string
	// SetProblem says why an actor cannot have a method set, for people; empty if it can.
	SetProblem(set string) string
}

// Turn is one run of a guest: it is what the guest calls, [engine.Calls]. The zero
// value is ready for Prepare.
type Turn struct {
	env       *Env
	spec      Spec
	ctx       context.Context
	migrating bool
	state     overlay.Overlay
	reply     actor.Payload
	fault     error  // that ends the turn, whatever the guest makes of it
	excess    string // why the last reply or write of state was too large; empty if it was not
	logLines  int
	fuel      engine.Fuel
	rng       rand.ChaCha8
	seeded    bool
	buf       []byte // what StateKeys and StateJSON return
	frame     abi.Turn
	reminders reminders
	effects
}

var _ engine.Calls = (*Turn)(nil)

// Prepare readies t for one run.
func (t *Turn) Prepare(env *Env, spec *Spec) {
	t.discard(t.env, t.spec.Key.App)
	t.env, t.spec = env, *spec
	t.migrating, t.reply, t.logLines, t.seeded = false, actor.Payload{}, 0, false
	t.fuel = engine.Fuel{Limit: spec.Fuel}
	t.excess, t.reminders, t.fault = "", reminders{}, nil
	t.state.Reset(spec.State, env.Revisions, spec.Revision, spec.StateBytes)
	t.frame = abi.Turn{
		What:         abi.WhatMethod,
		App:          spec.Key.App,
		Type:         spec.Key.Type,
		ID:           spec.Key.ID,
		Method:       spec.Method,
		InvocationID: spec.InvocationID,
		TimeUnixNano: spec.Now.UnixNano(),
		ContentType:  spec.Payload.ContentType,
		Payload:      spec.Payload.Data,
	}
	t.frame.MethodSet = spec.MethodSet
	if spec.ReadOnly {
		t.frame.Flags = abi.FlagReadOnly
	}
	switch f := spec.Firing; {
	case f == nil, spec.From.ID != "":
	case f.Pull != nil:
		fillEvent(&t.frame, f)
	case f.Message != nil:
		fillMessage(&t.frame, f.Message)
		t.frame.DueUnixNano, t.frame.Attempt = nano(f.SentAt), f.Attempt
	default:
		t.frame.Cause, t.frame.CauseName, t.frame.DueUnixNano = abi.CauseReminder, f.Name, nano(f.Due)
		t.frame.Attempt, t.frame.Missed, t.frame.Metadata = f.Attempt, f.Missed, headersOf(f.Metadata)
	}
	if m := spec.Message; m != nil && spec.From.ID == "" {
		fillMessage(&t.frame, m)
		t.frame.Attempt = 1
	}
	if spec.From.ID != "" {
		t.frame.Cause, t.frame.CallerType, t.frame.CallerID = abi.CauseCall, spec.From.Type, spec.From.ID
	}
	if f := spec.Timer; f.Name != "" {
		t.frame.Cause, t.frame.CauseName, t.frame.DueUnixNano, t.frame.Attempt = abi.CauseTimer, f.Name, nano(f.Due), 1
	}
}

// Before is what is run before a method, in the same turn.
type Before struct {
	Migrate            *uint32 // the migration of a state of that schema; nil: none
	Created, Activated string  // hooks; empty: none
}

// Run runs the method, and what comes before it. The error is as that of [engine.Instance], or
// [ErrPanicked].
func (t *Turn) Run(ctx context.Context, guest engine.Instance, before Before) error {
	method := t.frame
	if before.Migrate != nil {
		if err := t.Migrate(ctx, guest, *before.Migrate); err != nil {
			return err
		}
	} else {
		t.begin(ctx)
	}
	if err := moveCursor(t); err != nil {
		return err
	}
	if err := t.hook(ctx, guest, &method, before.Created); err != nil {
		return err
	}
	if err := t.hook(ctx, guest, &method, before.Activated); err != nil {
		return err
	}
	t.done.Life.Created = t.done.Life.Created || before.Created != ""
	t.done.Life.Activated = t.done.Life.Activated || before.Activated != ""
	t.frame = method
	t.frame.Revision = t.state.Revision()
	return t.runFrame(ctx, guest)
}

// Migrate runs the migration of a state of that schema, and nothing else. The error is as
// that of Run.
func (t *Turn) Migrate(ctx context.Context, guest engine.Instance, from uint32) error {
	t.begin(ctx)
	t.frame = abi.Turn{
		What: abi.WhatMigrate, App: t.frame.App, Type: t.frame.Type, ID: t.frame.ID,
		InvocationID: t.frame.InvocationID, TimeUnixNano: t.frame.TimeUnixNano,
		StoredSchema: from, Revision: t.state.Revision(),
	}
	t.migrating = true
	if err := t.runFrame(ctx, guest); err != nil {
		return err
	}
	t.migrating, t.reply = false, actor.Payload{}
	return nil
}

func (t *Turn) begin(ctx context.Context) {
	t.ctx = ctx
	if t.spec.Discarded {
		t.Log(int32(slog.LevelWarn), "the run before was discarded, with what it logged; this is another run of the turn")
	}
}

// ErrPanicked is the error of a run that has panicked, in the engine or in the
// host. Callers learn no more; the log has the rest.
var ErrPanicked = errors.New("the host has failed while it ran the turn")

// HasLogged reports whether the guest logged anything.
func (t *Turn) HasLogged() bool { return t.logLines > 0 }

func (t *Turn) runFrame(ctx context.Context, guest engine.Instance) error {
	err := t.runGuest(ctx, guest)
	if t.fault != nil {
		return t.fault
	}
	if err == nil {
		return nil
	}
	var trap *actor.TrapError
	if errors.As(err, &trap) {
		// A panic's text is whatever the guest had in memory.
		trap.Message = cut(trap.Message, maxTrapText)
		trap.Stack = cut(trap.Stack, maxTrapText)
	}
	// SDKs do not know the limit.
	if guest := (*actor.GuestError)(nil); t.excess != "" && errors.As(err, &guest) && guest.Code == codeTooLarge {
		guest.Message += ": " + t.excess
	}
	return err
}

// codeTooLarge is the code by which the SDKs report abi.CodeTooLarge.
const codeTooLarge = "too_large"

func (t *Turn) runGuest(ctx context.Context, guest engine.Instance) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = Panicked(t.env.Logger, t.spec.Key, t.spec.Trace, v)
		}
	}()
	return guest.Run(ctx, &t.frame, t)
}

// Panicked logs a panic of ours that met a turn of an actor, and returns the turn's
// error. The turn's trace may be nil.
func Panicked(log *slog.Logger, key actor.Key, tr *actor.Trace, v any) error {
	log.LogAttrs(context.Background(), slog.LevelError, "turn panicked", tr.AppendLog([]slog.Attr{
		slog.String("app", key.App), slog.String("actor_type", key.Type), slog.String("actor_id", key.ID),
		slog.String("panic", fmt.Sprint(v)), slog.String("stack", string(debug.Stack())),
	})...)
	return ErrPanicked
}

// Seal returns the state after the run, and whether it is another one than before;
// an [*actor.StateTooLargeError] if that is above the limit.
func (t *Turn) Seal() (state *overlay.State, changed bool, err error) {
	state, changed, err = t.state.Seal()
	if large := (*actor.StateTooLargeError)(nil); errors.As(err, &large) {
		large.Setting = t.spec.StateSetting
	}
	return state, changed, err
}

// Context is that of the run.
func (t *Turn) Context() context.Context { return t.ctx }

// Payload is the reply that the guest gave.
func (t *Turn) Payload() actor.Payload { return t.reply }

// Replace lets the guest go on, after a call, on what another turn has left of its state.
func (t *Turn) Replace(state *overlay.State, rev uint64) { t.state.Replace(state, rev) }

// Forget drops everything that must not outlive the run.
func (t *Turn) Forget() {
	t.discard(t.env, t.spec.Key.App)
	t.spec, t.frame, t.reply, t.ctx, t.env = Spec{}, abi.Turn{}, actor.Payload{}, nil, nil
	t.excess, t.reminders = "", reminders{}
	t.state.Reset(noState, nil, 0, 0)
	if cap(t.buf) > 64<<10 {
		t.buf = nil
	}
}

var noState = &overlay.State{}

// Now implements [engine.Calls].
func (t *Turn) Now() time.Time { return t.spec.Now }

// Call implements [engine.Calls].
func (t *Turn) Call(m *abi.Message) (*abi.Result, abi.Code, error) {
	if t.migrating {
		return nil, abi.CodeReadOnly, nil
	}
	if m.Service != "" {
		switch code := t.resolve(m); code {
		case 0:
		case abi.CodeNotFound:
			return &abi.Result{Error: abi.Error{Status: abi.StatusNotFound, Code: abi.CallServiceNotFound, Message: t.reminders.problem}}, 0, nil
		case abi.CodeInvalid:
			return &abi.Result{Error: abi.Error{Status: abi.StatusInvalidArgument, Code: abi.CallInvalid, Message: t.reminders.problem}}, 0, nil
		default:
			return &abi.Result{Error: abi.Error{Status: abi.StatusUnavailable, Code: abi.CallUnavailable, Message: t.reminders.problem, Retryable: true}}, 0, nil
		}
	}
	return t.spec.Caller.Call(m)
}

// Fuel implements [engine.Calls].
func (t *Turn) Fuel() *engine.Fuel { return &t.fuel }

// Random implements [engine.Calls].
func (t *Turn) Random(p []byte) {
	if !t.seeded {
		var seed [32]byte
		t.env.Random(seed[:])
		t.rng.Seed(seed)
		t.seeded = true
	}
	t.rng.Read(p) // never fails
}

// SideEffects is what turns of a chain have done to the reminders and timers of one actor, and the
// volatile messages and events that they have sent as that actor. It does not change: the next turn of that actor in the chain goes on from a copy.
type SideEffects struct {
	Reminders actor.ReminderEffects
	Timers    TimerChanges
	Tells     []actor.Tell
	TellBytes int64 // their sizes together
	Events    []actor.EventWrite
	Life      Life
}

// effects is what the chain of a turn has done by now, with the turn.
type effects struct {
	done   SideEffects
	tokens []actor.ReminderID // of the reminders that the turn itself has set, until they are handed over
}

// GoOnFrom lets the run begin, or go on, with what turns of its chain have done before.
func (e *effects) GoOnFrom(before *SideEffects) {
	r := &before.Reminders
	e.done.Reminders = actor.ReminderEffects{Steps: slices.Clone(r.Steps), Cancel: slices.Clone(r.Cancel), Set: slices.Clone(r.Set)}
	e.done.Timers = before.Timers.clone()
	e.done.Tells, e.done.TellBytes = slices.Clone(before.Tells), before.TellBytes
	e.done.Events = slices.Clone(before.Events)
	e.done.Life = before.Life
	e.done.Life.Spawned = slices.Clone(before.Life.Spawned)
	e.done.Life.Services = slices.Clone(before.Life.Services)
}

// Adopt adds what a called turn of a type without state has done, whose tokens the chain has.
func (e *effects) Adopt(called *actor.ReminderEffects) { e.done.Reminders.Add(called) }

// SideEffects returns what the chain has done by now, with the run.
func (e *effects) SideEffects() SideEffects { return e.done }

// Tokens returns those of the reminders that the run itself has set. They are the caller's from
// then on.
func (e *effects) Tokens() []actor.ReminderID {
	tokens := e.tokens
	e.tokens = nil
	return tokens
}

// TimerChanges returns what is done to the actor's timers and watches. The caller owns it.
func (e *effects) TimerChanges() TimerChanges {
	changes := e.done.Timers
	e.done.Timers = TimerChanges{}
	return changes
}

// Tells returns the volatile messages that are sent. The caller owns them.
func (e *effects) Tells() []actor.Tell {
	tells := e.done.Tells
	e.done.Tells, e.done.TellBytes = nil, 0
	return tells
}

// Publishes adds an event that the host publishes with the turn.
func (e *effects) Publishes(event actor.EventWrite) { e.done.Events = append(e.done.Events, event) }

// Published returns the events that are published. The caller owns them.
func (e *effects) Published() []actor.EventWrite {
	events := e.done.Events
	e.done.Events = nil
	return events
}

// discard forgets all that was done, and gives back the tokens of reminders that were not handed
// over: the guest does not know them.
func (e *effects) discard(env *Env, app string) {
	if len(e.tokens) > 0 {
		env.Reminders.Unused(app, e.tokens)
	}
	*e = effects{}
}
