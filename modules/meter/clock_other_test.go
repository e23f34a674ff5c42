//go:build !linux

package meter_test

import "time"

var began = time.Now()

// clock returns seconds.
func clock() float64 { return time.Since(began).Seconds() }
