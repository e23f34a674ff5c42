//go:build !linux

package wasm

import "time"

var began = time.Now()

// clock returns seconds.
func clock() float64 { return time.Since(began).Seconds() }
