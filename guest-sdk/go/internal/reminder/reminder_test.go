package reminder

import (
	"strings"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/abi"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestRefusals(t *testing.T) {
	now := at(t, "2025-01-01T12:00:00Z")
	for says, r := range map[string]abi.Reminder{
		"0 bytes":                      {},
		"257 bytes":                    {Name: strings.Repeat("n", 257)},
		"control character":            {Name: "a\x00"},
		"65536":                        {Name: "r", Payload: make([]byte, 65537)},
		"both a due time":              {Name: "r", DueUnixNano: 1, DelayNano: 1},
		"delay":                        {Name: "r", DelayNano: -1},
		"millisecond":                  {Name: "r", PeriodNano: 999_999},
		"both a period":                {Name: "r", PeriodNano: 1e9, Cron: "* * * * *"},
		"no cron":                      {Name: "r", Zone: "UTC"},
		"not known; give an IANA name": {Name: "r", Cron: "* * * * *", Zone: "Mars/Olympus"},
		"never matches":                {Name: "r", Cron: "0 0 31 2 *"},
		"4 fields":                     {Name: "r", Cron: "* * * *"},
		"several times":                {Name: "r", Count: 2},
		"the end":                      {Name: "r", DelayNano: 2e9, UntilNano: now.Add(time.Second).UnixNano()},
		"between 0":                    {Name: "r", JitterNano: -1},
		"less than the period":         {Name: "r", PeriodNano: 1e9, JitterNano: 1e9},
		"policy for missed":            {Name: "r", Missed: 3},
		"caught up":                    {Name: "r", MissedLimit: 1},
		"how late":                     {Name: "r", MissedAfter: 1},
		"policy for failures":          {Name: "r", Failure: 3},
		"1000 attempts":                {Name: "r", Attempts: 1001},
		"it drops":                     {Name: "r", Failure: abi.FailureDrop, Attempts: 1},
		"retry interval is below 0":    {Name: "r", IntervalNano: -1},
		"longest":                      {Name: "r", Failure: abi.FailureExponential, IntervalNano: 2, LongestNano: 1},
		"32 entries":                   {Name: "r", Metadata: make([]abi.Header, 33)},
	} {
		if _, err := New(r, now); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want an error with %q", err, says)
		}
	}
}

// TestMissed fires reminders late.
func TestMissed(t *testing.T) {
	set := at(t, "2025-01-01T12:00:00Z")
	second := func(n int) time.Time { return set.Add(time.Duration(n) * time.Second) }
	type fired struct {
		due    int // seconds after set; -1: nothing is delivered
		missed uint32
	}
	for name, c := range map[string]struct {
		r    abi.Reminder
		late int // seconds after set
		want []fired
		next int // -1: it is over
	}{
		"collapse":          {abi.Reminder{PeriodNano: 1e9}, 4, []fired{{1, 3}}, 5},
		"collapse, ending":  {abi.Reminder{PeriodNano: 1e9, Count: 3}, 9, []fired{{1, 2}}, -1},
		"collapse, until":   {abi.Reminder{PeriodNano: 1e9, UntilNano: second(2).UnixNano()}, 9, []fired{{1, 1}}, -1},
		"skip, late":        {abi.Reminder{PeriodNano: 120e9, Missed: abi.MissedSkip}, 200, []fired{{-1, 1}}, 240},
		"skip, in time":     {abi.Reminder{PeriodNano: 120e9, Missed: abi.MissedSkip}, 290, []fired{{240, 1}}, 360},
		"skip, by its own":  {abi.Reminder{PeriodNano: 10e9, Missed: abi.MissedSkip, MissedAfter: 1e9}, 12, []fired{{-1, 1}}, 20},
		"catch up":          {abi.Reminder{PeriodNano: 1e9, Missed: abi.MissedCatchUp}, 3, []fired{{1, 0}, {2, 0}, {3, 0}}, 4},
		"catch up, limited": {abi.Reminder{PeriodNano: 1e9, Missed: abi.MissedCatchUp, MissedLimit: 2}, 4, []fired{{3, 2}, {4, 0}}, 5},
		"past the end":      {abi.Reminder{PeriodNano: 1e9, UntilNano: second(2).UnixNano()}, 63, []fired{{-1, 2}}, -1},
		"once":              {abi.Reminder{DelayNano: 1e9}, 100, []fired{{1, 0}}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			c.r.Name = "r"
			r, err := New(c.r, set)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range c.want {
				f := r.Fire(second(c.late))
				if f.Missed != want.missed || f.Deliver != (want.due >= 0) || f.Deliver && !f.Here.At.Equal(second(want.due)) {
					t.Fatalf("got %+v, want %+v", f, want)
				}
				r.Done(f)
			}
			if c.next < 0 && !r.Due.IsZero() || c.next >= 0 && !r.Due.Equal(second(c.next)) {
				t.Errorf("next is %v, want %d s", r.Due, c.next)
			}
		})
	}
}

func TestRetries(t *testing.T) {
	now := at(t, "2025-01-01T12:00:00Z")
	for name, c := range map[string]struct {
		r     abi.Reminder
		waits []time.Duration
		dead  bool
	}{
		"by default":  {abi.Reminder{}, []time.Duration{time.Second, time.Second}, true},
		"once":        {abi.Reminder{Attempts: 1}, nil, true},
		"constant":    {abi.Reminder{Attempts: 3, IntervalNano: 5e9}, []time.Duration{5e9, 5e9}, true},
		"exponential": {abi.Reminder{Attempts: 5, IntervalNano: 1e9, Failure: abi.FailureExponential, LongestNano: 3e9}, []time.Duration{1e9, 2e9, 3e9, 3e9}, true},
		"drop":        {abi.Reminder{Failure: abi.FailureDrop}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			c.r.Name = "r"
			r, err := New(c.r, now)
			if err != nil {
				t.Fatal(err)
			}
			now := now
			for n := 0; ; n++ {
				f := r.Fire(now)
				if f.Attempt != uint32(n+1) {
					t.Fatalf("attempt %d, want %d", f.Attempt, n+1)
				}
				again, dead := r.Failed(f, now)
				if !again {
					if n != len(c.waits) || dead != c.dead || r.Done(f) {
						t.Errorf("over after %d retries, dead %t", n, dead)
					}
					return
				}
				if wait := r.FireAt.Sub(now); n >= len(c.waits) || wait != c.waits[n] {
					t.Fatalf("retry %d after %v", n+1, wait)
				}
				now = r.FireAt
			}
		})
	}
}
