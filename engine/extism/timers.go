package extism

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
)

// timer is one as greenroom_timer_set takes it: docs/extism.md has the members.
type timer struct {
	Name   string `json:"name"`
	Method string `json:"method"`
	input
	Due   *time.Time `json:"due"`
	Delay span       `json:"delay"`
	Every span       `json:"every"`
}

func decodeTimer(text []byte) (*abi.Reminder, error) {
	var in timer
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	err := dec.Decode(&in)
	payload, unread := in.decode()
	return &abi.Reminder{
		Name: in.Name, Method: in.Method, ContentType: in.ContentType, Payload: payload,
		DueUnixNano: nanoOf(in.Due), DelayNano: int64(in.Delay), PeriodNano: int64(in.Every),
	}, errors.Join(err, unread)
}

// invalidTimer ends the turn with why a timer cannot be.
func (c *call) invalidTimer(problem string) {
	panic(&actor.GuestError{Status: statusInvalidArgument, Code: "invalid_timer", Message: c.function + ": " + problem})
}

// refuseTimer is refuse, with the problem that the host has found.
func (c *call) refuseTimer(code abi.Code) {
	if problem := c.turn().calls.Problem(); code == abi.CodeInvalid && problem != "" {
		c.invalidTimer(problem)
	}
	c.refuse(code)
}

func timerSet(c *call, s []uint64) {
	r, err := decodeTimer(c.copied(s[0]))
	if err != nil {
		c.invalidTimer("was given a timer that is not as docs/extism.md has it: " + err.Error())
	}
	replaced, code := c.turn().calls.TimerSet(r)
	c.refuseTimer(code)
	s[0] = yes(replaced)
}

func timerCancel(c *call, s []uint64) {
	existed, code := c.turn().calls.TimerCancel(c.bytes(s[0]))
	c.refuseTimer(code)
	s[0] = yes(existed)
}

func yes(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// timed is what greenroom_self says of the timer that asks for the turn.
type timed struct {
	Name string    `json:"name"`
	Due  time.Time `json:"due"`
}

// timedBy returns the timer that asks for a turn, nil for none.
func timedBy(f *abi.Turn) *timed {
	if f.Cause != abi.CauseTimer {
		return nil
	}
	return &timed{Name: f.CauseName, Due: time.Unix(0, f.DueUnixNano).UTC()}
}
