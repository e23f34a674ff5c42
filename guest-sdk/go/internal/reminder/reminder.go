// Package reminder keeps the reminders of a test kit by the rules of a host: what is refused,
// and, with [schedule.Timetable], when they are due.
//
// It is pure: it reads no clock. Jitter is none here, so that tests know when.
package reminder

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/abi/schedule"
)

// Bounds of abi/SPEC.md section 4.
const (
	maxName     = 256
	maxPayload  = 64 << 10
	maxEntries  = 32
	maxMetadata = 8 << 10
	maxAttempts = 1000
	maxCatchUp  = 1000
	maxJitter   = 24 * time.Hour
)

// Reminder is one that was set.
type Reminder struct {
	abi.Reminder // owns its bytes; Due, Count and Delay are of when it was set
	// Due is the next occurrence, Left how many there are from it on (0: no limit), and
	// FireAt when it is fired.
	Due, FireAt time.Time
	Left        uint32
	// Failures counts the failed tries of this firing.
	Failures uint32

	timetable schedule.Timetable
}

// New checks a reminder that is set at now, and works out its first occurrence. The
// error says what to change.
func New(r abi.Reminder, now time.Time) (*Reminder, error) {
	if err := check(&r); err != nil {
		return nil, err
	}
	now = schedule.Ceil(now)
	made := &Reminder{Reminder: r, Left: r.Count, timetable: schedule.Timetable{Every: time.Duration(r.PeriodNano).Round(time.Microsecond)}}
	if r.UntilNano != 0 {
		made.timetable.Until = time.Unix(0, r.UntilNano).UTC().Truncate(time.Microsecond)
	}
	switch {
	case r.DueUnixNano != 0:
		made.Due = time.Unix(0, r.DueUnixNano)
	case r.DelayNano > 0:
		made.Due = now.Add(time.Duration(r.DelayNano))
	default:
		made.Due = now.Add(time.Duration(r.PeriodNano))
	}
	made.Due = schedule.Ceil(made.Due)
	if r.Cron != "" {
		zone, err := time.LoadLocation(r.Zone)
		if err != nil || r.Zone == "Local" {
			return nil, fmt.Errorf("the zone %q is not known; give an IANA name such as Europe/Berlin", r.Zone)
		}
		if made.timetable.Cron, err = schedule.ParseCron(r.Cron, zone); err != nil {
			return nil, fmt.Errorf("the cron expression %w", err)
		}
		if made.Due = made.timetable.First(made.Due); made.Due.IsZero() {
			return nil, fmt.Errorf("the cron expression %q never matches; give a day that exists", r.Cron)
		}
	}
	if until := made.timetable.Until; !until.IsZero() && made.Due.After(until) {
		return nil, fmt.Errorf("the end at %v is before the first occurrence at %v; give a later one", until, made.Due)
	}
	if r.Count == 0 && r.PeriodNano == 0 && r.Cron == "" {
		made.Left = 1
	}
	made.FireAt = made.Due
	if made.FireAt.Before(now) {
		made.FireAt = now
	}
	return made, nil
}

func check(r *abi.Reminder) error {
	if err := CheckName(r.Name); err != nil {
		return err
	}
	every := time.Duration(r.PeriodNano)
	recurring := r.PeriodNano != 0 || r.Cron != ""
	metadata := 0
	for _, h := range r.Metadata {
		metadata += len(h.Name) + len(h.Value)
	}
	for _, rule := range []struct {
		broken bool
		says   string
	}{
		{len(r.Payload) > maxPayload, "the input has more than 65536 bytes; keep the data in the state, and name it here"},
		{r.DueUnixNano != 0 && r.DelayNano != 0, "it has both a due time and a delay; give one of them"},
		{r.DelayNano < 0, "the delay is below 0"},
		{r.PeriodNano != 0 && every < time.Millisecond, "the period is below a millisecond; leave it out for a reminder that fires once"},
		{r.PeriodNano != 0 && r.Cron != "", "it has both a period and a cron expression; give one of them"},
		{r.Zone != "" && r.Cron == "", "it has a zone and no cron expression that it is for"},
		{r.Count > 1 && !recurring, "it is due several times, and has neither a period nor a cron expression; give one"},
		{r.JitterNano < 0 || time.Duration(r.JitterNano) > maxJitter, "the jitter must be between 0 and 24 h"},
		{r.JitterNano > 0 && r.PeriodNano > 0 && r.JitterNano >= r.PeriodNano, "the jitter must be less than the period"},
		{r.Missed > abi.MissedCatchUp, "the policy for missed occurrences is not known"},
		{r.MissedLimit != 0 && r.Missed != abi.MissedCatchUp || r.MissedLimit > maxCatchUp, "at most 1000 missed occurrences are caught up with"},
		{r.MissedAfter < 0 || r.MissedAfter != 0 && r.Missed != abi.MissedSkip, "how late a missed occurrence may be must be 0 or more"},
		{r.Failure > abi.FailureDrop, "the policy for failures is not known"},
		{r.Attempts > maxAttempts, "at most 1000 attempts are allowed"},
		{r.Failure == abi.FailureDrop && (r.Attempts != 0 || r.IntervalNano != 0 || r.LongestNano != 0), "it drops a firing that fails, and has attempts or intervals; leave them out"},
		{r.IntervalNano < 0, "the retry interval is below 0"},
		{r.LongestNano != 0 && (r.Failure != abi.FailureExponential || r.LongestNano < r.IntervalNano), "the longest retry interval is below the first one"},
		{len(r.Metadata) > maxEntries || metadata > maxMetadata, "the metadata has more than 32 entries, or 8192 bytes"},
	} {
		if rule.broken {
			return errors.New(rule.says)
		}
	}
	return nil
}

// CheckName says what is wrong with a reminder's name.
func CheckName(name string) error {
	if name == "" || len(name) > maxName || !utf8.ValidString(name) {
		return fmt.Errorf("the name has %d bytes; give 1 to %d of UTF-8", len(name), maxName)
	}
	if strings.ContainsFunc(name, unicode.IsControl) {
		return errors.New("the name has a control character; remove it")
	}
	return nil
}

// Firing is one delivery of a due reminder.
type Firing struct {
	schedule.Choice
	Attempt uint32
}

// Fire returns the delivery of r at now. now must not be before FireAt.
func (r *Reminder) Fire(now time.Time) Firing {
	missed := schedule.Missed{Kind: r.Reminder.Missed, Limit: r.MissedLimit, After: time.Duration(r.MissedAfter)}
	f := Firing{Choice: r.timetable.Choose(schedule.Occurrence{At: r.Due, Left: r.Left}, r.Failures > 0, missed, now), Attempt: 1}
	if f.Here.At.Equal(r.Due) {
		f.Attempt = r.Failures + 1
	}
	return f
}

// Done moves r past a firing, and reports whether there is another occurrence.
func (r *Reminder) Done(f Firing) bool {
	r.Due, r.FireAt, r.Left, r.Failures = f.Then.At, f.Then.At, f.Then.Left, 0
	return !f.Then.At.IsZero()
}

// Failed says whether a firing that failed at now is tried again; otherwise it is over,
// and dead says whether it is a dead letter.
func (r *Reminder) Failed(f Firing, now time.Time) (again, dead bool) {
	retry := schedule.Retry{Kind: r.Failure, Attempts: r.Attempts, Interval: time.Duration(r.IntervalNano), Longest: time.Duration(r.LongestNano)}
	wait, again := retry.Wait(f.Attempt)
	if !again {
		return false, r.Failure != abi.FailureDrop
	}
	r.Due, r.Left, r.Failures, r.FireAt = f.Here.At, f.Here.Left, f.Attempt, schedule.Ceil(now.Add(wait))
	return true, false
}

// Frame encodes r for a guest; setting it again continues the schedule unchanged.
func (r *Reminder) Frame() abi.Reminder {
	f := r.Reminder
	f.DueUnixNano, f.DelayNano, f.Count = r.Due.UnixNano(), 0, r.Left
	if f.PeriodNano == 0 && f.Cron == "" {
		f.Count = r.Count
	}
	return f
}
