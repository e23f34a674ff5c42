package reminder

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/greenroom-run/greenroom/abi/schedule"
	"github.com/greenroom-run/greenroom/actor"
)

var (
	start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	anID  = actor.ReminderID{Prefix: 1, Token: 7, Vector: actor.Vector([]byte("abcdefgh"))}
)

func spec(s actor.Schedule) actor.ReminderSpec {
	return actor.ReminderSpec{Key: actor.Key{App: "default", Type: "T", ID: "a"}, Name: "n", Method: "M", Schedule: s}
}

func TestPrepareRefuses(t *testing.T) {
	p := NewPlanner()
	for _, tt := range []struct {
		name, field string
		schedule    actor.Schedule
	}{
		{"period and cron", "reminder schedule", actor.Schedule{Every: 1, Cron: "@daily"}},
		{"cron that never matches", "reminder cron", actor.Schedule{Cron: "0 0 30 2 *"}},
		{"cron after the end of time", "reminder cron", actor.Schedule{Cron: "@yearly", At: actor.MaxReminderTime}},
		{"no cron", "reminder cron", actor.Schedule{Cron: "soon"}},
		{"unknown zone", "reminder zone", actor.Schedule{Cron: "@daily", Zone: "Europe/Bielefeld"}},
		{"the machine's zone", "reminder zone", actor.Schedule{Cron: "@daily", Zone: "Local"}},
		{"a file as a zone", "reminder zone", actor.Schedule{Cron: "@daily", Zone: "../../etc/passwd"}},
		{"end before the due time", "reminder end", actor.Schedule{At: start.Add(time.Hour), Until: start.Add(time.Minute)}},
		{"end before the first match", "reminder end", actor.Schedule{Cron: "@yearly", Until: start.AddDate(0, 6, 0), At: start.Add(1)}},
		{"end in the past", "reminder end", actor.Schedule{Every: time.Hour, Until: start.Add(-time.Hour)}},
		{"minutes since the year 1", "reminder start", actor.Schedule{Cron: "* * * * *", At: time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC)}},
		{"seconds since 1900", "reminder start", actor.Schedule{Cron: "* * * * * *", Zone: "Europe/Berlin", Times: maxBehind + 1, At: time.Date(1900, 1, 2, 0, 0, 0, 0, time.UTC)}},
		{"delay after the end of time", "reminder delay", actor.Schedule{After: math.MaxInt64, At: time.Time{}}},
	} {
		now := start
		if tt.name == "delay after the end of time" {
			now = actor.MaxReminderTime.Add(-time.Hour)
		}
		var fault *actor.ArgumentError
		if _, err := p.Prepare(spec(tt.schedule), anID, now); !errors.As(err, &fault) || fault.Field != tt.field {
			t.Errorf("%s: %v, want a fault of %s", tt.name, err, tt.field)
		}
	}
}

func TestPrepare(t *testing.T) {
	p := NewPlanner()
	late := start.Add(90 * time.Minute)
	for _, tt := range []struct {
		name        string
		schedule    actor.Schedule
		due, fireAt time.Time
		left        uint32
	}{
		{"at once", actor.Schedule{}, late, late, 1},
		{"after", actor.Schedule{After: time.Minute}, late.Add(time.Minute), late.Add(time.Minute), 1},
		{"not earlier than asked for", actor.Schedule{After: time.Minute + 1}, late.Add(time.Minute + time.Microsecond), late.Add(time.Minute + time.Microsecond), 1},
		{"in the past", actor.Schedule{At: start}, start, late, 1},
		{"a period begins after one", actor.Schedule{Every: time.Hour}, late.Add(time.Hour), late.Add(time.Hour), 0},
		{"a period from a time on", actor.Schedule{At: late, Every: time.Hour, Times: 3}, late, late, 3},
		{"a period in the past", actor.Schedule{At: start, Every: time.Hour}, start, late, 0},
		{"cron", actor.Schedule{Cron: "@hourly"}, start.Add(2 * time.Hour), start.Add(2 * time.Hour), 0},
		{"cron on the hour", actor.Schedule{Cron: "@hourly", At: start.Add(3 * time.Hour)}, start.Add(3 * time.Hour), start.Add(3 * time.Hour), 0},
		{"cron once", actor.Schedule{Cron: "@hourly", Times: 1}, start.Add(2 * time.Hour), start.Add(2 * time.Hour), 1},
		{"years", actor.Schedule{At: start.AddDate(500, 0, 0)}, start.AddDate(500, 0, 0), start.AddDate(500, 0, 0), 1},
		{"at its end", actor.Schedule{At: late, Until: late}, late, late, 1},
	} {
		r, err := p.Prepare(spec(tt.schedule), anID, late)
		if err != nil || !r.Due.Equal(tt.due) || !r.FireAt.Equal(tt.fireAt) || r.Left != tt.left {
			t.Errorf("%s: due %s, to fire at %s, %d left, %v", tt.name, r.Due, r.FireAt, r.Left, err)
		}
	}
}

func TestJitter(t *testing.T) {
	p := NewPlanner()
	seen := map[time.Duration]bool{}
	for token := range uint32(1000) {
		id := anID
		id.Token = token
		r, err := p.Prepare(spec(actor.Schedule{At: start, Every: time.Hour, Jitter: time.Minute}), id, start.Add(-time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		j := r.FireAt.Sub(r.Due)
		if j < 0 || j > time.Minute {
			t.Fatalf("jitter %v", j)
		}
		seen[j] = true
		plan, err := p.Plan(&r, r.FireAt)
		if err != nil || plan.Firing.Missed != 0 || plan.Firing.Step.Then.FireAt.Sub(plan.Firing.Step.Then.Due) != j {
			t.Fatalf("%+v, %v: another jitter than %v", plan, err, j)
		}
	}
	if len(seen) < 990 {
		t.Errorf("%d different delays of 1000 reminders", len(seen))
	}
}

// occurrences lists a schedule's, one by one.
func occurrences(t *rapid.T, s actor.Schedule, until time.Time) []time.Time {
	var all []time.Time
	var e *schedule.Cron
	if s.Cron != "" {
		var err error
		if e, err = schedule.ParseCron(s.Cron, time.UTC); err != nil {
			t.Fatal(err)
		}
	}
	at := s.At
	if e != nil {
		at = e.Next(at.Add(-1))
	}
	for !at.After(until) && (s.Until.IsZero() || !at.After(s.Until)) && (s.Times == 0 || len(all) < int(s.Times)) {
		all = append(all, at)
		if e != nil {
			at = e.Next(at)
		} else if at = at.Add(s.Every); s.Every == 0 {
			break
		}
	}
	return all
}

// However late reminders are looked at: what was delivered and what was missed are
// together exactly the occurrences, in order, none early, and each policy keeps to what
// it says.
func TestPlanAgainstOccurrences(t *testing.T) {
	p := NewPlanner()
	rapid.Check(t, func(t *rapid.T) {
		s := actor.Schedule{At: start}
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
		case 1:
			s.Every = time.Duration(rapid.IntRange(1, 100).Draw(t, "period")) * time.Minute
		case 2:
			s.Cron = rapid.SampledFrom([]string{"* * * * *", "*/7 * * * *", "0 * * * *", "30 4,5 * * *"}).Draw(t, "cron")
		}
		if s.Every > 0 || s.Cron != "" {
			s.Times = uint32(rapid.IntRange(0, 60).Draw(t, "times"))
		}
		if rapid.Bool().Draw(t, "ends") {
			s.Until = start.AddDate(0, 0, 1).Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "until")) * time.Minute)
		}
		what := spec(s)
		what.Missed.Kind = rapid.SampledFrom([]actor.MissedKind{actor.MissedCollapse, actor.MissedSkip, actor.MissedCatchUp}).Draw(t, "missed")
		if what.Missed.Kind == actor.MissedCatchUp {
			what.Missed.Limit = uint32(rapid.IntRange(0, 5).Draw(t, "limit"))
		}
		r, err := p.Prepare(what, anID, start)
		if err != nil {
			t.Fatal(err)
		}
		all := occurrences(t, r.Schedule, start.AddDate(0, 1, 0))
		next := 0 // index of the reminder's occurrence
		for range 40 {
			late := time.Duration(rapid.SampledFrom([]int{0, 0, 1, 50, 1000, 4000}).Draw(t, "minutes late")) * time.Minute
			now := r.FireAt.Add(late)
			if now.After(start.AddDate(0, 0, 25)) {
				return
			}
			if !r.Due.Equal(all[next]) {
				t.Fatalf("due %s, want occurrence %d, %s", r.Due, next, all[next])
			}
			due := 0
			for next+due < len(all) && !all[next+due].After(now) {
				due++
			}
			plan, err := p.Plan(&r, now)
			if err != nil {
				t.Fatal(err)
			}
			f := plan.Firing
			if until := what.Schedule.Until; !until.IsZero() && now.After(until) && now.Sub(all[next+due-1]) > time.Minute {
				if plan.Deliver || f.Step.Then != nil || next+due != len(all) {
					t.Fatalf("%v after the end: %+v", now.Sub(until), plan)
				}
				return
			}
			var passed, delivered int // before the delivered one; the last that the plan is done with
			switch what.Missed.Kind {
			case actor.MissedCollapse:
				delivered, passed = 0, due
				if !plan.Deliver || int(f.Missed) != due-1 {
					t.Fatalf("collapse of %d: %+v", due, plan)
				}
			case actor.MissedSkip:
				delivered, passed = due-1, due
				if newest := all[next+due-1]; plan.Deliver != (now.Sub(newest) <= time.Minute) {
					t.Fatalf("skip, the newest %v late: %+v", now.Sub(newest), plan)
				}
				if !plan.Deliver {
					delivered = 0
				}
			case actor.MissedCatchUp:
				limit := int(what.Missed.Limit)
				if limit == 0 {
					limit = actor.DefaultCatchUp
				}
				delivered = max(0, due-limit)
				passed = delivered + 1
				if !plan.Deliver || int(f.Missed) != delivered {
					t.Fatalf("catch up with %d of %d: %+v", limit, due, plan)
				}
			}
			if !f.Due.Equal(all[next+delivered]) || f.Due.After(now) || f.Attempt != 1 {
				t.Fatalf("delivered %+v, want %s", f, all[next+delivered])
			}
			next += passed
			if next == len(all) {
				if f.Step.Then != nil {
					t.Fatalf("goes on with %+v after the last", f.Step.Then)
				}
				return
			}
			if f.Step.Then == nil {
				t.Fatalf("is over before occurrence %d of %d", next, len(all))
			}
			r.ReminderProgress = *f.Step.Then
			if r.FireAt.Before(now) && what.Missed.Kind != actor.MissedCatchUp {
				t.Fatalf("the next is due at %s already, at %s", r.FireAt, now)
			}
		}
	})
}

// An outage of years costs a calculation, not a walk.
func TestPlanAfterYears(t *testing.T) {
	p := NewPlanner()
	now := start.AddDate(3, 0, 0)
	minutes := uint32(now.Sub(start) / time.Minute)
	for _, tt := range []struct {
		name     string
		schedule actor.Schedule
		missed   actor.MissedPolicy
		due      time.Time
		then     time.Time
		count    uint32
	}{
		{"period", actor.Schedule{At: start, Every: time.Millisecond}, actor.MissedPolicy{}, start, now.Add(time.Millisecond), math.MaxUint32 - 1},
		{"collapse", actor.Schedule{At: start, Cron: "* * * * *"}, actor.MissedPolicy{}, start, now.Add(time.Minute), minutes},
		{"skip", actor.Schedule{At: start, Cron: "* * * * *"}, actor.MissedPolicy{Kind: actor.MissedSkip}, now, now.Add(time.Minute), minutes},
		{"catch up", actor.Schedule{At: start, Cron: "* * * * *"}, actor.MissedPolicy{Kind: actor.MissedCatchUp, Limit: 3}, now.Add(-2 * time.Minute), now.Add(-time.Minute), minutes - 2},
		{"its end now", actor.Schedule{At: start, Cron: "* * * * *", Until: now}, actor.MissedPolicy{}, start, time.Time{}, minutes},
	} {
		what := spec(tt.schedule)
		what.Missed = tt.missed
		r, err := p.Prepare(what, anID, start)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := p.Plan(&r, now)
		if err != nil || !plan.Deliver || !plan.Firing.Due.Equal(tt.due) || plan.Firing.Missed != tt.count {
			t.Errorf("%s: %+v, %v", tt.name, plan, err)
			continue
		}
		if then := plan.Firing.Step.Then; then == nil != tt.then.IsZero() || then != nil && !then.Due.Equal(tt.then) {
			t.Errorf("%s: then %+v, want %s", tt.name, then, tt.then)
		}
	}
}

// Where walking ends and counting begins, the newest occurrences are found as before.
func TestPlanWhereCountingBegins(t *testing.T) {
	p := NewPlanner()
	what := spec(actor.Schedule{At: start, Cron: "* * * * *"})
	what.Missed = actor.MissedPolicy{Kind: actor.MissedCatchUp, Limit: 3}
	r, err := p.Prepare(what, anID, start)
	if err != nil {
		t.Fatal(err)
	}
	for more := range 40 {
		now := start.Add(time.Duration(3+more) * time.Minute)
		plan, err := p.Plan(&r, now)
		if oldest := now.Add(-2 * time.Minute); err != nil || !plan.Deliver || !plan.Firing.Due.Equal(oldest) || !plan.Firing.Step.Then.Due.Equal(oldest.Add(time.Minute)) {
			t.Errorf("%d minutes later: %+v, %v, want %v", 3+more, plan, err, oldest)
		}
	}
}

// Another attempt at what failed is made however late it is, but where late ones are skipped it
// goes with those that came after it.
func TestPlanOfAnotherAttemptWhereLateOnesAreSkipped(t *testing.T) {
	p := NewPlanner()
	for _, tt := range []struct {
		late    time.Duration
		deliver bool
	}{{20 * time.Minute, true}, {50 * time.Minute, false}, {60 * time.Minute, true}} {
		what := spec(actor.Schedule{At: start, Every: 30 * time.Minute})
		what.Missed.Kind = actor.MissedSkip
		r, err := p.Prepare(what, anID, start)
		if err != nil {
			t.Fatal(err)
		}
		r.Failures = 1
		if plan, err := p.Plan(&r, start.Add(tt.late)); err != nil || plan.Deliver != tt.deliver {
			t.Errorf("%v late: %+v, %v", tt.late, plan, err)
		}
	}
}

// However long ago an expression began, one plan decides about all that is due, and meets the
// limit on occurrences exactly.
func TestPlanOfAnOldExpressionIsOneStep(t *testing.T) {
	p := NewPlanner()
	now := time.Date(2026, 11, 23, 14, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		cron, zone string
		times      uint32
		from       time.Time
		missed     uint32
		then       time.Time
	}{
		{"* * * * * *", "", 0, time.Date(2000, 1, 2, 0, 0, 0, 0, time.UTC), 848_671_200, now.Add(time.Second)},
		{"* * * * * *", "", 4_000_000_000, time.Date(1900, 1, 2, 0, 0, 0, 0, time.UTC), 4_000_000_000 - 1, time.Time{}},
		{"* * * * * *", "Europe/Berlin", 4_000_000_000, time.Date(1900, 1, 2, 0, 0, 0, 0, time.UTC), 4_000_000_000 - 1, time.Time{}},
		{"* * * * *", "", 4_000_000_000, time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC), uint32((now.Unix() - time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC).Unix()) / 60), now.Add(time.Minute)},
		{"* * * * *", "", 1000, time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC), 999, time.Time{}},
	} {
		what := spec(actor.Schedule{At: tt.from, Cron: tt.cron, Zone: tt.zone, Times: tt.times})
		r, err := p.Prepare(what, anID, tt.from)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := p.Plan(&r, now)
		then := plan.Firing.Step.Then
		if err != nil || !plan.Deliver || plan.Firing.Missed != tt.missed || (then == nil) != tt.then.IsZero() || then != nil && !then.Due.Equal(tt.then) {
			t.Errorf("%q in %q from %v, %d times: delivered %t, %d missed, want %d; then %+v, want %v; %v", tt.cron, tt.zone, tt.from, tt.times, plan.Deliver, plan.Firing.Missed, tt.missed, then, tt.then, err)
		}
	}
}

// An expression may begin at any time if its number or its end leaves few occurrences of it.
func TestPlanOfAnOldExpressionWithFewOccurrences(t *testing.T) {
	p := NewPlanner()
	from := time.Date(1900, 1, 2, 0, 0, 0, 0, time.UTC)
	for _, schedule := range []actor.Schedule{
		{Cron: "* * * * * *", At: from, Times: 3},
		{Cron: "* * * * * *", At: from, Times: maxBehind},
		{Cron: "* * * * * *", At: from, Until: from.Add(2 * time.Second)},
	} {
		r, err := p.Prepare(spec(schedule), anID, start)
		if err != nil {
			t.Errorf("%+v: %v", schedule, err)
			continue
		}
		missed := schedule.Times - 1
		if schedule.Times == 0 { // it has ended, so all of it is passed over
			missed = 3
		}
		if plan, err := p.Plan(&r, start); err != nil || plan.Deliver != (schedule.Times > 0) || plan.Firing.Missed != missed || plan.Firing.Step.Then != nil {
			t.Errorf("%+v: %+v, %v", schedule, plan, err)
		}
	}
}

// A limit on occurrences is met exactly, also when many are missed.
func TestManyMissedOfALimitedNumber(t *testing.T) {
	p := NewPlanner()
	for _, missed := range []actor.MissedPolicy{{}, {Kind: actor.MissedCatchUp, Limit: 2}, {Kind: actor.MissedCatchUp, Limit: 100}} {
		what := spec(actor.Schedule{At: start, Cron: "* * * * *", Times: 25_000})
		what.Missed = missed
		r, err := p.Prepare(what, anID, start)
		if err != nil {
			t.Fatal(err)
		}
		now := start.AddDate(1, 0, 0)
		var delivered, all int
		for {
			plan, err := p.Plan(&r, now)
			if err != nil {
				t.Fatal(err)
			}
			all += int(plan.Firing.Missed)
			if plan.Deliver {
				delivered++
				all++
			}
			if plan.Firing.Step.Then == nil {
				break
			}
			r.ReminderProgress = *plan.Firing.Step.Then
		}
		want := max(1, int(missed.Limit))
		if all != 25_000 || delivered != want {
			t.Errorf("%+v: %d delivered of %d, want %d of 25000", missed, delivered, all, want)
		}
	}
}

// After its end a reminder delivers what is on time, and what failed before; the rest is
// passed over, whatever the policy.
func TestPlanAfterTheEnd(t *testing.T) {
	p := NewPlanner()
	end := start.Add(time.Hour)
	once, hourly := actor.Schedule{At: start, Until: end}, actor.Schedule{At: start, Every: 30 * time.Minute, Until: end}
	for _, tt := range []struct {
		name     string
		schedule actor.Schedule
		failures uint32
		late     time.Duration // after the end
		deliver  bool
	}{
		{"late, and before the end", once, 0, 0, true},
		{"late, and after the end", once, 0, 1, false},
		{"another attempt", once, 1, time.Hour, true},
		{"on time", actor.Schedule{At: end, Until: end}, 0, time.Minute, true},
		{"not on time", actor.Schedule{At: end, Until: end}, 0, time.Minute + 1, false},
		{"the newest is on time", hourly, 0, time.Minute, true},
		{"the newest is late", hourly, 0, 2 * time.Minute, false},
		{"another attempt, and others are late", hourly, 1, 2 * time.Minute, true},
	} {
		for _, missed := range []actor.MissedKind{actor.MissedCollapse, actor.MissedCatchUp} {
			what := spec(tt.schedule)
			what.Missed.Kind = missed
			r, err := p.Prepare(what, anID, start)
			if err != nil {
				t.Fatal(err)
			}
			r.Failures = tt.failures
			plan, err := p.Plan(&r, end.Add(tt.late))
			if err != nil || plan.Deliver != tt.deliver || !tt.deliver && plan.Firing.Step.Then != nil {
				t.Errorf("%s, policy %d: %+v, %v", tt.name, missed, plan, err)
			}
		}
	}
	// Its jitter makes no firing late.
	jittered := actor.Schedule{At: end, Until: end, Jitter: time.Hour}
	r, err := p.Prepare(spec(jittered), anID, start)
	if err != nil {
		t.Fatal(err)
	}
	if plan, err := p.Plan(&r, r.FireAt.Add(time.Minute)); err != nil || !plan.Deliver || r.FireAt.Sub(end) < 2*time.Minute {
		t.Errorf("with jitter, to fire at %v: %+v, %v", r.FireAt, plan, err)
	}
}

func TestFailed(t *testing.T) {
	p := NewPlanner()
	what := spec(actor.Schedule{At: start, Every: time.Hour, Times: 5})
	what.Failure = actor.FailurePolicy{Kind: actor.FailureExponential, Attempts: 3, Interval: time.Minute}
	r, err := p.Prepare(what, anID, start)
	if err != nil {
		t.Fatal(err)
	}
	now := start
	for attempt := range uint32(3) {
		plan, err := p.Plan(&r, now)
		if err != nil || plan.Firing.Attempt != attempt+1 || !plan.Firing.Due.Equal(start) {
			t.Fatalf("attempt %d: %+v, %v", attempt+1, plan, err)
		}
		step := p.Failed(&r, &plan, now, "card refused\xff\x00"+strings.Repeat("x", 5000))
		if step.Then == nil || len(step.Then.LastError) > maxReason+3 || !strings.HasPrefix(step.Then.LastError, "card refused?x") {
			t.Fatalf("attempt %d: %+v", attempt+1, step)
		}
		if last := attempt == 2; last != (step.DeadLetter != nil) || last && !step.DeadLetter.Due.Equal(start) {
			t.Fatalf("attempt %d: %+v", attempt+1, step)
		} else if last && (!step.Then.Due.Equal(start.Add(time.Hour)) || step.Then.Failures != 0 || step.Then.Left != 4) {
			t.Fatalf("after the last attempt: %+v", step.Then)
		} else if wait := step.Then.FireAt.Sub(now); !last && (wait > time.Minute<<attempt || wait < time.Minute<<attempt*3/4 || step.Then.Failures != attempt+1 || step.Then.Left != 5) {
			t.Fatalf("after attempt %d: %+v", attempt+1, step.Then)
		}
		r.ReminderProgress, now = *step.Then, step.Then.FireAt
	}

	once, err := p.Prepare(actor.ReminderSpec{Key: what.Key, Name: "n", Method: "M", Failure: actor.FailurePolicy{Kind: actor.FailureDrop}}, anID, start)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := p.Plan(&once, start)
	if err != nil {
		t.Fatal(err)
	}
	if step := p.Failed(&once, &plan, start, "x"); step.Then != nil || step.DeadLetter != nil {
		t.Errorf("dropped: %+v", step)
	}
}

// A failed occurrence that others have passed meanwhile keeps its place in the count.
func TestFailedAfterOthersWerePassedOver(t *testing.T) {
	p := NewPlanner()
	what := spec(actor.Schedule{At: start, Every: time.Minute, Times: 10})
	what.Missed = actor.MissedPolicy{Kind: actor.MissedCatchUp, Limit: 2}
	r, err := p.Prepare(what, anID, start)
	if err != nil {
		t.Fatal(err)
	}
	now := start.Add(5 * time.Minute)
	plan, err := p.Plan(&r, now)
	if err != nil || plan.Firing.Missed != 4 {
		t.Fatalf("%+v, %v", plan, err)
	}
	step := p.Failed(&r, &plan, now, "x")
	if !step.Then.Due.Equal(start.Add(4*time.Minute)) || step.Then.Left != 6 || step.Then.Failures != 1 {
		t.Errorf("%+v", step.Then)
	}
}

func TestPaused(t *testing.T) {
	p := NewPlanner()
	r, err := p.Prepare(spec(actor.Schedule{At: start, Every: time.Hour}), anID, start)
	if err != nil {
		t.Fatal(err)
	}
	step := p.Paused(&r, true, start)
	if !step.Then.Paused || !step.Then.Due.Equal(start) {
		t.Fatalf("%+v", step.Then)
	}
	r.ReminderProgress = *step.Then
	now := start.Add(150 * time.Minute)
	step = p.Paused(&r, false, now)
	if step.Then.Paused || !step.Then.FireAt.Equal(now) {
		t.Fatalf("%+v", step.Then)
	}
	r.ReminderProgress = *step.Then
	if plan, err := p.Plan(&r, now); err != nil || plan.Firing.Missed != 2 || !slices.Equal([]time.Time{plan.Firing.Step.Then.Due}, []time.Time{start.Add(3 * time.Hour)}) {
		t.Errorf("%+v, %v", plan, err)
	}
}

func BenchmarkPlan(b *testing.B) {
	p := NewPlanner()
	for name, s := range map[string]actor.Schedule{
		"period": {At: start, Every: time.Minute},
		"cron":   {At: start, Cron: "0 9 * * MON", Zone: "Europe/Berlin"},
	} {
		b.Run(name, func(b *testing.B) {
			r, err := p.Prepare(spec(s), anID, start)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := p.Plan(&r, r.FireAt); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
