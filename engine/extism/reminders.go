package extism

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine/confine"
)

// reminder is one as greenroom_reminder_set takes it and greenroom_reminder_get gives
// it: docs/extism.md has the members.
type reminder struct {
	Name   string `json:"name"`
	Method string `json:"method"`
	input
	Due         *time.Time        `json:"due,omitempty"`
	Delay       span              `json:"delay,omitempty"`
	Every       span              `json:"every,omitempty"`
	Cron        string            `json:"cron,omitempty"`
	Zone        string            `json:"zone,omitempty"`
	Times       uint32            `json:"times,omitempty"`
	Until       *time.Time        `json:"until,omitempty"`
	Jitter      span              `json:"jitter,omitempty"`
	Missed      choice            `json:"missed,omitempty"`
	MissedLimit uint32            `json:"missed_limit,omitempty"`
	MissedAfter span              `json:"missed_after,omitempty"`
	Failure     choice            `json:"failure,omitempty"`
	Attempts    uint32            `json:"attempts,omitempty"`
	Interval    span              `json:"interval,omitempty"`
	MaxInterval span              `json:"max_interval,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"`
	Keep        bool              `json:"keep,omitempty"`
}

// choice is one of some words.
type choice string

// The words, by their numbers in a frame.
var (
	missedChoices  = []choice{"collapse", "skip", "catchup"}
	failureChoices = []choice{"constant", "exponential", "drop"}
)

func (c choice) number(of []choice) (uint8, error) {
	if c == "" {
		return 0, nil
	}
	at := slices.Index(of, c)
	if at < 0 {
		return 0, fmt.Errorf("%q, which is none of %q", string(c), of)
	}
	return uint8(at), nil //nolint:gosec // one of three
}

func (c choice) of(number uint8, words []choice) choice {
	if int(number) < len(words) && number > 0 {
		return words[number]
	}
	return ""
}

func decodeReminder(text []byte) (*abi.Reminder, error) {
	var in reminder
	err := decodeStrictly(text, &in)
	payload, unread := in.decode()
	r := &abi.Reminder{
		Name: in.Name, Method: in.Method, ContentType: in.ContentType, Payload: payload,
		DueUnixNano: nanoOf(in.Due), DelayNano: int64(in.Delay), PeriodNano: int64(in.Every), Cron: in.Cron, Zone: in.Zone, Count: in.Times, UntilNano: nanoOf(in.Until), JitterNano: int64(in.Jitter),
		MissedLimit: in.MissedLimit, MissedAfter: int64(in.MissedAfter), Attempts: in.Attempts,
		IntervalNano: int64(in.Interval), LongestNano: int64(in.MaxInterval),
	}
	var missed, failure error
	r.Missed, missed = in.Missed.number(missedChoices)
	r.Failure, failure = in.Failure.number(failureChoices)
	if in.Keep {
		r.Flags = abi.FlagKeep
	}
	for _, name := range slices.Sorted(maps.Keys(in.Metadata)) {
		r.Metadata = append(r.Metadata, abi.Header{Name: name, Value: in.Metadata[name]})
	}
	return r, errors.Join(err, unread, missed, failure)
}

func encodeReminder(r *abi.Reminder) []byte {
	out := reminder{
		Name: r.Name, Method: r.Method, input: encodeInput(r.ContentType, r.Payload), Due: timeOf(r.DueUnixNano), Every: span(r.PeriodNano), Cron: r.Cron, Zone: r.Zone,
		Times: r.Count, Until: timeOf(r.UntilNano), Jitter: span(r.JitterNano),
		MissedLimit: r.MissedLimit, MissedAfter: span(r.MissedAfter), Attempts: r.Attempts,
		Interval: span(r.IntervalNano), MaxInterval: span(r.LongestNano),
	}
	out.Missed = out.Missed.of(r.Missed, missedChoices)
	out.Failure = out.Failure.of(r.Failure, failureChoices)
	out.Metadata = metadataOf(r.Metadata)
	return mustJSON(out)
}

// metadataOf returns nil for no headers.
func metadataOf(headers []abi.Header) map[string]string {
	var metadata map[string]string
	for _, h := range headers {
		if metadata == nil {
			metadata = map[string]string{}
		}
		metadata[h.Name] = h.Value
	}
	return metadata
}

// invalid ends the turn with why a "reminder", a "message" and so on cannot be.
func (c *call) invalid(what, problem string) {
	panic(&actor.GuestError{Status: statusInvalidArgument, Code: "invalid_" + what, Message: c.function + ": " + problem})
}

// refuseFor is refuse, with the problem that the host has found in a "reminder", a "message"
// and so on.
func (c *call) refuseFor(what string, code abi.Code) {
	switch problem := c.turn().calls.Problem(); {
	case problem == "":
	case code == abi.CodeInvalid:
		c.invalid(what, problem)
	case code == abi.CodeNoState:
		e := refused(c.function, code)
		e.Message = c.function + ": " + problem
		panic(e)
	}
	c.refuse(code)
}

func reminderSet(c *call, s []uint64) {
	r, err := decodeReminder(c.copied(s[0]))
	if err != nil {
		c.invalid("reminder", "was given a reminder that is not as docs/extism.md has it: "+err.Error())
	}
	c.refuseFor("reminder", c.turn().calls.ReminderSet(r))
}

func reminderCancel(c *call, s []uint64) {
	c.refuseFor("reminder", c.turn().calls.ReminderCancel(c.bytes(s[0])))
}

func reminderGet(c *call, s []uint64) {
	r, code, err := c.turn().calls.ReminderGet(c.copied(s[0]))
	if err != nil {
		panic(&confine.Stop{Err: err})
	}
	if code == abi.CodeNotFound {
		s[0] = 0
		return
	}
	c.refuseFor("reminder", code)
	s[0] = c.block(encodeReminder(r))
}

func reminderNames(c *call, s []uint64) {
	list, code, err := c.turn().calls.ReminderNames(c.copied(s[0]))
	if err != nil {
		panic(&confine.Stop{Err: err})
	}
	c.refuseFor("reminder", code)
	s[0] = c.names(list)
}

// fired is what greenroom_self says of the reminder that asks for the turn.
type fired struct {
	Name     string            `json:"name"`
	Due      time.Time         `json:"due"`
	Attempt  uint32            `json:"attempt"`
	Missed   uint32            `json:"missed"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

// firedBy returns the reminder that asks for a turn, nil for none.
func firedBy(f *abi.Turn) *fired {
	if f.Cause != abi.CauseReminder {
		return nil
	}
	return &fired{Name: f.CauseName, Due: time.Unix(0, f.DueUnixNano).UTC(), Attempt: f.Attempt, Missed: f.Missed, Metadata: metadataOf(f.Metadata)}
}
