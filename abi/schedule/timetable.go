package schedule

import (
	"math"
	"time"

	"github.com/greenroom-run/greenroom/abi"
)

const (
	// DefaultCatchUp is how many missed occurrences are caught up with, the newest ones, where
	// the policy to do so has no limit.
	DefaultCatchUp = 100
	// DefaultMissedAfter is how late an occurrence may be delivered before it counts as missed,
	// where the policy is to skip, and after the end of a schedule.
	DefaultMissedAfter = time.Minute
)

// Latest is the latest time of an occurrence: what stores can keep.
var Latest = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// Timetable says which occurrence follows on another: one after a period, or the next match of
// an expression, but none after the end. With neither there is one alone. Times and the period
// are whole microseconds, as stores keep them.
type Timetable struct {
	Every time.Duration
	Cron  *Cron
	Until time.Time // zero: none
}

// Occurrence is a time of a timetable, and how many there are from it on: 0, no limit. The
// zero Occurrence is none.
type Occurrence struct {
	At   time.Time
	Left uint32
}

// Missed determines what happens to occurrences that nobody could deliver in time.
type Missed struct {
	Kind  uint8         // abi.MissedCollapse, MissedSkip or MissedCatchUp
	Limit uint32        // how many are caught up with; 0: [DefaultCatchUp]
	After time.Duration // how late one may be that is not skipped; 0: [DefaultMissedAfter]
}

func (m Missed) after() time.Duration {
	if m.After == 0 {
		return DefaultMissedAfter
	}
	return m.After
}

// First returns the time of the first occurrence at or after a time; the zero time if none.
func (t *Timetable) First(at time.Time) time.Time {
	if t.Cron != nil {
		at = t.Cron.Next(at.Add(-1))
	}
	if at.After(Latest) {
		return time.Time{}
	}
	return at.UTC()
}

// Ceil returns a time in whole microseconds, not before t.
func Ceil(t time.Time) time.Time {
	t = t.UTC()
	if c := t.Truncate(time.Microsecond); c.Before(t) {
		return c.Add(time.Microsecond)
	}
	return t
}

// After returns the occurrence after o.
func (t *Timetable) After(o Occurrence) Occurrence {
	if o.Left == 1 {
		return Occurrence{}
	}
	var at time.Time
	switch {
	case t.Cron != nil:
		if at = t.Cron.Next(o.At).UTC(); at.IsZero() {
			return Occurrence{}
		}
	case t.Every > 0:
		at = o.At.Add(t.Every)
	default:
		return Occurrence{}
	}
	return t.bounded(at, o.Left, 1)
}

// bounded returns the occurrence at a time, n after one with left.
func (t *Timetable) bounded(at time.Time, left, n uint32) Occurrence {
	if !t.Until.IsZero() && at.After(t.Until) || at.After(Latest) {
		return Occurrence{}
	}
	if left > 0 {
		left -= n
	}
	return Occurrence{at, left}
}

// Choice is what is delivered of the occurrences that are due, and what comes then.
type Choice struct {
	Deliver bool
	Here    Occurrence // delivered; if nothing is, the first that was due
	Then    Occurrence // none: it was the last
	Missed  uint32     // for how many more it stands, or were passed over before it
}

// Choose applies the missed policy to what is due at now, from the occurrence first on. One
// that is delivered again since it failed is not missed. After the end of the schedule every
// policy passes over what is late.
func (t *Timetable) Choose(first Occurrence, again bool, missed Missed, now time.Time) Choice {
	if t.Every == 0 && t.Cron == nil {
		late := missed.Kind == abi.MissedSkip && now.Sub(first.At) > missed.after() || t.ended(first.At, now)
		if late && !again {
			return Choice{Here: first, Missed: 1}
		}
		return Choice{Deliver: true, Here: first}
	}
	keep := uint32(1) // how many of the newest are of interest
	if missed.Kind == abi.MissedCatchUp {
		if keep = missed.Limit; keep == 0 {
			keep = DefaultCatchUp
		}
	}
	due := t.due(first, now, keep)
	newest := due.newest[len(due.newest)-1]
	if t.ended(newest.At, now) && !again {
		return Choice{Here: first, Then: due.then, Missed: due.count}
	}
	switch missed.Kind {
	case abi.MissedCatchUp:
		oldest := due.newest[0]
		return Choice{Deliver: true, Here: oldest, Then: t.After(oldest), Missed: due.count - uint32(len(due.newest))}
	case abi.MissedSkip:
		if now.Sub(newest.At) <= missed.after() || again && due.count == 1 {
			return Choice{Deliver: true, Here: newest, Then: due.then, Missed: due.count - 1}
		}
		return Choice{Here: first, Then: due.then, Missed: due.count}
	default:
		return Choice{Deliver: true, Here: first, Then: due.then, Missed: due.count - 1}
	}
}

// ended reports whether the schedule is over at now, and an occurrence at a time is late: what
// is due right before the end is still delivered.
func (t *Timetable) ended(at, now time.Time) bool {
	return !t.Until.IsZero() && now.After(t.Until) && now.Sub(at) > DefaultMissedAfter
}

// dueNow are the occurrences from one on that are due.
type dueNow struct {
	count  uint32       // at least 1
	newest []Occurrence // in order, at least 1
	then   Occurrence   // the first that is not due
}

// walked is how many matches of a cron expression are walked over before the others are counted.
const walked = 16

// due looks at the occurrences from first on, which is due by now or taken for it. Of
// them it returns the newest, at most keep.
func (t *Timetable) due(first Occurrence, now time.Time, keep uint32) dueNow {
	if t.Cron == nil {
		return t.duePeriods(first, now, keep)
	}
	d := dueNow{count: 1, newest: []Occurrence{first}, then: t.After(first)}
	for d.then.isDue(now) {
		if d.count == walked {
			t.leap(&d, now, keep)
			break
		}
		d.count++
		d.newest = append(d.newest, d.then)
		d.then = t.After(d.then)
	}
	d.newest = d.newest[max(0, len(d.newest)-int(keep)):]
	return d
}

func (o Occurrence) isDue(now time.Time) bool { return !o.At.IsZero() && !o.At.After(now) }

// leap counts the matches from then on until now, and goes to the newest of them, at most keep.
func (t *Timetable) leap(d *dueNow, now time.Time, keep uint32) {
	from, last := d.then.At, now
	if !t.Until.IsZero() && last.After(t.Until) {
		last = t.Until
	}
	if last.After(Latest) {
		last = Latest
	}
	count, left := 1+t.Cron.Count(from, last), int64(d.then.Left)
	if left > 0 && count >= left {
		if count = left; count == 1 {
			last = from
		} else {
			last = t.Cron.nth(from, last, count-1)
		}
	}
	found := t.newest(from, last, int(min(int64(keep), count)))
	for i := range found {
		o := Occurrence{At: found[i]}
		if left > 0 {
			o.Left = uint32(left - count + int64(len(found)-i))
		}
		d.newest = append(d.newest, o)
	}
	d.then = Occurrence{}
	if next := t.Cron.Next(last).UTC(); !next.IsZero() && (left == 0 || left > count) {
		d.then = t.bounded(next, uint32(left), uint32(count))
	}
	d.count = uint32(min(int64(d.count)+count, math.MaxUint32))
}

// farthestBack is how far before the last time the newest matches are looked for without walking
// over all of them. A Duration holds 292 years.
const farthestBack = 200 * 365 * 24 * time.Hour

// newest returns the n newest matches from one on until a time; there are as many.
func (t *Timetable) newest(from, last time.Time, n int) []time.Time {
	for back := time.Minute; ; back *= 2 {
		begin := from.Add(-1)
		if b := last.Add(-back); back < farthestBack && b.After(from) {
			begin = b
		}
		var found []time.Time
		for at := t.Cron.Next(begin); !at.IsZero() && !at.After(last); at = t.Cron.Next(at) {
			if found = append(found, at.UTC()); len(found) > 2*n {
				found = append(found[:0], found[len(found)-n:]...)
			}
		}
		if len(found) >= n || begin.Before(from) {
			return found[max(0, len(found)-n):]
		}
	}
}

// duePeriods is due for a period, by division.
func (t *Timetable) duePeriods(first Occurrence, now time.Time, keep uint32) dueNow {
	last := now
	if !t.Until.IsZero() && last.After(t.Until) {
		last = t.Until
	}
	// In microseconds: a Duration holds only 292 years.
	steps := max(0, last.UnixMicro()-first.At.UnixMicro()) / t.Every.Microseconds()
	count := uint32(min(steps+1, 1<<32-1))
	if first.Left > 0 {
		count = min(count, first.Left)
	}
	d := dueNow{count: count}
	nth := func(n int64) Occurrence {
		at := time.UnixMicro(first.At.UnixMicro() + n*t.Every.Microseconds()).UTC()
		if first.Left > 0 {
			return t.bounded(at, first.Left, uint32(n))
		}
		return t.bounded(at, 0, 0)
	}
	all := steps + 1
	if first.Left > 0 {
		all = int64(count)
	}
	for n := max(0, all-int64(keep)); n < all; n++ {
		d.newest = append(d.newest, nth(n))
	}
	if first.Left == 0 || int64(first.Left) > all {
		d.then = nth(all)
	}
	return d
}
