package instance

import (
	"context"
	"slices"
	"time"
)

// Spare is AcquireMore where that waits for nothing: it takes the idle instance that was used last,
// and returns nil if none is idle.
func (p *Pool) Spare() *Instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.idle)
	if n == 0 {
		return nil
	}
	in := p.idle[n-1]
	p.idle[n-1] = nil
	p.idle = p.idle[:n-1]
	return in
}

// keep adds an instance to the idle ones, if there is room for it.
func (p *Pool) keep(in *Instance) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) >= p.key.Max {
		return false
	}
	in.placed = false
	p.idle = append(p.idle, in)
	return true
}

// takePlace takes a place, which returnPlace gives back.
func (p *Pool) takePlace(ctx context.Context) error {
	p.mu.Lock()
	if p.places < p.key.Max {
		p.places++
		p.mu.Unlock()
		return nil
	}
	w := make(chan struct{})
	p.waiters = append(p.waiters, w)
	p.mu.Unlock()

	select {
	case <-w:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	at := slices.Index(p.waiters, w)
	if at >= 0 {
		p.waiters = slices.Delete(p.waiters, at, at+1)
	}
	p.mu.Unlock()
	if at < 0 { // given at the same moment: pass it on
		p.returnPlace()
	}
	return ctx.Err()
}

// returnPlace gives a place to the turn that waits longest.
func (p *Pool) returnPlace() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.places > p.key.Max || len(p.waiters) == 0 {
		p.places--
		return
	}
	close(p.waiters[0])
	p.waiters = slices.Delete(p.waiters, 0, 1)
}

// closed counts an instance less, and lets go of the program with the last.
func (p *Pool) closed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open--; p.open == 0 {
		p.program = nil
	}
}

// TakeOldest takes out the idle instance that was unused for longest.
func (p *Pool) TakeOldest() *Instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		return nil
	}
	in := p.idle[0]
	p.idle = slices.Delete(p.idle, 0, 1)
	return in
}

// takeUnused takes out the idle instances that were last used before since.
func (p *Pool) takeUnused(since time.Time) []*Instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for n < len(p.idle) && p.idle[n].idleSince.Before(since) {
		n++
	}
	out := slices.Clone(p.idle[:n])
	p.idle = slices.Delete(p.idle, 0, n)
	return out
}
