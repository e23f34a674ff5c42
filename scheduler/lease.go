package scheduler

import "time"

// Instant is a time on one process's own clock, since an arbitrary start: it goes with the
// monotonic one, and never back. Those of two processes cannot be compared.
type Instant = time.Duration

// Usable is how long the holder of a lease of some length may rely on it, counted on
// its own clock from before it asked: less than the length by what two clocks whose
// rates are 1 % off, in opposite directions, come apart.
func Usable(length time.Duration) time.Duration { return length - length/50 }

// RenewEvery is how often a lease of some length is renewed: two renewals may fail and
// the third still be in time.
func RenewEvery(length time.Duration) time.Duration { return length / 4 }
