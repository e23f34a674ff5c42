package reminder

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/abi/schedule"
	"github.com/greenroom-run/greenroom/actor"
)

// codeTooOld is the code of a message that nobody consumed in time and whose turn did not
// fail.
const codeTooOld = "message_too_old"

// shortestAge is how old a message may at least get that is set at the end of another one: it is to
// be delivered once, however slow the commit is.
const shortestAge = time.Minute

// nameMessage gives a message that has no order the name of its token. An ordered one gets its
// name with the commit that sets it.
func nameMessage(r *actor.Reminder, delayed bool) {
	m := r.Message
	if m == nil || r.Name != "" {
		return
	}
	if delayed || m.From.ID == "" || m.Failed != "" || len(m.Path) > 0 {
		r.Name = actor.UnorderedMessageName(r.ID)
	}
}

// isDelayed reports whether somebody asks for a time.
func isDelayed(spec *actor.ReminderSpec) bool {
	return spec.Schedule.After > 0 || !spec.Schedule.At.IsZero()
}

// planMessage decides what happens to a due message at now: it is delivered, unless it is too
// old.
func planMessage(r *actor.Reminder, now time.Time) Plan {
	sent := r.CreatedAt
	if sent.IsZero() { // it comes from the notice of its commit, and was due at once
		sent = r.Due
	}
	return Plan{
		Deliver: r.Schedule.Until.IsZero() || !now.After(r.Schedule.Until),
		here:    schedule.Occurrence{At: r.Due, Left: r.Left},
		Firing: actor.Firing{
			Reminder: r.ID, Key: r.Key, Name: r.Name, Method: r.Method, Payload: r.Payload, Metadata: r.Metadata, Message: r.Message, SentAt: sent,
			Due: r.Due, Attempt: r.Failures + 1, Step: messageStep(r), Link: r.Link,
		},
	}
}

// messageStep is the step that removes a message.
func messageStep(r *actor.Reminder) actor.ReminderStep {
	_, ordered := actor.SenderOfOrdered(r.Name)
	return actor.ReminderStep{ReminderName: nameOf(r), ID: r.ID, Version: r.Version, Ordered: ordered}
}

// failedMessage returns the step of a message whose delivery failed, known at now, to the next
// attempt; false if there is none.
func failedMessage(r *actor.Reminder, now time.Time, reason string) (actor.ReminderStep, bool) {
	wait, again := r.Failure.Wait(r.Failures + 1)
	if r.Failure.Kind == actor.FailureExponential {
		wait -= spread(r.ID, r.Failures+1, wait/4)
	}
	at := schedule.Ceil(now.Add(wait))
	if !again || !r.Schedule.Until.IsZero() && at.After(r.Schedule.Until) {
		return actor.ReminderStep{}, false
	}
	step := messageStep(r)
	step.Then = &actor.ReminderProgress{Due: r.Due, Left: r.Left, FireAt: at, Failures: r.Failures + 1, LastError: shorten(reason)}
	return step, true
}

// endOfMessage returns the step by which a message ends that nobody consumed, known at now, and
// the message that the same commit sets; nil: none. deliveries counts the failed deliveries.
func endOfMessage(r *actor.Reminder, now time.Time, deliveries uint32, code, reason string) (actor.ReminderStep, *actor.ReminderSpec) {
	step, m := messageStep(r), r.Message
	next := actor.ReminderSpec{Method: r.Method, Payload: r.Payload, Metadata: r.Metadata, Failure: r.Failure, Link: r.Link}
	if !r.Schedule.Until.IsZero() { // it may get as old as this one
		next.Schedule.Until = schedule.Ceil(now).Add(max(shortestAge, r.Schedule.Until.Sub(r.Schedule.At)))
	}
	if to := m.Forward; to.ID != "" && to != r.Key && !slices.Contains(m.Path, to) && len(m.Path) < actor.MaxForwards {
		onward := *m
		onward.Path = append(slices.Clone(m.Path), r.Key)
		next.Key, next.Message = to, &onward
		return step, &next
	}
	if r.Failure.Kind != actor.FailureDrop {
		step.DeadLetter = &actor.DeadFiring{Due: r.Due, Failures: max(deliveries, 1) - 1, Reason: shorten(reason)}
	}
	if m.Undelivered == "" || m.From.ID == "" || m.Failed != "" {
		return step, nil
	}
	next.Key, next.Method = m.From, m.Undelivered
	next.Message = &actor.Message{From: r.Key, Failed: code, Cookie: m.Cookie}
	return step, &next
}

// codeOf returns the code of a failure, as users know it.
func codeOf(err error) string {
	var (
		guest *actor.GuestError
		trap  *actor.TrapError
		large *actor.StateTooLargeError
		fuel  *actor.FuelError
	)
	code := "internal"
	switch cond := actor.AsCondition(err); {
	case errors.As(err, &guest):
		if code = guest.Code; code == "" {
			code = "guest_error"
		}
	case errors.As(err, &trap):
		code = string(trap.Kind)
	case errors.As(err, &large):
		code = "state_too_large"
	case errors.As(err, &fuel):
		code = "out_of_fuel"
	case cond != nil:
		code = string(cond.Kind())
	}
	if len(code) > actor.MaxNameLen {
		code = code[:actor.MaxNameLen]
	}
	return strings.ToValidUTF8(strings.ReplaceAll(code, "\x00", ""), "")
}
