package dapr

import (
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

func TestParseDuration(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"1h30m": 90 * time.Minute, "250ms": 250 * time.Millisecond, "0h0m9s0ms": 9 * time.Second, "0": 0, "-5s": -5 * time.Second,
		"PT1M": time.Minute, "P1W": 7 * day, "P1DT2H": day + 2*time.Hour, "PT0.25S": 250 * time.Millisecond, "PT1,5S": 1500 * time.Millisecond,
		"PT0.000000001S": 1, "P2D": 2 * day, "PT90M": 90 * time.Minute, "P0D": 0, "P15000W": 15000 * 7 * day, "2540400h": actor.MaxReminderDuration, "PT2540400H": actor.MaxReminderDuration,
	} {
		if got, err := parseDuration("x", text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "P", "PT", "P1DT", "P1H", "PT1D", "PT", "P-1D", "PT1.S", "PT.5S", "PT1.5H", "P1Y", "P1M", "P1Y2M", "1", "p1d", "P99999999999999999999D", "PT9223372036S1", "P16000W", "2562047h"} {
		if got, err := parseDuration("x", text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func FuzzParsePeriod(f *testing.F) {
	for _, text := range []string{"R5/PT1M", "R/P1D", "1h", "P1M", "R5", "PT0.000000001S"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		every, times, err := parsePeriod(text)
		if err != nil || every < 0 {
			return
		}
		if again, n, err := parsePeriod("R7/" + isoDuration(every)); err != nil || again != every || n != 7 {
			t.Errorf("%q is %v, %d times, and %s is %v, %v", text, every, times, isoDuration(every), again, err)
		}
	})
}
