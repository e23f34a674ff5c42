package instance

import (
	"context"
	"errors"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// GiveBack ends the use of a shared instance whose run ended with err.
func (in *Instance) GiveBack(err error, now time.Time) {
	in.idleSince = now
	if placed := in.placed; Broken(err) || !in.pool.keep(in) {
		in.Discard()
	} else if placed {
		in.pool.returnPlace()
	}
}

// Lend lets another turn have the place of the instance, while its turn waits for a called one,
// until Regain. It reports false if the instance has no place.
func (in *Instance) Lend() bool {
	if !in.placed {
		return false
	}
	in.placed = false
	in.pool.returnPlace()
	return true
}

// Regain ends Lend. It waits for nothing: more turns than the pool has places for may run until one
// of them ends.
func (in *Instance) Regain() {
	in.pool.mu.Lock()
	defer in.pool.mu.Unlock()
	in.pool.places++
	in.placed = true
}

// Discard closes an instance, whoever's it was.
func (in *Instance) Discard() {
	p := in.pool
	event := p.event(in)
	// Without a deadline of its own: closing frees memory and must not be cut short.
	if err := in.Guest.Close(context.Background()); err != nil {
		p.pools.cfg.Logger.Error("close instance", "app", p.key.App, "module", p.key.Digest, "error", err)
	}
	p.pools.gone(in)
	p.closed()
	p.pools.cfg.Closed(event)
	if in.placed {
		in.placed = false
		p.returnPlace()
	}
}

func (p *Pool) event(in *Instance) Event {
	return Event{App: p.key.App, Digest: p.key.Digest, MemoryBytes: in.memory(), Dedicated: in.Dedicated()}
}

// Dedicated reports whether the instance belongs to one activation.
func (in *Instance) Dedicated() bool { return in.release != nil }

// Pool is the one that the instance was made by.
func (in *Instance) Pool() *Pool { return in.pool }

// Broken reports whether an instance whose run ended with err can only be closed.
func Broken(err error) bool {
	if err == nil {
		return false
	}
	var guest *actor.GuestError
	return !errors.As(err, &guest)
}
