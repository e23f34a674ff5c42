package scheduler

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// database is the part of a store that clusters use, on the bubble's clock.
type database struct {
	mu     sync.Mutex
	down   bool // for all
	name   string
	hosts  map[actor.HostID]actor.Host
	leases map[string]actor.Lease
}

// link is a process's way to the database.
type link struct {
	db   *database
	down bool // for this process
	// registers: the database goes down for this process as it registers next, before it
	// is answered.
	registers bool
	// answers: not nil, the next reading of the hosts takes until it is closed.
	answers chan struct{}
	// takes is how long an answer is on its way, of what was done when it was asked for.
	takes time.Duration
}

var errDown = errors.New("the database is down")

func (k *link) do(ctx context.Context, fn func(now time.Time) error) error {
	k.db.mu.Lock()
	defer func(takes time.Duration) {
		k.db.mu.Unlock()
		if takes > 0 {
			<-time.After(takes)
		}
	}(k.takes)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case k.db.down || k.down:
		return errDown
	}
	return fn(time.Now())
}

// setDown makes the database unreachable from here, or reachable.
func (k *link) setDown(down bool) {
	k.db.mu.Lock()
	defer k.db.mu.Unlock()
	k.down = down
}

// setTakes says how long answers are on their way.
func (k *link) setTakes(takes time.Duration) {
	k.db.mu.Lock()
	defer k.db.mu.Unlock()
	k.takes = takes
}

func (k *link) isDown() bool {
	k.db.mu.Lock()
	defer k.db.mu.Unlock()
	return k.down
}

// rows returns the names of the hosts that have a row.
func (c *testCluster) rows() (names []string) {
	c.db.mu.Lock()
	defer c.db.mu.Unlock()
	for _, h := range c.db.hosts {
		names = append(names, h.Name)
	}
	return names
}

func (k *link) RegisterHost(ctx context.Context, h actor.Host, length time.Duration) (actor.Host, error) {
	err := k.do(ctx, func(now time.Time) error {
		if k.db.name == "" {
			k.db.name = h.Cluster
		}
		if k.db.name != h.Cluster {
			return actor.ErrClusterName
		}
		h.StartedAt, h.ExpiresAt = now, now.Add(length)
		k.db.hosts[h.ID] = h
		if k.registers {
			k.registers, k.down = false, true
			return errDown
		}
		return nil
	})
	return h, err
}

func (k *link) RenewHost(ctx context.Context, id actor.HostID, length time.Duration, sticky int) (now time.Time, err error) {
	err = k.do(ctx, func(at time.Time) error {
		h, there := k.db.hosts[id]
		if !there {
			return actor.ErrHostGone
		}
		now = at
		h.ExpiresAt, h.Sticky = at.Add(length), sticky
		k.db.hosts[id] = h
		return nil
	})
	return now, err
}

func (k *link) RemoveHost(ctx context.Context, id actor.HostID) error {
	return k.do(ctx, func(time.Time) error { delete(k.db.hosts, id); return nil })
}

func (k *link) ClearHost(ctx context.Context, id actor.HostID, lease string, epoch uint64) (gone bool, err error) {
	err = k.do(ctx, func(now time.Time) error {
		l := k.db.leases[lease]
		if h, there := k.db.hosts[id]; there && !now.Before(h.ExpiresAt) && l.Epoch == epoch && now.Before(l.ExpiresAt) {
			delete(k.db.hosts, id)
		}
		_, there := k.db.hosts[id]
		gone = !there
		return nil
	})
	return gone, err
}

func (k *link) Hosts(ctx context.Context) (hosts []actor.Host, now time.Time, err error) {
	err = k.do(ctx, func(at time.Time) error {
		now = at
		for _, h := range k.db.hosts {
			hosts = append(hosts, h)
		}
		return nil
	})
	if answers := k.answers; answers != nil {
		k.answers = nil
		<-answers
	}
	return hosts, now, err
}

func (k *link) AcquireLease(ctx context.Context, name string, holder actor.HostID, length time.Duration) (l actor.Lease, taken bool, err error) {
	err = k.do(ctx, func(now time.Time) error {
		l = k.db.leases[name]
		if l.Holder != holder && now.Before(l.ExpiresAt) {
			return nil
		}
		l = actor.Lease{Name: name, Holder: holder, Epoch: l.Epoch + 1, ExpiresAt: now.Add(length)}
		k.db.leases[name], taken = l, true
		return nil
	})
	return l, taken, err
}

func (k *link) RenewLease(ctx context.Context, l actor.Lease, length time.Duration) (held bool, err error) {
	err = k.do(ctx, func(now time.Time) error {
		is := k.db.leases[l.Name]
		if held = is.Holder == l.Holder && is.Epoch == l.Epoch; held {
			is.ExpiresAt = now.Add(length)
			k.db.leases[l.Name] = is
		}
		return nil
	})
	return held, err
}

func (k *link) ReleaseLease(ctx context.Context, l actor.Lease) error {
	return k.do(ctx, func(now time.Time) error {
		if is := k.db.leases[l.Name]; is.Holder == l.Holder && is.Epoch == l.Epoch {
			is.ExpiresAt = now
			k.db.leases[l.Name] = is
		}
		return nil
	})
}

func (k *link) Lease(ctx context.Context, name string) (l actor.Lease, found bool, err error) {
	err = k.do(ctx, func(time.Time) error { l, found = k.db.leases[name]; return nil })
	return l, found, err
}

func (k *link) Leases(ctx context.Context, prefix string) (leases []actor.Lease, now time.Time, err error) {
	err = k.do(ctx, func(at time.Time) error {
		now = at
		for _, name := range slices.Sorted(maps.Keys(k.db.leases)) {
			if strings.HasPrefix(name, prefix) {
				leases = append(leases, k.db.leases[name])
			}
		}
		return nil
	})
	return leases, now, err
}
