package schedule

import (
	"slices"
	"testing"
	"time"
)

// The newest occurrences of expressions that match seldom are those of a plain walk, also where
// the first one is further back than a Duration reaches.
func TestNewestOfSeldomMatchesAgainstAWalk(t *testing.T) {
	now := at(t, "2026-11-24T08:00:00Z")
	for _, text := range []string{"0 0 29 2 *", "0 0 1 1 *"} {
		for _, z := range []string{"UTC", "Europe/Berlin"} {
			cron, err := ParseCron(text, zone(t, z))
			if err != nil {
				t.Fatal(err)
			}
			for _, from := range []string{"0001-01-02T00:00:00Z", "1900-01-01T00:00:00Z"} {
				for _, until := range []time.Time{{}, at(t, "1999-01-01T00:00:00Z"), at(t, "2500-01-01T00:00:00Z")} {
					for _, left := range []uint32{0, 18, 200, 1500} {
						tt := Timetable{Cron: cron, Until: until}
						first := Occurrence{At: tt.First(at(t, from)), Left: left}
						var walk []Occurrence
						then := first
						for ; then.isDue(now); then = tt.After(then) {
							walk = append(walk, then)
						}
						for _, keep := range []uint32{1, DefaultCatchUp, 1000} {
							d := tt.due(first, now, keep)
							if want := walk[max(0, len(walk)-int(keep)):]; int(d.count) != len(walk) || d.then != then || !slices.Equal(d.newest, want) {
								t.Errorf("%q in %s from %s until %v, %d left: %+v, want %d, then %v, and of the newest %v",
									text, z, from, until, left, d, len(walk), then, want)
							}
						}
					}
				}
			}
		}
	}
}
