//go:build !unix

package procs

import "time"

func processorTime() (time.Duration, bool) { return 0, false }
