package schedule

import (
	"math"
	"time"

	"github.com/greenroom-run/greenroom/abi"
)

// DefaultAttempts is how often a firing is delivered where nothing else is said.
const DefaultAttempts = 3

// Retry determines what happens to a firing whose turn failed.
type Retry struct {
	Kind     uint8         // abi.FailureConstant, FailureExponential or FailureDrop
	Attempts uint32        // deliveries, the first among them; 0: [DefaultAttempts]
	Interval time.Duration // before the second delivery; 0: 1 s
	Longest  time.Duration // bounds what is doubled each time; 0: 1 h
}

// Wait returns how long to wait before a firing is delivered again that has failed
// failures times, at least once, and false if it is not.
func (r Retry) Wait(failures uint32) (time.Duration, bool) {
	attempts := r.Attempts
	if attempts == 0 {
		attempts = DefaultAttempts
	}
	if r.Kind == abi.FailureDrop || failures >= attempts {
		return 0, false
	}
	wait := r.Interval
	if wait == 0 {
		wait = time.Second
	}
	if r.Kind == abi.FailureConstant {
		return wait, true
	}
	longest := r.Longest
	if longest == 0 {
		longest = max(time.Hour, wait)
	}
	for range failures - 1 {
		if wait >= longest || wait > math.MaxInt64/2 {
			return longest, true
		}
		wait *= 2
	}
	return min(wait, longest), true
}
