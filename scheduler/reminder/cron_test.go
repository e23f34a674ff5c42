package reminder

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/greenroom-run/greenroom/actor"
)

func zone(t interface{ Fatal(...any) }, name string) *time.Location {
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func TestCronAcrossClockChanges(t *testing.T) {
	for _, tt := range []struct {
		name, cron, zone string
		from             string
		want             []string
	}{
		{"into a gap: at its end, once", "30 2 * * *", "Europe/Berlin", "2026-03-28T00:00:00Z",
			[]string{"2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"}},
		{"several into a gap: once", "*/15 2 * * *", "Europe/Berlin", "2026-03-28T01:45:00Z",
			[]string{"2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"}},
		{"a time that is repeated: the first", "30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z",
			[]string{"2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"}},
		{"from inside of the repetition", "30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z",
			[]string{"2026-10-26T01:30:00Z"}},
		{"every half hour goes on through a repetition", "*/30 * * * *", "Europe/Berlin", "2026-10-24T23:45:00Z",
			[]string{"2026-10-25T00:00:00Z", "2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:00:00Z"}},
		{"every half hour goes on through a gap", "*/30 * * * *", "Europe/Berlin", "2026-03-29T00:15:00Z",
			[]string{"2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z"}},
		{"half an hour of daylight saving", "15 2 * * *", "Australia/Lord_Howe", "2026-10-02T20:00:00Z",
			[]string{"2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"}},
		{"midnight that does not exist", "0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00Z",
			[]string{"2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"}},
		{"a day that does not exist", "0 12 * * *", "Pacific/Apia", "2011-12-29T12:00:00Z",
			[]string{"2011-12-29T22:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"}},
		{"every Monday at nine", "0 9 * * MON", "Europe/Berlin", "2026-03-22T00:00:00Z",
			[]string{"2026-03-23T08:00:00Z", "2026-03-30T07:00:00Z", "2026-04-06T07:00:00Z"}},
		{"seconds", "30 0 0 1 1 *", "", "2026-01-01T00:00:30Z",
			[]string{"2027-01-01T00:00:30Z"}},
		{"29 February over the turn of a century", "0 0 29 2 *", "", "2096-03-01T00:00:00Z",
			[]string{"2104-02-29T00:00:00Z", "2108-02-29T00:00:00Z"}},
		{"a descriptor", "@monthly", "America/New_York", "2026-03-01T05:00:00Z",
			[]string{"2026-04-01T04:00:00Z"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, err := parseCron(tt.cron, zone(t, tt.zone))
			if err != nil {
				t.Fatal(err)
			}
			at, err := time.Parse(time.RFC3339, tt.from)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for range tt.want {
				at = e.next(at)
				got = append(got, at.UTC().Format(time.RFC3339))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// Ten years of a weekly and a monthly expression in zones with and without daylight
// saving: each is once per week or month, at its time on the wall.
func TestYearsOfCron(t *testing.T) {
	for _, name := range []string{"UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Africa/Casablanca"} {
		z := zone(t, name)
		for _, tt := range []struct {
			cron  string
			count int
			right func(time.Time) bool
		}{
			{"0 9 * * MON", 522, func(t time.Time) bool { return t.Weekday() == time.Monday && t.Hour() == 9 && t.Minute() == 0 }},
			{"30 17 1 * *", 120, func(t time.Time) bool { return t.Day() == 1 && t.Hour() == 17 && t.Minute() == 30 }},
		} {
			e, err := parseCron(tt.cron, z)
			if err != nil {
				t.Fatal(err)
			}
			end := time.Date(2036, 1, 1, 0, 0, 0, 0, z)
			count := 0
			for at := e.next(time.Date(2025, 12, 31, 23, 59, 0, 0, z)); at.Before(end); at = e.next(at) {
				if count++; !tt.right(at.In(z)) {
					t.Errorf("%s in %s: %s", tt.cron, name, at.In(z))
				}
			}
			if count != tt.count {
				t.Errorf("%s in %s: %d times in ten years, want %d", tt.cron, name, count, tt.count)
			}
		}
	}
}

// The matches of random expressions around changes of the clocks are those that a walk
// over every minute finds.
func TestCronAgainstEveryMinute(t *testing.T) {
	changes := []struct {
		zone string
		at   time.Time
	}{
		{"Europe/Berlin", time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC)},
		{"Europe/Berlin", time.Date(2026, 10, 25, 1, 0, 0, 0, time.UTC)},
		{"Australia/Lord_Howe", time.Date(2026, 10, 3, 15, 30, 0, 0, time.UTC)},
		{"Australia/Lord_Howe", time.Date(2026, 4, 4, 15, 0, 0, 0, time.UTC)},
		{"America/Sao_Paulo", time.Date(2018, 11, 4, 3, 0, 0, 0, time.UTC)},
		{"Pacific/Apia", time.Date(2011, 12, 30, 10, 0, 0, 0, time.UTC)},
	}
	rapid.Check(t, func(t *rapid.T) {
		change := rapid.SampledFrom(changes).Draw(t, "change")
		z := zone(t, change.zone)
		minutes := rapid.SliceOfNDistinct(rapid.IntRange(0, 59), 1, 3, rapid.ID).Draw(t, "minutes")
		hours := rapid.SliceOfNDistinct(rapid.IntRange(0, 23), 0, 4, rapid.ID).Draw(t, "hours")
		hourly := len(hours) == 0
		text := list(minutes) + " " + list(hours) + " * * *"
		e, err := parseCron(text, z)
		if err != nil {
			t.Fatal(err)
		}
		matches := func(wall time.Time) bool {
			return slices.Contains(minutes, wall.Minute()) && (hourly || slices.Contains(hours, wall.Hour()))
		}

		from, to := change.at.Add(-30*time.Hour), change.at.Add(30*time.Hour)
		var want []time.Time
		shown := map[time.Time]bool{} // what the wall has shown
		last := wallTime(from.Add(-time.Minute).In(z))
		for at := from; at.Before(to); at = at.Add(time.Minute) {
			wall := wallTime(at.In(z))
			hit := matches(wall) && (hourly || !shown[wall])
			for w := last.Add(time.Minute); !hourly && w.Before(wall); w = w.Add(time.Minute) {
				hit = hit || matches(w) // in a gap
			}
			if hit {
				want = append(want, at)
			}
			shown[wall], last = true, wall
		}
		var got []time.Time
		for at := e.next(from.Add(-1)); at.Before(to); at = e.next(at) {
			got = append(got, at.UTC())
		}
		if !slices.EqualFunc(got, want, time.Time.Equal) {
			t.Fatalf("%s in %s\ngot  %v\nwant %v", text, change.zone, got, want)
		}
	})
}

func list(numbers []int) string {
	if len(numbers) == 0 {
		return "*"
	}
	return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(numbers)), ","), "[]")
}

func TestCronRefused(t *testing.T) {
	for _, bad := range []string{"", "* * *", "* * * * * * *", "60 * * * *", "0 24 * * *", "a b c d e", "@every 1h", "@reboot", "@", "TZ=UTC 0 0 * * *", "CRON_TZ=x 0 0 * * *", "TZ=", "*/0 * * * *", "5-1 * * * *", "\xff * * * *"} {
		var fault *actor.ArgumentError
		if _, err := parseCron(bad, time.UTC); !errors.As(err, &fault) || fault.Field != "reminder cron" {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func FuzzCron(f *testing.F) {
	for _, text := range []string{"0 9 * * MON", "*/15 1-3 * * *", "0 0 30 2 *", "@yearly", "TZ=a", "1,2,3 0-23/4 ? jan-mar sun"} {
		f.Add(text)
	}
	berlin := zone(f, "Europe/Berlin")
	f.Fuzz(func(t *testing.T, text string) {
		e, err := parseCron(text, berlin)
		if err != nil {
			return
		}
		at := time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC)
		for range 20 {
			next := e.next(at)
			if next.IsZero() {
				return
			}
			if !next.After(at) {
				t.Fatalf("%q: %s comes after %s", text, next, at)
			}
			at = next
		}
	})
}
