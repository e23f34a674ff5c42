package hosttest

import (
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
)

// Holdings is a host.Ownership that a test steers. It is safe for concurrent use.
type Holdings struct {
	hold   atomic.Pointer[func(actor.Key) actor.Hold]
	paused atomic.Bool
	reads  atomic.Bool
	fenced atomic.Int64
}

var _ host.Ownership = (*Holdings)(nil)

// NewHoldings returns one whose lease holds, and that has all actors as hold says.
func NewHoldings(hold actor.Hold) *Holdings {
	h := new(Holdings)
	h.Set(func(actor.Key) actor.Hold { return hold })
	return h
}

// Set changes what is held.
func (h *Holdings) Set(hold func(actor.Key) actor.Hold) { h.hold.Store(&hold) }

// Pause ends the host's lease, Resume brings it back.
func (h *Holdings) Pause() { h.paused.Store(true) }

// Resume undoes Pause.
func (h *Holdings) Resume() { h.paused.Store(false) }

// Holds implements host.Ownership.
func (h *Holdings) Holds(key actor.Key, _ string) actor.Hold { return (*h.hold.Load())(key) }

// Read makes the host a reader of all that it does not hold, or of nothing.
func (h *Holdings) Read(reads bool) { h.reads.Store(reads) }

// Reads implements host.Ownership.
func (h *Holdings) Reads(actor.Key) bool { return h.reads.Load() && !h.paused.Load() }

// Fenced implements host.Ownership.
func (h *Holdings) Fenced(actor.Key) { h.fenced.Add(1) }

// TimesFenced returns how often the host has called Fenced.
func (h *Holdings) TimesFenced() int64 { return h.fenced.Load() }

// Current implements host.Ownership.
func (h *Holdings) Current(time.Time) bool { return !h.paused.Load() }
