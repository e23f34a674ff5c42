package dapr

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/server/reminders"
)

// iso8601 are the durations of ISO 8601 that have one length: months and years have not.
var iso8601 = regexp.MustCompile(`^P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:[.,](\d{1,9}))?S)?)?$`)

// longer matches those that have months or years.
var longer = regexp.MustCompile(`^P[0-9]*Y|^P(?:\d+Y)?\d+M`)

// parseDuration reads a duration as Go writes it (1h30m, 250ms) or as ISO 8601 does
// (PT1H30M, P2DT0.5S). Days have 24 hours.
func parseDuration(field, text string) (time.Duration, error) {
	bad := func(problem string) error {
		return &actor.ArgumentError{Field: field, Problem: fmt.Sprintf("%q %s", text, problem)}
	}
	if !strings.HasPrefix(text, "P") {
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, bad("is no duration; give one such as 1h30m, or PT1H30M (ISO 8601)")
		}
		if d > actor.MaxReminderDuration {
			return 0, bad("is longer than 290 years; give a shorter one")
		}
		return d, nil
	}
	if longer.MatchString(text) {
		return 0, bad("has years or months, which have no fixed length; give days, or a cron expression such as 0 0 1 * *")
	}
	m := iso8601.FindStringSubmatch(text)
	if m == nil || strings.HasSuffix(text, "P") || strings.HasSuffix(text, "T") {
		return 0, bad("is no duration of ISO 8601; give one such as PT1H30M")
	}
	var sum float64 // of whole nanoseconds up to 2^53, and only to see what is too long
	var d time.Duration
	for i, unit := range []time.Duration{7 * 24 * time.Hour, 24 * time.Hour, time.Hour, time.Minute, time.Second} {
		if m[i+1] == "" {
			continue
		}
		n, err := strconv.ParseInt(m[i+1], 10, 64)
		if sum += float64(n) * float64(unit); err != nil || sum > float64(actor.MaxReminderDuration) {
			return 0, bad("is longer than 290 years; give a shorter one")
		}
		d += time.Duration(n) * unit
	}
	if fraction := m[6]; fraction != "" {
		n, err := strconv.ParseInt((fraction + "000000000")[:9], 10, 64)
		if err != nil {
			return 0, bad("is no duration of ISO 8601; give one such as PT1H30M")
		}
		d += time.Duration(n)
	}
	return d, nil
}

// isoDuration writes a duration as ISO 8601 does, in seconds.
func isoDuration(d time.Duration) string {
	text := "PT"
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{time.Hour, "H"}, {time.Minute, "M"}} {
		if n := d / unit.size; n > 0 {
			text += strconv.FormatInt(int64(n), 10) + unit.name
			d %= unit.size
		}
	}
	if d == 0 && len(text) > len("PT") {
		return text
	}
	text += strconv.FormatInt(int64(d/time.Second), 10)
	if part := d % time.Second; part != 0 {
		text += "." + strings.TrimRight(fmt.Sprintf("%09d", part), "0")
	}
	return text + "S"
}

// parseMoment reads a time (RFC 3339), or how long it is until then.
func parseMoment(field, text string) (at time.Time, after time.Duration, err error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		if at.IsZero() { // that is no time here
			return at, 0, reminders.ErrNoTime(field)
		}
		return at, 0, nil
	}
	if after, err = parseDuration(field, text); err != nil {
		return at, 0, &actor.ArgumentError{Field: field, Problem: fmt.Sprintf("is %q; give a time such as 2026-12-24T18:00:00Z, or a duration such as 1h30m or PT1H30M, up to 290 years", text)}
	}
	return at, after, nil
}

// parsePeriod reads a period, which may say how often it comes: R5/PT1M.
func parsePeriod(text string) (every time.Duration, times uint32, err error) {
	const field = "period"
	if rest, ok := strings.CutPrefix(text, "R"); ok {
		count, period, ok := strings.Cut(rest, "/")
		if !ok {
			return 0, 0, &actor.ArgumentError{Field: field, Problem: fmt.Sprintf("%q has repetitions and no duration; give both, such as R5/PT1M", text)}
		}
		if count != "" {
			n, err := strconv.ParseUint(count, 10, 32)
			if err != nil || n == 0 {
				return 0, 0, &actor.ArgumentError{Field: field, Problem: fmt.Sprintf("%q has no number of repetitions from 1 to %d; give one, or none for no limit", text, uint32(math.MaxUint32))}
			}
			times = uint32(n)
		}
		text = period
	}
	if every, err = parseDuration(field, text); err == nil && every == 0 {
		err = reminders.ErrNoPeriod
	}
	return every, times, err
}
