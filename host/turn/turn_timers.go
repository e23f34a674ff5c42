package turn

import (
	"bytes"
	"cmp"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
)

// TimerSet implements [engine.Calls].
func (t *Turn) TimerSet(r *abi.Reminder) (replaced bool, code abi.Code) {
	if code := cmp.Or(t.mayTime(), mayKeep(t)); code != 0 {
		return false, code
	}
	if problem := beyondTimer(r); problem != "" {
		return false, t.refuse(abi.CodeInvalid, problem)
	}
	spec := &actor.TimerSpec{
		Key: t.spec.Key, Name: r.Name, Method: r.Method, Payload: actor.Payload{ContentType: r.ContentType, Data: r.Payload},
		Schedule: actor.Schedule{At: instant(r.DueUnixNano), After: time.Duration(r.DelayNano), Every: time.Duration(r.PeriodNano)},
	}
	if err := spec.Validate(); err != nil {
		return false, t.refuse(abi.CodeInvalid, err.Error())
	}
	// The frame may be far larger than the timer, which counts for its own size alone.
	spec.Name, spec.Method = strings.Clone(spec.Name), strings.Clone(spec.Method)
	spec.Payload = actor.Payload{ContentType: strings.Clone(spec.Payload.ContentType), Data: bytes.Clone(spec.Payload.Data)}
	if problem := t.spec.Methods.MethodProblem("timer", spec.Method); problem != "" {
		return false, t.refuse(abi.CodeInvalid, problem)
	}
	replaced, err := t.done.Timers.Set(t.env.Timers, spec)
	var refused *TimerRefusal
	if errors.As(err, &refused) {
		if refused.Code == abi.CodeNotReady {
			t.Log(int32(slog.LevelWarn), "cannot set the timer "+strconv.Quote(spec.Name)+" now: "+refused.Problem)
		}
		return false, t.refuse(refused.Code, refused.Problem)
	}
	return replaced, 0
}

// TimerCancel implements [engine.Calls].
func (t *Turn) TimerCancel(name []byte) (existed bool, code abi.Code) {
	if code := cmp.Or(t.mayTime(), mayKeep(t)); code != 0 {
		return false, code
	}
	if err := actor.ValidateTimerName(string(name)); err != nil {
		return false, t.refuse(abi.CodeInvalid, err.Error())
	}
	return t.done.Timers.Cancel(t.env.Timers, t.spec.Key, string(name)), 0
}
