package leader

import (
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/scheduler/clock"
)

// TestReach: when a leader that no other host reaches grants, and when it resigns.
func TestReach(t *testing.T) {
	const lease = time.Second
	type seen struct{ others, sessions int }
	for name, tt := range map[string]struct {
		saw              []seen // each half a lease after the other
		granting         bool   // by its table
		mayGrant, resign bool
	}{
		"alone":                                 {[]seen{{0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}}, true, true, false},
		"a host joins":                          {[]seen{{0, 0}, {1, 0}}, true, true, false},
		"two hosts join":                        {[]seen{{2, 0}}, true, false, false},
		"one of two has joined":                 {[]seen{{2, 0}, {2, 1}}, true, true, false},
		"nobody comes":                          {[]seen{{2, 0}, {2, 0}, {2, 0}, {2, 0}, {2, 0}}, true, false, true},
		"nobody comes yet":                      {[]seen{{2, 0}, {2, 0}, {2, 0}, {2, 0}}, true, false, false},
		"all have gone":                         {[]seen{{2, 2}, {2, 0}, {2, 0}, {2, 0}, {2, 0}, {2, 0}}, true, true, true},
		"one comes at last":                     {[]seen{{2, 0}, {2, 0}, {2, 0}, {2, 0}, {2, 1}}, true, true, false},
		"they are over before":                  {[]seen{{2, 0}, {2, 0}, {2, 0}, {0, 0}, {2, 0}}, true, false, false},
		"the other of two does not come":        {[]seen{{1, 0}, {1, 0}, {1, 0}, {1, 0}, {1, 0}}, true, true, false},
		"the other of two is awaited":           {[]seen{{1, 0}, {1, 0}, {1, 0}, {1, 0}, {1, 0}}, false, true, true},
		"a stranger, and one that has joined":   {[]seen{{2, 1}, {2, 1}, {2, 1}, {2, 1}, {2, 1}}, false, true, false},
		"the others have gone, two are awaited": {[]seen{{2, 1}, {2, 0}, {2, 0}, {2, 0}, {2, 0}}, false, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			var r reach
			var now clock.Instant
			for _, s := range tt.saw {
				r.observe(now, s.others, s.sessions)
				now += lease / 2
			}
			now -= lease / 2
			if got := r.mayGrant(); got != tt.mayGrant {
				t.Errorf("it may grant: %v", got)
			}
			if got := r.lost(now, lease, tt.granting); got != tt.resign {
				t.Errorf("it resigns: %v", got)
			}
		})
	}
}
