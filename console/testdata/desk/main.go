// Command desk is a guest whose actors store, log, publish, subscribe, send and set reminders as
// their payload says.
package main

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
)

// Desk has no state of its own: what it stores is under keys.
type Desk struct{}

// Order is what is to be done.
type Order struct {
	Key    string          `json:"key"`
	Value  json.RawMessage `json:"value"`  // stored as JSON
	Binary []byte          `json:"binary"` // stored as it is
	Repeat int             `json:"repeat"` // stores a text that is so long
	Say    string          `json:"say"`    // logged
	Remind string          `json:"remind"` // name of a reminder, in an hour
	Timer  string          `json:"timer"`  // name of a timer, every hour
	Fail   string          `json:"fail"`   // code of an error
	Send   json.RawMessage `json:"send"`   // an order for the actor bob, as a message
	Later  bool            `json:"later"`  // in an hour
	Event  string          `json:"event"`  // name of an event that is published
	Follow string          `json:"follow"` // the desk whose events are Done here
}

// Do carries out the operations of its payload.
func (d *Desk) Do(ctx *actor.Context, in Order) (string, error) {
	state := ctx.State()
	var err error
	switch {
	case in.Repeat > 0:
		err = state.Set(in.Key, strings.Repeat("a", in.Repeat))
	case in.Binary != nil:
		err = state.SetBytes(in.Key, in.Binary)
	case in.Key != "":
		err = state.Set(in.Key, in.Value)
	}
	if err == nil && in.Remind != "" {
		err = actor.SetReminder(ctx, actor.Reminder{Name: in.Remind, Method: "Do", After: time.Hour})
	}
	if err == nil && in.Timer != "" {
		err = actor.SetTimer(ctx, actor.Timer{Name: in.Timer, Method: "Do", After: time.Hour, Every: time.Hour})
	}
	if err == nil && in.Event != "" {
		err = actor.Publish(ctx, in.Event, in.Value)
	}
	if err == nil && in.Follow != "" {
		err = actor.Subscribe(ctx, actor.Ref{Type: "Desk", ID: in.Follow}, "Do")
	}
	if err == nil && in.Send != nil {
		var delay time.Duration
		if in.Later {
			delay = time.Hour
		}
		err = actor.Send(ctx, actor.Ref{Type: "Desk", ID: "bob"}, "Do", in.Send, actor.Delay(delay))
	}
	if in.Say != "" {
		ctx.Log().Warn(in.Say)
	}
	if in.Fail != "" {
		return "", actor.NewError(actor.StatusInvalidArgument, in.Fail, "told to fail")
	}
	return "done", err
}

// Look answers the keys.
func (d *Desk) Look(ctx *actor.Context, _ actor.None) ([]string, error) { return ctx.State().Keys("") }

func init() {
	actor.Register("Desk", actor.MessagePolicy{Attempts: 1}, actor.Method("Do", (*Desk).Do), actor.ReadOnly("Look", (*Desk).Look))
}

func main() {}
