package instance

import (
	"cmp"
	"container/list"
	"errors"
	"fmt"
	"slices"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/internal/fair"
)

var _ engine.Memory = (*Instance)(nil)

// errShort is [actor.ErrOverloaded] with the bound that was met: that of all apps, or of one.
func (ps *Pools) errShort(all bool) error {
	reason := fmt.Sprintf("the guests of this app have all of the %d bytes that those of one app may have, by --max-memory-per-app of the server", ps.cfg.MemoryPerApp)
	if all {
		reason = fmt.Sprintf("the guests of all apps have all of the %d bytes that they may have, by --max-memory of the server", ps.cfg.Memory)
	}
	return &actor.ReasonError{Condition: actor.ErrOverloaded, Reason: reason + "; call less at once, or raise it"}
}

// Explain returns the error of a turn of the instance, or of making it: where there was no
// memory for it, with the bound that was met.
func (in *Instance) Explain(err error) error {
	if in.refused != nil && errors.Is(err, actor.ErrOverloaded) {
		return in.refused
	}
	return err
}

// take counts bytes for an instance, or says which apps can give some back, and whether
// the bound of all apps is what it met.
func (ps *Pools) take(in *Instance, bytes int64) (ok, all bool, from []*app) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	a := in.pool.app
	free := ps.cfg.Memory - ps.used - bytes
	switch {
	case a.used+bytes > ps.cfg.MemoryPerApp:
		return false, false, []*app{a}
	case free < 0 || ps.cfg.MemoryPerApp < ps.cfg.Memory && !fair.Leaves(a.used, bytes, free):
		return false, true, append(ps.largest(a.used), a)
	}
	ps.count(in, bytes)
	if _, ok := in.Guest.(engine.Trimmer); ok && in.untrimmed == nil {
		in.untrimmed = a.untrimmed.PushBack(in)
	}
	return true, false, nil
}

// largest returns the apps that hold more than so many bytes, the largest first. ps.mu
// is held.
func (ps *Pools) largest(than int64) []*app {
	var out []*app
	for _, a := range ps.apps {
		if a.used > than {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b *app) int { return cmp.Compare(b.used, a.used) })
	return out
}

// Give implements [engine.Memory].
func (in *Instance) Give(bytes int64) {
	ps := in.pool.pools
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.count(in, -bytes)
}

// count counts bytes more, or with a negative number less. ps.mu is held.
func (ps *Pools) count(in *Instance, bytes int64) {
	in.bytes += bytes
	in.pool.app.used += bytes
	ps.used += bytes
}

// memory is what is counted for the instance.
func (in *Instance) memory() int64 {
	ps := in.pool.pools
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return in.bytes
}

func (ps *Pools) length(l *list.List) int {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return l.Len()
}

// pop takes the first instance out of a list of its app's; nil if there is none.
func (ps *Pools) pop(l *list.List) *Instance {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	e := l.Front()
	if e == nil {
		return nil
	}
	in := l.Remove(e).(*Instance)
	if in.untrimmed == e {
		in.untrimmed = nil
	} else {
		in.listed = nil
	}
	return in
}

// gone takes a closed instance out of the lists and the account.
func (ps *Pools) gone(in *Instance) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	in.closed = true
	a := in.pool.app
	if in.untrimmed != nil {
		a.untrimmed.Remove(in.untrimmed)
		in.untrimmed = nil
	}
	if in.listed != nil {
		a.dedicated.Remove(in.listed)
		in.listed = nil
	}
	ps.count(in, -in.bytes)
}
