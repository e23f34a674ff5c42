package dapr

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/failure"
	"github.com/greenroom-run/greenroom/server/reminders"
)

// serveTimer is the plain HTTP form of timers, which is that of Dapr:
//
//	POST|PUT|GET|DELETE /v2.0/actors/APP/TYPE/ID/timers/NAME
func (a *Actors) serveTimer(w http.ResponseWriter, r *http.Request) {
	key, name, err := parsePath(r.URL.EscapedPath(), resourceTimers)
	inv := actor.Invocation{Key: key} // whose the error is
	if err == nil {
		err = edge.ExchangeOf(r.Context()).ForApp(key.App)
	}
	if err == nil && a.Timers == nil {
		err = &failure.Error{Kind: failure.KindNotImplemented, Text: "this server has no timers"}
	}
	if err == nil {
		err = actor.ValidateTimerName(name)
	}
	if err != nil {
		a.refuseActor(w, r, inv, err)
		return
	}
	ctx, cancel, err := withTimeout(r)
	if err != nil {
		a.refuseActor(w, r, inv, err)
		return
	}
	defer cancel()
	switch r.Method {
	case http.MethodGet:
		t, err := a.Timers.GetTimer(ctx, key, name)
		if err != nil {
			a.refuseActor(w, r, inv, err)
			return
		}
		writeReminders(w, encodeTimer(&t))
		return
	case http.MethodPost, http.MethodPut:
		err = a.putTimer(ctx, r, key, name)
	case http.MethodDelete:
		_, err = a.Timers.CancelTimer(ctx, key, name)
	default:
		w.Header().Set("Allow", "DELETE, GET, POST, PUT")
		err = &failure.Error{Kind: failure.KindMethodRefused, Text: "timers are set with POST or PUT, read with GET, and removed with DELETE"}
	}
	if err != nil {
		a.refuseActor(w, r, inv, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (a *Actors) putTimer(ctx context.Context, r *http.Request, key actor.Key, name string) error {
	body, err := a.readPayload(r)
	if err != nil {
		return err
	}
	if len(body) > reminders.MaxBody {
		return edge.ErrMessageTooLarge(reminders.MaxBody)
	}
	spec, err := decodeTimer(body, name, time.Now())
	if err != nil {
		return err
	}
	spec.Key, spec.Name = key, name
	if err := spec.Validate(); err != nil {
		return err
	}
	_, err = a.Timers.SetTimer(ctx, spec)
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
