package turn

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/host/overlay"
)

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

// Now implements [engine.Calls].
func (t *Turn) Now() time.Time { return t.spec.Now }

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

// refuse keeps why a function of reminders or timers is refused.
func (t *Turn) refuse(code abi.Code, problem string) abi.Code {
	t.reminders.problem = problem
	return code
}

// Problem implements [engine.Calls].
func (t *Turn) Problem() string { return t.reminders.problem }

// mayChange says why the turn may do no more to reminders, 0 if it may.
func (t *Turn) mayChange() abi.Code {
	if t.reminders.changes >= maxReminderChanges {
		return t.refuse(abi.CodeTooMany, "a turn sets and cancels reminders at most "+strconv.Itoa(maxReminderChanges)+" times")
	}
	return 0
}

// ask asks the store, once all that the turn could have observed is durable.
func (t *Turn) ask(question func() error) (abi.Code, error) {
	if t.env.Reminders == nil {
		return t.refuse(abi.CodeNotReady, "this host has no reminders"), nil
	}
	var asked bool
	var err error
	engine.Outside(t.ctx, func() {
		if err = t.spec.Leaver.Await(); err == nil {
			asked, err = true, question()
		}
	})
	switch {
	case !asked:
		return 0, err
	case err == nil:
		return 0, nil
	case errors.Is(t.ctx.Err(), context.DeadlineExceeded):
		return 0, actor.ErrDeadline
	case t.ctx.Err() != nil:
		return 0, actor.ErrCanceled
	}
	t.Log(int32(slog.LevelWarn), "cannot read the store now: "+err.Error())
	return t.refuse(abi.CodeNotReady, "the host cannot read the store now"), nil
}

// mayWrite says why the turn may not change state, 0 if it may.
func (t *Turn) mayWrite() abi.Code {
	switch {
	case t.done.Life.PassedAway:
		return abi.CodeOver
	case t.spec.Stateless:
		return abi.CodeNoState
	case t.spec.ReadOnly && !t.migrating: // a migration for a reader is never kept
		return abi.CodeReadOnly
	default:
		return 0
	}
}

const passedAway = "the actor has passed away in this turn, and nothing follows"

// mayLive says why the turn may not change the life of its actor, 0 if it may.
func (t *Turn) mayLive() abi.Code {
	t.reminders.problem = ""
	switch code := t.mayWrite(); code {
	case abi.CodeOver:
		return t.refuse(code, passedAway)
	case abi.CodeNoState:
		return t.refuse(code, "the type is placed stateless, and its actors have no life")
	default:
		return code
	}
}

// mayKeep says why the turn may not do what the store keeps beside the state, 0 if it may.
func mayKeep(t *Turn) abi.Code {
	if t.spec.Key.IsAnonymous() {
		return t.refuse(abi.CodeNoState, "a volatile child has nothing in the store; have its parent do it")
	}
	return 0
}

// mayTime says why the turn may not change timers, 0 if it may.
func (t *Turn) mayTime() abi.Code {
	t.reminders.problem = ""
	switch {
	case t.done.Life.PassedAway:
		return t.refuse(abi.CodeOver, passedAway)
	case t.spec.ReadOnly && !t.migrating:
		return abi.CodeReadOnly
	case t.spec.Stateless && t.spec.From.ID != "": // no batch has its timers
		return t.refuse(abi.CodeNotReady, "a turn of a stateless type that another actor calls cannot use timers yet")
	case t.env.Timers == nil:
		return t.refuse(abi.CodeNotReady, "this host has no timers")
	}
	return 0
}

// maxLogLines bounds what one turn may log: enough to follow what it does, and
// little enough that a loop cannot fill a disk.
const maxLogLines = 1000

// maxLogText is the longest line kept, in bytes.
const maxLogText = 8 << 10

// Log implements [engine.Calls].
func (t *Turn) Log(level int32, text string) {
	t.logLines++
	if t.logLines > maxLogLines {
		return
	}
	if t.logLines == maxLogLines {
		level, text = int32(slog.LevelWarn), "this turn has logged its last line: more are dropped"
	}
	line := Log{Key: t.spec.Key, Method: t.spec.Method, InvocationID: t.spec.InvocationID, Trace: t.spec.Trace, Run: t.spec.Run, Level: level, Text: strings.Clone(cut(text, maxLogText))}
	if t.env.Logged != nil {
		t.env.Logged(line)
		return
	}
	t.env.Logger.LogAttrs(context.Background(), slog.Level(level), "guest log", t.spec.Trace.AppendLog([]slog.Attr{
		slog.String("app", t.spec.Key.App), slog.String("actor_type", t.spec.Key.Type), slog.String("actor_id", t.spec.Key.ID),
		slog.String("method", t.spec.Method), slog.String("invocation", t.spec.InvocationID), slog.String("text", line.Text),
	})...)
}
