//go:build !linux

package metering

import "time"

var began = time.Now()

// clock returns seconds.
func clock() float64 { return time.Since(began).Seconds() }
