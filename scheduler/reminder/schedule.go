package reminder

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // the same zones wherever the binary runs

	"github.com/cespare/xxhash/v2"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/greenroom-run/greenroom/abi/schedule"
	"github.com/greenroom-run/greenroom/actor"
)

// Planner works out when reminders are due. Its answers depend on what it is given
// alone; what it keeps are parsed expressions. It may be used concurrently.
type Planner struct {
	parsed *lru.Cache[cronText, *schedule.Cron]
	zones  *lru.Cache[string, *time.Location]
}

type cronText struct{ cron, zone string }

// NewPlanner returns a Planner.
func NewPlanner() *Planner {
	parsed, _ := lru.New[cronText, *schedule.Cron](4096) // fails for sizes below 1 alone
	zones, _ := lru.New[string, *time.Location](1024)
	return &Planner{parsed: parsed, zones: zones}
}

// Prepare checks a spec and returns the reminder that it asks for, as it is set at now,
// with its first occurrence. It is the one place where specs are validated: errors are
// [*actor.ArgumentError]. Times are to the microsecond, as stores keep them.
func (p *Planner) Prepare(spec actor.ReminderSpec, id actor.ReminderID, now time.Time) (actor.Reminder, error) {
	r, err := p.check(spec, now)
	if err != nil {
		return actor.Reminder{}, err
	}
	identify(&r, id, now)
	return r, nil
}

// check is Prepare of a reminder without an ID, to be given one by identify: a spec that is
// refused uses none up.
func (p *Planner) check(spec actor.ReminderSpec, now time.Time) (actor.Reminder, error) {
	if err := spec.Validate(); err != nil {
		return actor.Reminder{}, err
	}
	s := &spec.Schedule
	now = schedule.Ceil(now)
	switch {
	case !s.At.IsZero():
		s.At = schedule.Ceil(s.At)
	case s.After > 0:
		s.At = schedule.Ceil(now.Add(s.After))
	case s.Every > 0:
		s.At = schedule.Ceil(now.Add(s.Every))
	default:
		s.At = now
	}
	if s.At.After(actor.MaxReminderTime) {
		return actor.Reminder{}, &actor.ArgumentError{Field: "reminder delay", Problem: fmt.Sprintf("is %v; that is after the year 9999", s.After)}
	}
	s.After = 0
	s.Every = s.Every.Round(time.Microsecond)
	s.Jitter = s.Jitter.Truncate(time.Microsecond)
	if !s.Until.IsZero() {
		s.Until = s.Until.UTC().Truncate(time.Microsecond)
	}
	t, err := p.timetable(s, actor.ReminderID{})
	if err != nil {
		return actor.Reminder{}, err
	}
	first := t.First(s.At)
	if first.IsZero() {
		return actor.Reminder{}, &actor.ArgumentError{Field: "reminder cron", Problem: fmt.Sprintf("%q never matches; give a day that exists", s.Cron)}
	}
	if !s.Until.IsZero() && first.After(s.Until) {
		return actor.Reminder{}, &actor.ArgumentError{Field: "reminder end", Problem: fmt.Sprintf("is %s, before the first occurrence at %s; give a later one",
			s.Until.Format(time.RFC3339Nano), first.Format(time.RFC3339Nano))}
	}
	if t.Cron != nil && isFarBehind(&t, s, first, now) {
		return actor.Reminder{}, &actor.ArgumentError{Field: "reminder start", Problem: fmt.Sprintf("is %s, more than %d occurrences of %q ago; give a later one",
			s.At.Format(time.RFC3339Nano), maxBehind, s.Cron)}
	}
	left := s.Times
	if !s.Recurring() {
		left = 1
	}
	return actor.Reminder{
		Version: 1, ReminderSpec: spec,
		ReminderProgress: actor.ReminderProgress{Due: first, Left: left, Paused: spec.Hold},
	}, nil
}

// maxBehind is how many occurrences of an expression may lie between its start and now when it
// is set: 190 years of minutes, three of seconds.
const maxBehind = 100_000_000

// isFarBehind reports whether a schedule with an expression has more than [maxBehind] occurrences
// from the first one until now.
func isFarBehind(t *timetable, s *actor.Schedule, first, now time.Time) bool {
	if 0 < s.Times && s.Times <= maxBehind {
		return false
	}
	if !s.Until.IsZero() && s.Until.Before(now) {
		now = s.Until
	}
	return first.Before(now) && t.Cron.Count(first, now) > maxBehind
}

// identify gives a reminder that was checked at now its ID, and with it the jitter.
func identify(r *actor.Reminder, id actor.ReminderID, now time.Time) {
	r.ID = id
	r.FireAt = r.Due.Add(jitter(&r.Schedule, id))
	if now = schedule.Ceil(now); r.FireAt.Before(now) {
		r.FireAt = now
	}
}

// Plan is what happens to a due reminder.
type Plan struct {
	// Deliver asks for Firing's turn, whose commit does its Step. Otherwise Firing.Step
	// is to be committed alone: the occurrences were passed over. A message is too old then.
	Deliver bool
	Firing  actor.Firing
	// here is the reminder at the occurrence that is delivered.
	here schedule.Occurrence
}

// Plan decides what happens to a reminder, which is no message, at now, which is not before its
// FireAt.
func (p *Planner) Plan(r *actor.Reminder, now time.Time) (Plan, error) {
	t, err := p.timetable(&r.Schedule, r.ID)
	if err != nil {
		return Plan{}, err
	}
	missed := schedule.Missed{Kind: uint8(r.Missed.Kind), Limit: r.Missed.Limit, After: r.Missed.After}
	c := t.Choose(schedule.Occurrence{At: r.Due, Left: r.Left}, r.Failures > 0, missed, now.Add(-t.jitter))
	then := t.progress(c.Then)
	if then != nil && then.FireAt.Before(r.FireAt) {
		// The next occurrence is caught up with after one that was put off. FireAt does not go back:
		// the next owner of the bucket looks only from the time on before which nothing was left
		// to deliver.
		then.FireAt = r.FireAt
	}
	plan := Plan{Deliver: c.Deliver, here: c.Here, Firing: actor.Firing{
		Reminder: r.ID, Key: r.Key, Name: r.Name, Method: r.Method, Payload: r.Payload, Metadata: r.Metadata,
		Due: c.Here.At, Missed: c.Missed, Attempt: 1, Link: r.Link,
		Step: actor.ReminderStep{ReminderName: nameOf(r), ID: r.ID, Version: r.Version, Then: then},
	}}
	if c.Here.At.Equal(r.Due) {
		plan.Firing.Attempt = r.Failures + 1
	}
	return plan, nil
}

// mostLonger bounds by how much a constant wait is lengthened: that is longer than any turn takes.
const mostLonger = time.Minute

// Failed returns the step of a reminder whose planned delivery failed, known at now: to
// the next attempt, or past what the firing stood for; the firing then becomes a dead
// letter, unless the policy is to drop it. Exponential waits are up to a quarter shorter
// than the policy has them, and constant ones longer, so that what failed together does not come again
// together: the turns of two firings may have waited for each other's actors.
func (p *Planner) Failed(r *actor.Reminder, plan *Plan, now time.Time, reason string) actor.ReminderStep {
	reason = shorten(reason)
	if wait, again := r.Failure.Wait(plan.Firing.Attempt); again {
		if r.Failure.Kind == actor.FailureExponential {
			wait -= spread(r.ID, plan.Firing.Attempt, wait/4)
		} else {
			wait += spread(r.ID, plan.Firing.Attempt, min(wait/4, mostLonger))
		}
		return actor.ReminderStep{ReminderName: nameOf(r), ID: r.ID, Version: r.Version, Then: &actor.ReminderProgress{
			Due: plan.here.At, Left: plan.here.Left, FireAt: schedule.Ceil(now.Add(wait)),
			Failures: plan.Firing.Attempt, LastError: reason,
		}}
	}
	step := plan.Firing.Step
	if step.Then != nil {
		then := *step.Then
		then.LastError = reason
		step.Then = &then
	}
	if r.Failure.Kind != actor.FailureDrop {
		step.DeadLetter = &actor.DeadFiring{Due: plan.here.At, Failures: plan.Firing.Attempt - 1, Reason: reason}
	}
	return step
}

// Paused returns the step that pauses a reminder, or resumes it at now: what came due
// while it was paused is missed.
func (p *Planner) Paused(r *actor.Reminder, paused bool, now time.Time) actor.ReminderStep {
	then := r.ReminderProgress
	then.Paused = paused
	if !paused && then.FireAt.Before(now) {
		then.FireAt = schedule.Ceil(now)
	}
	return actor.ReminderStep{ReminderName: nameOf(r), ID: r.ID, Version: r.Version, Then: &then}
}

func nameOf(r *actor.Reminder) actor.ReminderName {
	return actor.ReminderName{Key: r.Key, Name: r.Name}
}

// timetable is a schedule that can be calculated with.
type timetable struct {
	schedule.Timetable
	jitter time.Duration
}

func (p *Planner) timetable(s *actor.Schedule, id actor.ReminderID) (timetable, error) {
	t := timetable{schedule.Timetable{Every: s.Every, Until: s.Until}, jitter(s, id)}
	if s.Cron == "" {
		return t, nil
	}
	text := cronText{s.Cron, s.Zone}
	if e, ok := p.parsed.Get(text); ok {
		t.Cron = e
		return t, nil
	}
	zone, err := p.zone(s.Zone)
	if err != nil {
		return t, err
	}
	if t.Cron, err = schedule.ParseCron(s.Cron, zone); err != nil {
		return t, &actor.ArgumentError{Field: "reminder cron", Problem: strings.ToValidUTF8(err.Error(), "?")}
	}
	p.parsed.Add(text, t.Cron)
	return t, nil
}

// jitter is by how much the firings of a reminder are delayed.
func jitter(s *actor.Schedule, id actor.ReminderID) time.Duration {
	if s.Jitter == 0 {
		return 0
	}
	return spread(id, 0, s.Jitter)
}

// spread is a time from 0 to most that is the same each time for a reminder and a number,
// and for others another one.
func spread(id actor.ReminderID, number uint32, most time.Duration) time.Duration {
	var b [20]byte
	binary.BigEndian.PutUint32(b[:], uint32(id.Prefix))
	binary.BigEndian.PutUint32(b[4:], id.Token)
	copy(b[8:], id.Vector[:])
	sum := b[:16]
	if number > 0 {
		sum = binary.BigEndian.AppendUint32(sum, number)
	}
	return time.Duration(xxhash.Sum64(sum)%uint64(most/time.Microsecond+1)) * time.Microsecond
}

func (p *Planner) zone(name string) (*time.Location, error) {
	if name == "" || name == "UTC" {
		return time.UTC, nil
	}
	if z, ok := p.zones.Get(name); ok {
		return z, nil
	}
	z, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, &actor.ArgumentError{Field: "reminder zone", Problem: fmt.Sprintf("%q is not known; give an IANA name such as Europe/Berlin", name)}
	}
	p.zones.Add(name, z)
	return z, nil
}

// progress returns the reminder at an occurrence; nil for none.
func (t *timetable) progress(o schedule.Occurrence) *actor.ReminderProgress {
	if o.At.IsZero() {
		return nil
	}
	return &actor.ReminderProgress{Due: o.At, FireAt: o.At.Add(t.jitter), Left: o.Left}
}

// maxReason is how much is kept of what a delivery failed with, in bytes.
const maxReason = 1024

// noReason stands for the reason of a delivery that failed without one.
const noReason = "it failed, and gave no reason"

func shorten(reason string) string {
	reason = strings.ReplaceAll(strings.ToValidUTF8(reason, "?"), "\x00", "")
	if strings.TrimSpace(reason) == "" {
		return noReason
	}
	if len(reason) <= maxReason {
		return reason
	}
	return strings.ToValidUTF8(reason[:maxReason], "") + "…"
}
