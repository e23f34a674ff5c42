package extism

import (
	"errors"
	"time"

	"github.com/greenroom-run/greenroom/abi"
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
	err := decodeStrictly(text, &in)
	payload, unread := in.decode()
	return &abi.Reminder{
		Name: in.Name, Method: in.Method, ContentType: in.ContentType, Payload: payload,
		DueUnixNano: nanoOf(in.Due), DelayNano: int64(in.Delay), PeriodNano: int64(in.Every),
	}, errors.Join(err, unread)
}

func timerSet(c *call, s []uint64) {
	r, err := decodeTimer(c.copied(s[0]))
	if err != nil {
		c.invalid("timer", "was given a timer that is not as docs/extism.md has it: "+err.Error())
	}
	replaced, code := c.turn().calls.TimerSet(r)
	c.refuseFor("timer", code)
	s[0] = yes(replaced)
}

func timerCancel(c *call, s []uint64) {
	existed, code := c.turn().calls.TimerCancel(c.bytes(s[0]))
	c.refuseFor("timer", code)
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
