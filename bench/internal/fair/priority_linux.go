package fair

import "golang.org/x/sys/unix"

// lowerPriority has the process yield to those of a server. It is politeness, and may fail
// in a sandbox.
func lowerPriority() {
	const priority = 10
	if unix.Setpgid(0, 0) == nil { // the threads of a process are its group then
		_ = unix.Setpriority(unix.PRIO_PGRP, 0, priority)
	}
}
