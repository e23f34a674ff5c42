package reminder

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/greenroom-run/greenroom/actor"
)

// Planner works out when reminders are due. Its answers depend on what it is given
// alone; what it keeps are parsed expressions. It may be used concurrently.
type Planner struct {
	parsed *lru.Cache[cronText, *expression]
	zones  *lru.Cache[string, *time.Location]
}

type cronText struct{ cron, zone string }

// NewPlanner returns a Planner.
func NewPlanner() *Planner {
	parsed, _ := lru.New[cronText, *expression](4096) // fails for sizes below 1 alone
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
	now = ceil(now)
	switch {
	case !s.At.IsZero():
		s.At = ceil(s.At)
	case s.After > 0:
		s.At = ceil(now.Add(s.After))
	case s.Every > 0:
		s.At = ceil(now.Add(s.Every))
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
	first := s.At
	if t.cron != nil {
		if first = t.cron.next(s.At.Add(-1)); first.IsZero() || first.After(actor.MaxReminderTime) {
			return actor.Reminder{}, &actor.ArgumentError{Field: "reminder cron", Problem: fmt.Sprintf("%q never matches; give a day that exists", s.Cron)}
		}
		first = first.UTC()
	}
	if !s.Until.IsZero() && first.After(s.Until) {
		return actor.Reminder{}, &actor.ArgumentError{Field: "reminder end", Problem: fmt.Sprintf("is %s, before the first occurrence at %s; give a later one",
			s.Until.Format(time.RFC3339Nano), first.Format(time.RFC3339Nano))}
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

// identify gives a reminder that was checked at now its ID, and with it the jitter.
func identify(r *actor.Reminder, id actor.ReminderID, now time.Time) {
	r.ID = id
	r.FireAt = r.Due.Add(jitter(&r.Schedule, id))
	if now = ceil(now); r.FireAt.Before(now) {
		r.FireAt = now
	}
}

// Plan is what becomes of a reminder whose time has come.
type Plan struct {
	// Deliver asks for Firing's turn, whose commit does its Step. Otherwise Firing.Step
	// is to be committed alone: the occurrences were passed over.
	Deliver bool
	Firing  actor.Firing
	// here is the reminder at the occurrence that is delivered.
	here occurrence
}

// Plan says what becomes of a reminder at now, which is not before its FireAt.
func (p *Planner) Plan(r *actor.Reminder, now time.Time) (Plan, error) {
	t, err := p.timetable(&r.Schedule, r.ID)
	if err != nil {
		return Plan{}, err
	}
	c := t.choose(r, now.Add(-t.jitter))
	then := t.progress(c.then)
	if then != nil && then.FireAt.Before(r.FireAt) {
		// One that is caught up with, after one that was put off: who owns the bucket next looks
		// from there on where nothing was left to deliver.
		then.FireAt = r.FireAt
	}
	plan := Plan{Deliver: c.deliver, here: c.here, Firing: actor.Firing{
		Reminder: r.ID, Key: r.Key, Name: r.Name, Method: r.Method, Payload: r.Payload, Metadata: r.Metadata,
		Due: c.here.at, Missed: c.missed, Attempt: 1,
		Step: actor.ReminderStep{ReminderName: nameOf(r), ID: r.ID, Version: r.Version, Then: then},
	}}
	if c.here.at.Equal(r.Due) {
		plan.Firing.Attempt = r.Failures + 1
	}
	return plan, nil
}

// Failed returns the step of a reminder whose planned delivery failed, known at now: to
// the next attempt, or past what the firing stood for; the firing then becomes a dead
// letter, unless the policy is to drop it. Exponential waits are up to a quarter shorter
// than the policy has them, so that what failed together does not come again together.
func (p *Planner) Failed(r *actor.Reminder, plan *Plan, now time.Time, reason string) actor.ReminderStep {
	reason = shorten(reason)
	if wait, again := r.Failure.Wait(plan.Firing.Attempt); again {
		if r.Failure.Kind == actor.FailureExponential {
			wait -= spread(r.ID, plan.Firing.Attempt, wait/4)
		}
		return actor.ReminderStep{ReminderName: nameOf(r), ID: r.ID, Version: r.Version, Then: &actor.ReminderProgress{
			Due: plan.here.at, Left: plan.here.left, FireAt: ceil(now.Add(wait)),
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
		step.DeadLetter = &actor.DeadFiring{Due: plan.here.at, Failures: plan.Firing.Attempt - 1, Reason: reason}
	}
	return step
}

// Paused returns the step that pauses a reminder, or resumes it at now: what came due
// while it was paused is missed.
func (p *Planner) Paused(r *actor.Reminder, paused bool, now time.Time) actor.ReminderStep {
	then := r.ReminderProgress
	then.Paused = paused
	if !paused && then.FireAt.Before(now) {
		then.FireAt = ceil(now)
	}
	return actor.ReminderStep{ReminderName: nameOf(r), ID: r.ID, Version: r.Version, Then: &then}
}

func nameOf(r *actor.Reminder) actor.ReminderName {
	return actor.ReminderName{Key: r.Key, Name: r.Name}
}

// timetable is a schedule that can be calculated with.
type timetable struct {
	every  time.Duration
	cron   *expression
	until  time.Time // zero: none
	jitter time.Duration
}

// occurrence is a time of a timetable, and how many there are from it on: 0, no limit.
// The zero occurrence is none.
type occurrence struct {
	at   time.Time
	left uint32
}

func (p *Planner) timetable(s *actor.Schedule, id actor.ReminderID) (timetable, error) {
	t := timetable{every: s.Every, until: s.Until, jitter: jitter(s, id)}
	if s.Cron == "" {
		return t, nil
	}
	text := cronText{s.Cron, s.Zone}
	if e, ok := p.parsed.Get(text); ok {
		t.cron = e
		return t, nil
	}
	zone, err := p.zone(s.Zone)
	if err != nil {
		return t, err
	}
	if t.cron, err = parseCron(s.Cron, zone); err != nil {
		return t, err
	}
	p.parsed.Add(text, t.cron)
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

// after returns the occurrence after o.
func (t *timetable) after(o occurrence) occurrence {
	if o.left == 1 {
		return occurrence{}
	}
	var at time.Time
	switch {
	case t.cron != nil:
		if at = t.cron.next(o.at).UTC(); at.IsZero() {
			return occurrence{}
		}
	case t.every > 0:
		at = o.at.Add(t.every)
	default:
		return occurrence{}
	}
	return t.bounded(at, o.left, 1)
}

// bounded returns the occurrence at a time, n after one with left.
func (t *timetable) bounded(at time.Time, left, n uint32) occurrence {
	if !t.until.IsZero() && at.After(t.until) || at.After(actor.MaxReminderTime) {
		return occurrence{}
	}
	if left > 0 {
		left -= n
	}
	return occurrence{at, left}
}

// choice is what is delivered of the occurrences that are due, and what comes then.
type choice struct {
	deliver bool
	here    occurrence // delivered; if nothing is, the first that was due
	then    occurrence // none: it was the last
	missed  uint32     // for how many more it stands, or were passed over before it
}

// maxSteps is how many matches of a cron expression are counted at once; well above
// [actor.MaxCatchUp].
const maxSteps = 10_000

// choose applies the missed policy to what is due at now, the reminder's own occurrence
// first. An occurrence that is delivered again since it failed is not missed. After the end
// of the schedule every policy passes over what is late.
func (t *timetable) choose(r *actor.Reminder, now time.Time) choice {
	first := occurrence{r.Due, r.Left}
	again := r.Failures > 0
	if t.every == 0 && t.cron == nil {
		late := r.Missed.Kind == actor.MissedSkip && now.Sub(first.at) > missedAfter(r) || t.ended(first.at, now)
		if late && !again {
			return choice{here: first, missed: 1}
		}
		return choice{deliver: true, here: first}
	}
	keep := uint32(1) // how many of the newest are of interest
	if r.Missed.Kind == actor.MissedCatchUp {
		if keep = r.Missed.Limit; keep == 0 {
			keep = actor.DefaultCatchUp
		}
	}
	due := t.due(first, now, keep)
	if due.more {
		// The limit on occurrences has to be met exactly: pass over what was counted, and
		// plan again from there.
		c := choice{here: first, then: due.then, missed: due.count}
		if oldest := due.newest[0]; r.Missed.Kind == actor.MissedCatchUp {
			if c.then = oldest; oldest == first {
				c.then = t.after(first)
			}
			c.missed = first.left - c.then.left
		}
		return c
	}
	newest := due.newest[len(due.newest)-1]
	if t.ended(newest.at, now) && !again {
		return choice{here: first, then: due.then, missed: due.count}
	}
	switch r.Missed.Kind {
	case actor.MissedCatchUp:
		oldest := due.newest[0]
		return choice{deliver: true, here: oldest, then: t.after(oldest), missed: due.count - uint32(len(due.newest))}
	case actor.MissedSkip:
		if now.Sub(newest.at) <= missedAfter(r) || again && due.count == 1 {
			return choice{deliver: true, here: newest, then: due.then, missed: due.count - 1}
		}
		return choice{here: first, then: due.then, missed: due.count}
	default:
		return choice{deliver: true, here: first, then: due.then, missed: due.count - 1}
	}
}

// ended reports whether the schedule is over at now, and an occurrence at a time is late: what
// is due right before the end is still delivered.
func (t *timetable) ended(at, now time.Time) bool {
	return !t.until.IsZero() && now.After(t.until) && now.Sub(at) > actor.DefaultMissedAfter
}

func missedAfter(r *actor.Reminder) time.Duration {
	if r.Missed.After == 0 {
		return actor.DefaultMissedAfter
	}
	return r.Missed.After
}

// dueNow are the occurrences from one on that are due.
type dueNow struct {
	count  uint32       // at least 1; of a cron expression with more than maxSteps at least so many
	newest []occurrence // in order, at least 1
	then   occurrence   // the first that is not due
	more   bool         // then is due as well, and was not looked at
}

// due looks at the occurrences from first on, which is due by now or taken for it. Of
// them it returns the newest, at most keep.
func (t *timetable) due(first occurrence, now time.Time, keep uint32) dueNow {
	if t.cron == nil {
		return t.duePeriods(first, now, keep)
	}
	d := dueNow{count: 1, newest: []occurrence{first}, then: t.after(first)}
	for d.then.isDue(now) {
		if d.count == maxSteps {
			if d.more = first.left > 0; !d.more {
				t.leap(&d, now)
			}
			break
		}
		d.count++
		d.newest = append(d.newest, d.then)
		if len(d.newest) > 2*int(keep) {
			d.newest = append(d.newest[:0], d.newest[len(d.newest)-int(keep):]...)
		}
		d.then = t.after(d.then)
	}
	d.newest = d.newest[max(0, len(d.newest)-int(keep)):]
	return d
}

func (o occurrence) isDue(now time.Time) bool { return !o.at.IsZero() && !o.at.After(now) }

// leap goes to the last matches until now without counting those in between.
func (t *timetable) leap(d *dueNow, now time.Time) {
	if !t.until.IsZero() && now.After(t.until) {
		now = t.until
	}
	want := len(d.newest)
	for back := time.Minute; ; back *= 2 {
		from := now.Add(-back)
		if from.Before(d.then.at) {
			from = d.then.at.Add(-1)
		}
		var found []occurrence
		o := t.after(occurrence{at: from})
		for ; o.isDue(now); o = t.after(o) {
			if found = append(found, o); len(found) > 2*want {
				found = append(found[:0], found[len(found)-want:]...)
			}
		}
		if len(found) >= want || from.Before(d.then.at) {
			d.newest = append(d.newest, found...)
			d.then = o
			return
		}
	}
}

// duePeriods is due for a period, by division.
func (t *timetable) duePeriods(first occurrence, now time.Time, keep uint32) dueNow {
	last := now
	if !t.until.IsZero() && last.After(t.until) {
		last = t.until
	}
	// In microseconds: a Duration holds only 292 years.
	steps := max(0, last.UnixMicro()-first.at.UnixMicro()) / t.every.Microseconds()
	count := uint32(min(steps+1, 1<<32-1))
	if first.left > 0 {
		count = min(count, first.left)
	}
	d := dueNow{count: count}
	nth := func(n int64) occurrence {
		at := time.UnixMicro(first.at.UnixMicro() + n*t.every.Microseconds()).UTC()
		if first.left > 0 {
			return t.bounded(at, first.left, uint32(n))
		}
		return t.bounded(at, 0, 0)
	}
	all := steps + 1
	if first.left > 0 {
		all = int64(count)
	}
	for n := max(0, all-int64(keep)); n < all; n++ {
		d.newest = append(d.newest, nth(n))
	}
	if first.left == 0 || int64(first.left) > all {
		d.then = nth(all)
	}
	return d
}

// progress returns the reminder at an occurrence; nil for none.
func (t *timetable) progress(o occurrence) *actor.ReminderProgress {
	if o.at.IsZero() {
		return nil
	}
	return &actor.ReminderProgress{Due: o.at, FireAt: o.at.Add(t.jitter), Left: o.left}
}

// ceil is a time to the microsecond, not before t.
func ceil(t time.Time) time.Time {
	t = t.UTC()
	if c := t.Truncate(time.Microsecond); c.Before(t) {
		return c.Add(time.Microsecond)
	}
	return t
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
