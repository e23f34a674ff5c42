package schedule

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Cron is a cron expression in a time zone. A set has bit n for the number n.
type Cron struct {
	second, minute, hour, day, month, weekday uint64
	zone                                      *time.Location
}

// anyValue is the bit of a set whose field has a * or ? in it, without a step above 1.
const anyValue = 1 << 63

// field is one field of an expression.
type field struct {
	what     string
	from, to int
	names    string // of three letters each, from the number from on
}

var cronFields = []field{
	{"second", 0, 59, ""}, {"minute", 0, 59, ""}, {"hour", 0, 23, ""}, {"day of the month", 1, 31, ""},
	{"month", 1, 12, "janfebmaraprmayjunjulaugsepoctnovdec"}, {"day of the week", 0, 6, "sunmontuewedthufrisat"},
}

// ParseCron reads an expression of five fields (minute, hour, day of the month, month, day
// of the week), of six with the second in front, or one of @yearly, @annually, @monthly,
// @weekly, @daily, @midnight and @hourly. The error begins with the expression, and says what to
// change.
func ParseCron(text string, zone *time.Location) (*Cron, error) {
	switch {
	case strings.Contains(text, "TZ="):
		return nil, fmt.Errorf("%q names a time zone; give it as the zone", text)
	case strings.HasPrefix(text, "@every"):
		return nil, fmt.Errorf("%q is a period; give it as the period", text)
	}
	fields := text
	switch text {
	case "@yearly", "@annually":
		fields = "0 0 1 1 *"
	case "@monthly":
		fields = "0 0 1 * *"
	case "@weekly":
		fields = "0 0 * * 0"
	case "@daily", "@midnight":
		fields = "0 0 * * *"
	case "@hourly":
		fields = "0 * * * *"
	}
	parts := strings.Fields(fields)
	if len(parts) == 5 {
		parts = append([]string{"0"}, parts...)
	}
	if len(parts) != 6 {
		return nil, fmt.Errorf("%q cannot be read: it has %d fields; give minute, hour, day of the month, month and day of the week, such as 0 9 * * MON", text, len(parts))
	}
	c := &Cron{zone: zone}
	for n, set := range []*uint64{&c.second, &c.minute, &c.hour, &c.day, &c.month, &c.weekday} {
		var err error
		if *set, err = cronFields[n].parse(parts[n]); err != nil {
			return nil, fmt.Errorf("%q cannot be read: the %s %w", text, cronFields[n].what, err)
		}
	}
	return c, nil
}

func (f field) parse(part string) (uint64, error) {
	var set uint64
	for _, item := range strings.FieldsFunc(part, func(r rune) bool { return r == ',' }) {
		span, step, stepped := strings.Cut(item, "/")
		by := 1
		if stepped {
			var err error
			if by, err = strconv.Atoi(step); err != nil || by < 1 {
				return 0, fmt.Errorf("has the step %q; give a number from 1 on", step)
			}
		}
		low, high := f.from, f.to
		first, last, ranged := strings.Cut(span, "-")
		if first != "*" && first != "?" {
			var err error
			if low, err = f.number(first); err != nil {
				return 0, err
			}
			switch {
			case ranged:
				if high, err = f.number(last); err != nil {
					return 0, err
				}
			case !stepped:
				high = low
			}
		} else if by == 1 {
			set |= anyValue
		}
		if low > high {
			return 0, fmt.Errorf("has the range %q; give the lower number first", span)
		}
		for n := low; n <= high; n += by {
			set |= 1 << n
		}
	}
	return set, nil
}

func (f field) number(text string) (int, error) {
	if at := strings.Index(f.names, strings.ToLower(text)); f.names != "" && len(text) == 3 && at >= 0 && at%3 == 0 {
		return f.from + at/3, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < f.from || n > f.to {
		return 0, fmt.Errorf("has %q; give %d to %d", text, f.from, f.to)
	}
	return n, nil
}

func has(set uint64, n int) bool { return set&(1<<n) != 0 }

// maxYears is how far a match may be: between two 29ths of February there can be
// eight years.
const maxYears = 9

const everyHour = 1<<24 - 1

// Next returns the first match after t; the zero time if there is none.
//
// Hours that are restricted name times on the wall: one that the zone skips is moved to
// the end of the gap, one that it repeats is taken once. An expression for every hour
// names moments, as they pass.
func (c *Cron) Next(t time.Time) time.Time {
	if c.hour&everyHour == everyHour {
		return c.nextMoment(t)
	}
	for wall := wallTime(t.In(c.zone)); ; {
		if wall = c.match(wall); wall.IsZero() {
			return wall
		}
		if moment := momentOf(wall, c.zone); moment.After(t) {
			return moment.UTC()
		}
	}
}

func (c *Cron) nextMoment(t time.Time) time.Time {
	local := t.In(c.zone)
	wall := wallTime(local)
	for {
		match := c.match(wall)
		if match.IsZero() {
			return match
		}
		_, offset := local.Zone()
		moment := match.Add(-time.Duration(offset) * time.Second)
		_, end := local.ZoneBounds()
		if end.IsZero() || moment.Before(end) {
			return moment
		}
		local = end.In(c.zone)
		wall = wallTime(local).Add(-1) // the change of the clocks itself may match
	}
}

// match returns the first match after a wall time, which is written as UTC.
func (c *Cron) match(after time.Time) time.Time {
	t := after.Truncate(time.Second).Add(time.Second)
	for limit := t.AddDate(maxYears, 0, 0); t.Before(limit); {
		switch {
		case !has(c.month, int(t.Month())):
			t = time.Date(t.Year(), t.Month()+1, 1, 0, 0, 0, 0, time.UTC)
		case !c.matchesDay(t):
			t = time.Date(t.Year(), t.Month(), t.Day()+1, 0, 0, 0, 0, time.UTC)
		case !has(c.hour, t.Hour()):
			t = t.Truncate(time.Hour).Add(time.Hour)
		case !has(c.minute, t.Minute()):
			t = t.Truncate(time.Minute).Add(time.Minute)
		case !has(c.second, t.Second()):
			t = t.Add(time.Second)
		default:
			return t
		}
	}
	return time.Time{}
}

func (c *Cron) matchesDay(t time.Time) bool {
	day, weekday := has(c.day, t.Day()), has(c.weekday, int(t.Weekday()))
	if (c.day|c.weekday)&anyValue != 0 {
		return day && weekday
	}
	return day || weekday
}

// wallTime returns what the wall shows at t, written as UTC.
func wallTime(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// momentOf returns when the wall first shows a time, or the end of the gap that it
// falls into.
func momentOf(wall time.Time, zone *time.Location) time.Time {
	var moments [2]time.Time // by the offsets before and after a change of the clocks
	for i, near := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
		_, offset := wall.Add(near).In(zone).Zone()
		moments[i] = wall.Add(-time.Duration(offset) * time.Second)
	}
	if moments[1].Before(moments[0]) {
		moments[0], moments[1] = moments[1], moments[0]
	}
	for _, m := range moments {
		if wallTime(m.In(zone)).Equal(wall) {
			return m
		}
	}
	_, end := moments[0].In(zone).ZoneBounds()
	return end
}
