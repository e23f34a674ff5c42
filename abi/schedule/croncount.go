package schedule

import (
	"math"
	"math/bits"
	"time"
)

const secondsOfDay = 24 * 60 * 60

// Count returns how many matches there are after from and not after to. It takes time for each
// month and each change of the clocks between the two, and none for a match.
func (c *Cron) Count(from, to time.Time) (n int64) {
	c.stretches(from, to, func(s stretch) bool {
		n += c.matches(s)
		return true
	})
	return n
}

// nth returns the match that is n matches after from, n at least 1; the zero time if there are
// fewer until to.
func (c *Cron) nth(from, to time.Time, n int64) (at time.Time) {
	c.stretches(from, to, func(s stretch) bool {
		if here := c.matches(s); here < n {
			n -= here
			return true
		}
		for s.first+1 < s.end { // the match is not before first, and before end
			half := s
			half.end = s.first + (s.end-s.first)/2
			if here := c.matches(half); here >= n {
				s.end = half.end
			} else {
				n -= here
				s.first = half.end
			}
		}
		at = time.Unix(s.first-s.ahead, 0).UTC()
		return false
	})
	return at
}

// stretch is a stretch of time in which the wall shows each second once, from first on and
// before end, and is ahead of UTC by so many seconds; or the end of a gap that matches fall into.
type stretch struct {
	first, end, ahead int64
	gap               bool
}

// stretches visits the stretches that have the matches after from and not after to, until visit
// returns false. What the wall shows for the second time is in none, unless the expression
// names moments.
func (c *Cron) stretches(from, to time.Time, visit func(stretch) bool) {
	moments := c.hour&everyHour == everyHour
	begin, limit := from.Unix()+1, to.Unix()+1
	shown, known := int64(math.MinInt64), false // the wall has shown what is before
	for at := from.Add(-4 * 24 * time.Hour).In(c.zone); at.Unix() < limit; {
		_, offset := at.Zone()
		_, change := at.ZoneBounds()
		ahead, start, stop := int64(offset), at.Unix(), limit
		if !change.IsZero() {
			stop = min(limit, change.Unix())
		}
		if !moments && known {
			wall := start + ahead
			if start >= begin && wall > shown && c.between(shown, wall) > 0 && c.between(wall, wall+1) == 0 && !visit(stretch{wall, wall + 1, ahead, true}) {
				return
			}
			start = max(start, shown-ahead)
		}
		if start = max(start, begin); start < stop && !visit(stretch{start + ahead, stop + ahead, ahead, false}) {
			return
		}
		shown, known = max(shown, stop+ahead), true
		if change.IsZero() {
			return
		}
		at = change.In(c.zone)
	}
}

func (c *Cron) matches(s stretch) int64 {
	if s.gap {
		return 1
	}
	return c.between(s.first, s.end)
}

// between returns how many seconds of the wall match from one on and before another.
func (c *Cron) between(from, to int64) int64 {
	if to <= from {
		return 0
	}
	first, last := floorDay(from), floorDay(to)
	n := c.days(first, last) * c.ofDay(secondsOfDay)
	if c.days(first, first+1) > 0 {
		n -= c.ofDay(from - first*secondsOfDay)
	}
	if c.days(last, last+1) > 0 {
		n += c.ofDay(to - last*secondsOfDay)
	}
	return n
}

func floorDay(second int64) int64 {
	day := second / secondsOfDay
	if second%secondsOfDay < 0 {
		day--
	}
	return day
}

// ofDay returns how many of the first seconds of a day that matches do.
func (c *Cron) ofDay(seconds int64) int64 {
	below := func(set uint64, n int64) int64 { return int64(bits.OnesCount64(set &^ anyValue & (1<<n - 1))) }
	hour, minute, second := seconds/3600, seconds/60%60, seconds%60
	n := below(c.hour, hour) * below(c.minute, 60) * below(c.second, 60)
	if has(c.hour, int(hour)) {
		n += below(c.minute, minute) * below(c.second, 60)
		if has(c.minute, int(minute)) {
			n += below(c.second, second)
		}
	}
	return n
}

// days returns how many days match from one on and before another, counted from 1970-01-01.
func (c *Cron) days(from, to int64) (n int64) {
	for day := from; day < to; {
		date := time.Unix(day*secondsOfDay, 0).UTC()
		first := date.Day()
		last := min(int64(time.Date(date.Year(), date.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()), int64(first)+to-day-1)
		if has(c.month, int(date.Month())) {
			n += int64(bits.OnesCount64(c.daysOf(first, int(date.Weekday())) & (1<<(last+1) - 1) &^ (1<<first - 1)))
		}
		day += last - int64(first) + 1
	}
	return n
}

// daysOf returns the days of a month that match, given the weekday of one of its days.
func (c *Cron) daysOf(day, weekday int) uint64 {
	week := c.weekday & 0x7f
	// The weekday of day 0 of the month, and from there on the week over and over.
	zero := ((weekday-day)%7 + 7) % 7
	week = (week>>zero | week<<(7-zero)) & 0x7f
	var weekdays uint64
	for at := 0; at <= 31; at += 7 {
		weekdays |= week << at
	}
	if (c.day|c.weekday)&anyValue != 0 {
		return c.day & weekdays &^ anyValue
	}
	return c.day | weekdays
}
