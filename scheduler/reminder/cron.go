package reminder

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // the same zones wherever the binary runs

	"github.com/robfig/cron/v3"

	"github.com/greenroom-run/greenroom/actor"
)

// expression is a parsed cron expression in a time zone.
type expression struct {
	fields *cron.SpecSchedule // matched against wall time, written as UTC
	zone   *time.Location
	// hourly: the expression is for every hour, and so names moments as they pass;
	// the others name times on the wall.
	hourly bool
}

var fields = cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

const everyHour = 1<<24 - 1

// parseCron reads an expression. The library is asked for the fields alone: which
// times match, also across changes of the clocks, is worked out here, since it leaves
// out what falls into a gap and repeats what the zone repeats.
func parseCron(text string, zone *time.Location) (*expression, error) {
	bad := func(problem string) error {
		return &actor.ArgumentError{Field: "reminder cron", Problem: problem}
	}
	if strings.Contains(text, "TZ=") {
		return nil, bad("names a time zone; give it as the zone")
	}
	if strings.HasPrefix(text, "@every") {
		return nil, bad("is a period; give it as the period")
	}
	parsed, err := fields.Parse(text)
	if err != nil {
		// The library's text has Go functions in it for what is neither a number nor a name.
		problem := fmt.Sprintf("%q cannot be read", strings.ToValidUTF8(text, "?"))
		if why := err.Error(); !strings.Contains(why, "strconv.") {
			problem += ": " + strings.ToValidUTF8(why, "?")
		}
		return nil, bad(problem + "; give minute, hour, day of the month, month and day of the week, such as 0 9 * * MON")
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, bad("is not supported; give five fields")
	}
	spec.Location = time.UTC
	return &expression{fields: spec, zone: zone, hourly: spec.Hour&everyHour == everyHour}, nil
}

// next returns the first match after t; the zero time if there is none.
func (e *expression) next(t time.Time) time.Time {
	if e.hourly {
		return e.nextMoment(t)
	}
	return e.nextOnWall(t)
}

// nextMoment goes through the stretches of time in which the zone has one offset.
func (e *expression) nextMoment(t time.Time) time.Time {
	local := t.In(e.zone)
	wall := wallTime(local)
	for {
		match := e.match(wall)
		if match.IsZero() {
			return match
		}
		_, offset := local.Zone()
		moment := match.Add(-time.Duration(offset) * time.Second)
		_, end := local.ZoneBounds()
		if end.IsZero() || moment.Before(end) {
			return moment
		}
		local = end.In(e.zone)
		wall = wallTime(local).Add(-1) // the change of the clocks itself may match
	}
}

// nextOnWall goes through the matches on the wall.
func (e *expression) nextOnWall(t time.Time) time.Time {
	wall := wallTime(t.In(e.zone))
	for {
		wall = e.match(wall)
		if wall.IsZero() {
			return wall
		}
		if moment := momentOf(wall, e.zone); moment.After(t) {
			return moment
		}
	}
}

// match returns the first match after a wall time. The library looks five years ahead;
// between two 29ths of February there can be eight.
func (e *expression) match(wall time.Time) time.Time {
	for range 3 {
		if m := e.fields.Next(wall); !m.IsZero() {
			return m
		}
		wall = wall.AddDate(4, 0, 0)
	}
	return time.Time{}
}

// wallTime returns what the wall shows at t, written as UTC.
func wallTime(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// momentOf returns when the wall first shows a time, or the end of the gap that it
// falls into.
func momentOf(wall time.Time, zone *time.Location) time.Time {
	offsetAt := func(t time.Time) time.Duration {
		_, offset := t.In(zone).Zone()
		return time.Duration(offset) * time.Second
	}
	// No zone changes its clocks twice in two days.
	before := wall.Add(-offsetAt(wall.Add(-24 * time.Hour)))
	after := wall.Add(-offsetAt(wall.Add(24 * time.Hour)))
	shown := func(t time.Time) bool { return wallTime(t.In(zone)).Equal(wall) }
	first, second := before, after
	if second.Before(first) {
		first, second = second, first
	}
	switch {
	case shown(first):
		return first
	case shown(second):
		return second
	}
	_, end := first.In(zone).ZoneBounds()
	return end
}
