// Package clustertest is the part of a store that clusters use, in memory, on the clock of a
// test's bubble, with faults.
package clustertest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// Database has the rows of hosts and the leases. Mu guards its fields and those of its links.
type Database struct {
	Mu     sync.Mutex
	Down   bool // for all processes
	Hosts  map[actor.HostID]actor.Host
	Leases map[string]actor.Lease
	name   string
}

// New makes an empty database.
func New() *Database {
	return &Database{Hosts: map[actor.HostID]actor.Host{}, Leases: map[string]actor.Lease{}}
}

// HostNames returns the names of the hosts that have a row.
func (d *Database) HostNames() (names []string) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	for _, h := range d.Hosts {
		names = append(names, h.Name)
	}
	return names
}

// Link is a process's connection to the database: its [store.Cluster].
type Link struct {
	DB   *Database
	Down bool // for this process
	// FailRegister makes the database go down for this process as it registers next, before
	// the answer.
	FailRegister bool
	// Answers, if it is not nil, delays the answer to the next reading of the hosts until it is
	// closed.
	Answers chan struct{}
	// takes is how long an answer is on its way, of what was done when it was asked for.
	takes time.Duration
}

var _ store.Cluster = (*Link)(nil)

var errDown = errors.New("the database is down")

func (k *Link) do(ctx context.Context, fn func(now time.Time) error) error {
	k.DB.Mu.Lock()
	defer func(takes time.Duration) {
		k.DB.Mu.Unlock()
		if takes > 0 {
			<-time.After(takes)
		}
	}(k.takes)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case k.DB.Down || k.Down:
		return errDown
	}
	return fn(time.Now())
}

// SetDown makes the database unreachable from here, or reachable.
func (k *Link) SetDown(down bool) {
	k.DB.Mu.Lock()
	defer k.DB.Mu.Unlock()
	k.Down = down
}

// SetTakes says how long answers are on their way.
func (k *Link) SetTakes(takes time.Duration) {
	k.DB.Mu.Lock()
	defer k.DB.Mu.Unlock()
	k.takes = takes
}

// IsDown reports whether the database is unreachable from here.
func (k *Link) IsDown() bool {
	k.DB.Mu.Lock()
	defer k.DB.Mu.Unlock()
	return k.Down
}

// RegisterHost implements [store.Cluster].
func (k *Link) RegisterHost(ctx context.Context, h actor.Host, length time.Duration) (actor.Host, error) {
	err := k.do(ctx, func(now time.Time) error {
		if k.DB.name == "" {
			k.DB.name = h.Cluster
		}
		if k.DB.name != h.Cluster {
			return actor.ErrClusterName
		}
		h.StartedAt, h.ExpiresAt = now, now.Add(length)
		k.DB.Hosts[h.ID] = h
		if k.FailRegister {
			k.FailRegister, k.Down = false, true
			return errDown
		}
		return nil
	})
	return h, err
}

// RenewHost implements [store.Cluster].
func (k *Link) RenewHost(ctx context.Context, id actor.HostID, length time.Duration, sticky int) (now time.Time, err error) {
	err = k.do(ctx, func(at time.Time) error {
		h, there := k.DB.Hosts[id]
		if !there {
			return actor.ErrHostGone
		}
		now = at
		h.ExpiresAt, h.Sticky = at.Add(length), sticky
		k.DB.Hosts[id] = h
		return nil
	})
	return now, err
}

// RemoveHost implements [store.Cluster].
func (k *Link) RemoveHost(ctx context.Context, id actor.HostID) error {
	return k.do(ctx, func(time.Time) error { delete(k.DB.Hosts, id); return nil })
}

// ClearHost implements [store.Cluster].
func (k *Link) ClearHost(ctx context.Context, id actor.HostID, lease string, epoch uint64) (gone bool, err error) {
	err = k.do(ctx, func(now time.Time) error {
		l := k.DB.Leases[lease]
		if h, there := k.DB.Hosts[id]; there && !now.Before(h.ExpiresAt) && l.Epoch == epoch && now.Before(l.ExpiresAt) {
			delete(k.DB.Hosts, id)
		}
		_, there := k.DB.Hosts[id]
		gone = !there
		return nil
	})
	return gone, err
}

// Hosts implements [store.Cluster].
func (k *Link) Hosts(ctx context.Context) (hosts []actor.Host, now time.Time, err error) {
	err = k.do(ctx, func(at time.Time) error {
		now = at
		for _, h := range k.DB.Hosts {
			hosts = append(hosts, h)
		}
		return nil
	})
	if answers := k.Answers; answers != nil {
		k.Answers = nil
		<-answers
	}
	return hosts, now, err
}

// AcquireLease implements [store.Cluster].
func (k *Link) AcquireLease(ctx context.Context, name string, holder actor.HostID, length time.Duration) (l actor.Lease, taken bool, err error) {
	err = k.do(ctx, func(now time.Time) error {
		l = k.DB.Leases[name]
		if l.Holder != holder && now.Before(l.ExpiresAt) {
			return nil
		}
		l = actor.Lease{Name: name, Holder: holder, Epoch: l.Epoch + 1, ExpiresAt: now.Add(length)}
		k.DB.Leases[name], taken = l, true
		return nil
	})
	return l, taken, err
}

// RenewLease implements [store.Cluster].
func (k *Link) RenewLease(ctx context.Context, l actor.Lease, length time.Duration) (held bool, err error) {
	err = k.do(ctx, func(now time.Time) error {
		is := k.DB.Leases[l.Name]
		if held = is.Holder == l.Holder && is.Epoch == l.Epoch; held {
			is.ExpiresAt = now.Add(length)
			k.DB.Leases[l.Name] = is
		}
		return nil
	})
	return held, err
}

// ReleaseLease implements [store.Cluster].
func (k *Link) ReleaseLease(ctx context.Context, l actor.Lease) error {
	return k.do(ctx, func(now time.Time) error {
		if is := k.DB.Leases[l.Name]; is.Holder == l.Holder && is.Epoch == l.Epoch {
			is.ExpiresAt = now
			k.DB.Leases[l.Name] = is
		}
		return nil
	})
}

// Lease implements [store.Cluster].
func (k *Link) Lease(ctx context.Context, name string) (l actor.Lease, found bool, err error) {
	err = k.do(ctx, func(time.Time) error { l, found = k.DB.Leases[name]; return nil })
	return l, found, err
}

// Leases implements [store.Cluster].
func (k *Link) Leases(ctx context.Context, prefix string) (leases []actor.Lease, now time.Time, err error) {
	err = k.do(ctx, func(at time.Time) error {
		now = at
		for _, name := range slices.Sorted(maps.Keys(k.DB.Leases)) {
			if strings.HasPrefix(name, prefix) {
				leases = append(leases, k.DB.Leases[name])
			}
		}
		return nil
	})
	return leases, now, err
}
