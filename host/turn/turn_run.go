package turn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/host/overlay"
)

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

// hook runs a hook before a method, whose frame is given.
func (t *Turn) hook(ctx context.Context, guest engine.Instance, method *abi.Turn, name string) error {
	if name == "" {
		return nil
	}
	t.frame = abi.Turn{
		What: abi.WhatMethod, App: method.App, Type: method.Type, ID: method.ID, Method: name,
		InvocationID: method.InvocationID, TimeUnixNano: method.TimeUnixNano, MethodSet: method.MethodSet, Revision: t.state.Revision(),
	}
	err := t.runFrame(ctx, guest)
	if guest := (*actor.GuestError)(nil); errors.As(err, &guest) {
		guest.Message = "the hook " + name + ": " + guest.Message
	}
	t.reply = actor.Payload{}
	return err
}

// Effects returns what the run asks of reminders, with the step of its firing. The caller
// owns it.
func (t *Turn) Effects() actor.ReminderEffects {
	e := t.done.Reminders
	t.done.Reminders, t.tokens = actor.ReminderEffects{}, nil
	if f := t.spec.Firing; f != nil {
		e.Steps = []actor.ReminderStep{f.Step}
	}
	return e
}
