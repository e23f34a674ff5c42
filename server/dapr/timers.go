package dapr

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// Timers sets, cancels and reads timers of actors, wherever they are: see [host.Host.SetTimer].
type Timers interface {
	SetTimer(ctx context.Context, spec actor.TimerSpec) (replaced bool, err error)
	CancelTimer(ctx context.Context, key actor.Key, name string) (existed bool, err error)
	GetTimer(ctx context.Context, key actor.Key, name string) (actor.Timer, error)
}

// timersForm is the plain HTTP form of timers.
type timersForm struct{ timers Timers }

func (f timersForm) validateName(name string) error { return actor.ValidateTimerName(name) }

func (f timersForm) get(ctx context.Context, name actor.ReminderName) (any, error) {
	t, err := f.timers.GetTimer(ctx, name.Key, name.Name)
	if err != nil {
		return nil, err
	}
	return encodeTimer(&t), nil
}

func (f timersForm) put(ctx context.Context, name actor.ReminderName, body []byte) error {
	spec, err := decodeTimer(body, name.Name, time.Now())
	if err != nil {
		return err
	}
	spec.Key, spec.Name = name.Key, name.Name
	if err := spec.Validate(); err != nil {
		return err
	}
	_, err = f.timers.SetTimer(ctx, spec)
	return err
}

func (f timersForm) remove(ctx context.Context, name actor.ReminderName) error {
	_, err := f.timers.CancelTimer(ctx, name.Key, name.Name)
	return err
}

// wireTimer is a timer in JSON: the members that Dapr has, and then ours.
type wireTimer struct {
	DueTime  string          `json:"dueTime,omitempty"`
	Period   string          `json:"period,omitempty"`
	TTL      string          `json:"ttl,omitempty"`
	Data     json.RawMessage `json:"data,omitempty"`
	Callback string          `json:"callback,omitempty"` // what a firing runs

	// Method is another name for Callback, as reminders have it. Without either it is
	// the timer's name.
	Method      string `json:"method,omitempty"`
	ContentType string `json:"contentType,omitempty"`
}

// decodeTimer reads a timer, without what it is for.
func decodeTimer(body []byte, name string, now time.Time) (spec actor.TimerSpec, err error) {
	var in wireTimer
	if err := decodeMembers(body, "timer", &in); err != nil {
		return spec, err
	}
	switch {
	case in.Callback != "" && in.Method != "":
		return spec, &actor.ArgumentError{Field: "body", Problem: "has both a callback and a method, which are the same; give one of them"}
	case in.Callback != "":
		spec.Method = in.Callback
	case in.Method != "":
		spec.Method = in.Method
	case actor.ValidateName("method", name) == nil:
		spec.Method = name
	default:
		return spec, &actor.ArgumentError{Field: "callback", Problem: "is missing, and the timer's name is no name of a method; say which method a firing runs"}
	}
	as := wireReminder{DueTime: in.DueTime, Period: in.Period, TTL: in.TTL, Data: in.Data, ContentType: in.ContentType}
	err = errors.Join( // the first one counts: all are about the same request
		as.decodeSchedule(&spec.Schedule, now),
		as.decodeData(&spec.Payload),
	)
	return spec, err
}

// encodeTimer writes a timer as a reminder of the same would be.
func encodeTimer(t *actor.Timer) wireTimer {
	as := encodeReminder(&actor.Reminder{
		ReminderSpec:     actor.ReminderSpec{Payload: t.Payload, Schedule: t.Schedule},
		ReminderProgress: actor.ReminderProgress{Due: t.Due, Left: t.Left},
	})
	return wireTimer{DueTime: as.DueTime, Period: as.Period, TTL: as.TTL, Data: as.Data, Callback: t.Method, ContentType: as.ContentType}
}
