package node

import (
	"time"

	"golang.org/x/sys/unix"
)

// bootTime is for how long the machine has been up, with the time that it was suspended.
func bootTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) != nil {
		return 0 // not on this kernel: it stands still, which changes nothing
	}
	return time.Duration(t.Nano())
}
