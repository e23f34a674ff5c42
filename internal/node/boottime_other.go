//go:build !linux

package node

import "time"

// bootTime stands still where no such clock is known.
func bootTime() time.Duration { return 0 }
