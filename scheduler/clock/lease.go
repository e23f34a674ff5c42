package clock

import (
	"context"
	mathrand "math/rand/v2"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/greenroom-run/greenroom/actor"
)

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

// Pause waits, and reports false if ctx ends first.
func Pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// Jitter gives random times, so that processes do not ask together. They follow from the
// host's ID, which is random. It is for one goroutine at a time.
type Jitter struct{ rng *mathrand.Rand }

// NewJitter returns the random times of one loop of a host.
func NewJitter(loop string, id actor.HostID) Jitter {
	return Jitter{mathrand.New(mathrand.NewPCG(xxhash.Sum64String(loop), xxhash.Sum64String(string(id))))} //nolint:gosec // no secret
}

// Below returns a time of most at most.
func (j Jitter) Below(most time.Duration) time.Duration {
	return time.Duration(j.rng.Int64N(int64(most) + 1))
}
