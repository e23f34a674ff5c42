package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func at(t *testing.T, text string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestCron(t *testing.T) {
	for _, c := range []struct{ cron, zone, after, want string }{
		{"0 9 * * MON", "Europe/Berlin", "2025-01-01T00:00:00Z", "2025-01-06T08:00:00Z"},
		{"0 9 * * 1", "Europe/Berlin", "2025-07-07T07:00:00Z", "2025-07-14T07:00:00Z"},
		{"@monthly", "", "2025-01-31T12:00:00Z", "2025-02-01T00:00:00Z"},
		{"@yearly", "", "2025-01-01T00:00:00Z", "2026-01-01T00:00:00Z"},
		{"@weekly", "", "2025-01-01T00:00:00Z", "2025-01-05T00:00:00Z"},
		{"0 0 29 2 *", "", "2025-01-01T00:00:00Z", "2028-02-29T00:00:00Z"},
		{"0 0 29 2 *", "", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z"},
		{"*/15 8-9 * * mon-fri", "", "2025-01-03T09:45:00Z", "2025-01-06T08:00:00Z"},
		{"5/20 * * * *", "", "2025-01-01T00:05:00Z", "2025-01-01T00:25:00Z"},
		{"30 0 12 * * *", "", "2025-01-01T12:00:30Z", "2025-01-02T12:00:30Z"},
		{"0 0 13 * FRI", "", "2025-01-01T00:00:00Z", "2025-01-03T00:00:00Z"},     // either day, as both are restricted
		{"0 0 */2 * FRI", "", "2025-01-01T00:00:00Z", "2025-01-03T00:00:00Z"},    // a step restricts
		{"0 0 1,*,15 * FRI", "", "2025-01-01T00:00:00Z", "2025-01-03T00:00:00Z"}, // a * among others restricts nothing
		{"0 0 1,,15 * *", "", "2025-01-01T00:00:00Z", "2025-01-15T00:00:00Z"},
		{"0 0 1,15 JAN *", "", "2025-01-01T00:00:00Z", "2025-01-15T00:00:00Z"}, // 1st is not after itself

		// 2025-03-30: 02:00 to 03:00 does not exist in Berlin; 2025-10-26: it is there twice.
		{"30 2 * * *", "Europe/Berlin", "2025-03-29T12:00:00Z", "2025-03-30T01:00:00Z"},
		{"30 2 * * *", "Europe/Berlin", "2025-10-25T12:00:00Z", "2025-10-26T00:30:00Z"},
		{"30 2 * * *", "Europe/Berlin", "2025-10-26T00:30:00Z", "2025-10-27T01:30:00Z"},
		{"30 * * * *", "Europe/Berlin", "2025-10-26T00:30:00Z", "2025-10-26T01:30:00Z"},
		{"0 * * * *", "Europe/Berlin", "2025-03-30T00:30:00Z", "2025-03-30T01:00:00Z"},
	} {
		e, err := ParseCron(c.cron, zone(t, c.zone))
		if err != nil {
			t.Fatalf("%s: %v", c.cron, err)
		}
		if got := e.Next(at(t, c.after)); !got.Equal(at(t, c.want)) {
			t.Errorf("%s in %q after %s: got %s, want %s", c.cron, c.zone, c.after, got.UTC().Format(time.RFC3339), c.want)
		}
	}
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
			e, err := ParseCron(tt.cron, zone(t, tt.zone))
			if err != nil {
				t.Fatal(err)
			}
			at, err := time.Parse(time.RFC3339, tt.from)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for range tt.want {
				at = e.Next(at)
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
			e, err := ParseCron(tt.cron, z)
			if err != nil {
				t.Fatal(err)
			}
			end := time.Date(2036, 1, 1, 0, 0, 0, 0, z)
			count := 0
			for at := e.Next(time.Date(2025, 12, 31, 23, 59, 0, 0, z)); at.Before(end); at = e.Next(at) {
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
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		change := changes[rng.IntN(len(changes))]
		z := zone(t, change.zone)
		minutes, hours := rng.Perm(60)[:1+rng.IntN(3)], rng.Perm(24)[:rng.IntN(5)]
		hourly := len(hours) == 0
		text := list(minutes) + " " + list(hours) + " * * *"
		e, err := ParseCron(text, z)
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
		for at := e.Next(from.Add(-1)); at.Before(to); at = e.Next(at) {
			got = append(got, at.UTC())
		}
		if !slices.EqualFunc(got, want, time.Time.Equal) {
			t.Fatalf("%s in %s\ngot  %v\nwant %v", text, change.zone, got, want)
		}
	}
}

func list(numbers []int) string {
	if len(numbers) == 0 {
		return "*"
	}
	return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(numbers)), ","), "[]")
}

func TestCronRefused(t *testing.T) {
	for text, says := range map[string]string{
		"": "0 fields", "* * *": "3 fields", "* * * * * * *": "7 fields", "60 * * * *": "give 0 to 59", "0 24 * * *": "give 0 to 23",
		"* * 0 * *": "give 1 to 31", "a b c d e": "minute", "* * * * SUNN": "day of the week", "@every 1h": "as the period",
		"@reboot": "1 fields", "@": "1 fields", "TZ=UTC 0 0 * * *": "as the zone", "CRON_TZ=x 0 0 * * *": "as the zone", "TZ=": "as the zone",
		"*/0 * * * *": "step", "5-1 * * * *": "lower number first", "\xff * * * *": "minute",
	} {
		if _, err := ParseCron(text, time.UTC); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want an error with %q", text, err, says)
		}
	}
}

func FuzzCron(f *testing.F) {
	for _, text := range []string{"0 9 * * MON", "*/15 1-3 * * *", "0 0 30 2 *", "@yearly", "TZ=a", "1,2,3 0-23/4 ? jan-mar sun"} {
		f.Add(text)
	}
	berlin := zone(f, "Europe/Berlin")
	f.Fuzz(func(t *testing.T, text string) {
		e, err := ParseCron(text, berlin)
		if err != nil {
			return
		}
		at := time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC)
		for range 20 {
			next := e.Next(at)
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

// Matches are counted as a walk over them counts them, in zones whose clocks change, and the
// n-th is where the walk comes to it.
func TestCountAgainstAWalk(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "Pacific/Apia", "Africa/Casablanca", "Asia/Kathmandu"}
	texts := []string{
		"* * * * *", "*/7 * * * *", "*/15 2 * * *", "30 1-3 * * *", "* 0-3 * * *", "0 0 * * *", "59 23 * * *", "0 9 * * MON", "0 3 13 * FRI", "17 4 29 2 *",
		"30 2 1,15 JAN-JUN *", "20,40 10 2 * * *", "0 0 31 * *", "0 12 */2 * TUE", "@hourly", "0 0 30 2 *",
	}
	for i := range 400 {
		z, text := zone(t, zones[rng.IntN(len(zones))]), texts[rng.IntN(len(texts))]
		e, err := ParseCron(text, z)
		if err != nil {
			t.Fatal(err)
		}
		year := []int{1850, 1893, 1945, 2011, 2018, 2026}[rng.IntN(6)]
		from := time.Date(year, time.Month(1+rng.IntN(12)), 1+rng.IntN(28), rng.IntN(24), rng.IntN(60), rng.IntN(60), rng.IntN(2)*500, time.UTC)
		length := 40 * 24 * time.Hour
		if i%4 == 0 {
			length = 400 * 24 * time.Hour
		}
		to := from.Add(time.Duration(rng.Int64N(int64(length))))
		var walk []time.Time
		for at := e.Next(from); !at.IsZero() && !at.After(to) && len(walk) < 50_000; at = e.Next(at) {
			walk = append(walk, at)
		}
		if len(walk) == 50_000 {
			to = walk[len(walk)-1]
		}
		if got := e.Count(from, to); got != int64(len(walk)) {
			t.Errorf("%s in %s from %v to %v: %d, want %d", text, z, from, to, got, len(walk))
			continue
		}
		if len(walk) > 0 {
			n := 1 + rng.IntN(len(walk))
			if got := e.nth(from, to, int64(n)); !got.Equal(walk[n-1]) {
				t.Errorf("%s in %s from %v: the match number %d is %v, want %v", text, z, from, n, got, walk[n-1])
			}
		}
		if got := e.nth(from, to, int64(len(walk)+1)); !got.IsZero() {
			t.Errorf("%s in %s from %v to %v: there is a match more at %v", text, z, from, to, got)
		}
	}
}
