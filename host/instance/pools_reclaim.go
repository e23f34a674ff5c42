package instance

import (
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/engine"
)

// Reclaim closes one instance that is not in use, of the app that holds most, and
// reports whether there was any.
func (ps *Pools) Reclaim() bool {
	ps.mu.Lock()
	apps := ps.largest(-1)
	ps.mu.Unlock()
	return slices.ContainsFunc(apps, ps.closeIdleOf)
}

// ReclaimOf closes one instance of an app that is not in use, and reports whether there was any.
func (ps *Pools) ReclaimOf(name string) bool {
	ps.mu.Lock()
	a := ps.apps[name]
	ps.mu.Unlock()
	return a != nil && ps.closeIdleOf(a)
}

// CloseIdle closes the instances that nobody used since a time, and has the others give
// back what they do not hold.
func (ps *Pools) CloseIdle(since time.Time) {
	ps.mu.Lock()
	apps := ps.largest(0)
	ps.mu.Unlock()
	for _, a := range apps {
		for range ps.length(&a.untrimmed) {
			if in := ps.pop(&a.untrimmed); in != nil {
				ps.trim(in)
			}
		}
	}
	for _, p := range ps.All() {
		for _, in := range p.takeUnused(since) {
			in.Discard()
		}
	}
}

// Take implements [engine.Memory]. At a bound, what instances do not hold is given
// back, and those that are not in use are closed: at the app's own bound its own; at
// the bound of all apps those of apps that hold more than it, and then its own. So no
// app takes anything from one that has less. Where one app may not have all, apps leave a part
// to others as of a [fair.Account].
func (in *Instance) Take(bytes int64) bool {
	ps := in.pool.pools
	for {
		ok, all, from := ps.take(in, bytes)
		if ok {
			return true
		}
		if !slices.ContainsFunc(from, ps.freeSome) {
			in.refused = ps.errShort(all)
			return false
		}
	}
}

// freeSome has an app give back some memory that it does not use, and reports whether
// there was any.
func (ps *Pools) freeSome(a *app) bool { return ps.trimOne(a) || ps.closeIdleOf(a) }

// trimOne has an instance of an app give back what is counted for it and it does not
// hold.
func (ps *Pools) trimOne(a *app) bool {
	for range ps.length(&a.untrimmed) {
		if in := ps.pop(&a.untrimmed); in != nil && ps.trim(in) > 0 {
			return true
		}
	}
	return false
}

// trim has an instance that was taken from its app's untrimmed ones give back what it
// does not hold, and returns how many bytes that are. It stays untrimmed if it runs.
func (ps *Pools) trim(in *Instance) int64 {
	before := in.memory()
	trimmed := in.Guest.(engine.Trimmer).Trim() // take looked
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if !trimmed && in.untrimmed == nil && !in.closed {
		in.untrimmed = in.pool.app.untrimmed.PushBack(in)
	}
	return before - in.bytes
}

// closeIdleOf closes an instance of an app that is not in use.
func (ps *Pools) closeIdleOf(a *app) bool {
	ps.mu.Lock()
	pools := a.pools[:len(a.pools):len(a.pools)]
	ps.mu.Unlock()
	for _, p := range pools {
		if in := p.TakeOldest(); in != nil {
			in.Discard()
			return true
		}
	}
	for range ps.length(&a.dedicated) {
		in := ps.pop(&a.dedicated)
		if in == nil {
			return false
		}
		if in.release(in) {
			in.Discard()
			return true
		}
		ps.mu.Lock()
		if !in.closed {
			in.listed = a.dedicated.PushBack(in)
		}
		ps.mu.Unlock()
	}
	return false
}
