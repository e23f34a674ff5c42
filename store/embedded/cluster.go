package embedded

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// cluster is the hosts and leases of the one process that has the folder open. They
// are kept in memory: they mean nothing to the next process.
type cluster struct {
	core *core

	mu     sync.Mutex
	name   string
	hosts  map[actor.HostID]actor.Host
	leases map[string]actor.Lease
}

func newCluster(c *core) *cluster {
	return &cluster{core: c, hosts: map[actor.HostID]actor.Host{}, leases: map[string]actor.Lease{}}
}

// locked runs fn under the lock, with database time.
func (s *cluster) locked(ctx context.Context, fn func(c *cluster, now time.Time) error) error {
	if err := s.core.enter(ctx); err != nil {
		return err
	}
	defer s.core.leave()
	now := time.UnixMicro(s.core.clock.read()).UTC()
	s.mu.Lock()
	defer s.mu.Unlock()
	return fn(s, now)
}

func (s *cluster) RegisterHost(ctx context.Context, h actor.Host, length time.Duration) (actor.Host, error) {
	err := s.locked(ctx, func(c *cluster, now time.Time) error {
		c.name = cmp.Or(c.name, h.Cluster)
		if c.name != h.Cluster {
			return fmt.Errorf("the store belongs to cluster %q, and this host is to join %q: give it another store, or that name: %w", c.name, h.Cluster, actor.ErrClusterName)
		}
		h.StartedAt, h.ExpiresAt = now, now.Add(length)
		if there, found := c.hosts[h.ID]; found {
			there.ExpiresAt = h.ExpiresAt
			h = there
		}
		h.Roles = slices.Clone(h.Roles)
		c.hosts[h.ID] = h
		return nil
	})
	return h, err
}

func (s *cluster) RenewHost(ctx context.Context, id actor.HostID, length time.Duration, sticky int) (at time.Time, err error) {
	err = s.locked(ctx, func(c *cluster, now time.Time) error {
		h, found := c.hosts[id]
		if !found {
			return fmt.Errorf("host %s: %w", id, actor.ErrHostGone)
		}
		h.ExpiresAt, h.Sticky = now.Add(length), sticky
		c.hosts[id], at = h, now
		return nil
	})
	return at, err
}

func (s *cluster) RemoveHost(ctx context.Context, id actor.HostID) error {
	return s.locked(ctx, func(c *cluster, _ time.Time) error {
		delete(c.hosts, id)
		return nil
	})
}

func (s *cluster) ClearHost(ctx context.Context, id actor.HostID, lease string, epoch uint64) (gone bool, err error) {
	err = s.locked(ctx, func(c *cluster, now time.Time) error {
		h, found := c.hosts[id]
		l := c.leases[lease]
		if found && !h.ExpiresAt.After(now) && l.Epoch == epoch && l.ExpiresAt.After(now) {
			delete(c.hosts, id)
			found = false
		}
		gone = !found
		return nil
	})
	return gone, err
}

func (s *cluster) Hosts(ctx context.Context) (hosts []actor.Host, at time.Time, err error) {
	err = s.locked(ctx, func(c *cluster, now time.Time) error {
		hosts = slices.SortedFunc(maps.Values(c.hosts), func(a, b actor.Host) int { return cmp.Compare(a.ID, b.ID) })
		for i := range hosts {
			hosts[i].Roles = slices.Clone(hosts[i].Roles)
		}
		at = now
		return nil
	})
	return hosts, at, err
}

func (s *cluster) AcquireLease(ctx context.Context, name string, holder actor.HostID, length time.Duration) (l actor.Lease, taken bool, err error) {
	err = s.locked(ctx, func(c *cluster, now time.Time) error {
		there, found := c.leases[name]
		if found && there.Holder != holder && there.ExpiresAt.After(now) {
			return nil
		}
		l, taken = actor.Lease{Name: name, Holder: holder, Epoch: there.Epoch + 1, ExpiresAt: now.Add(length)}, true
		c.leases[name] = l
		return nil
	})
	return l, taken, err
}

func (s *cluster) RenewLease(ctx context.Context, l actor.Lease, length time.Duration) (held bool, err error) {
	err = s.changeLease(ctx, l, func(there *actor.Lease, now time.Time) { there.ExpiresAt, held = now.Add(length), true })
	return held, err
}

func (s *cluster) ReleaseLease(ctx context.Context, l actor.Lease) error {
	return s.changeLease(ctx, l, func(there *actor.Lease, now time.Time) { there.ExpiresAt = now })
}

// changeLease changes a lease that is still the one named.
func (s *cluster) changeLease(ctx context.Context, l actor.Lease, change func(there *actor.Lease, now time.Time)) error {
	return s.locked(ctx, func(c *cluster, now time.Time) error {
		there := c.leases[l.Name]
		if there.Holder == l.Holder && there.Epoch == l.Epoch {
			change(&there, now)
			c.leases[l.Name] = there
		}
		return nil
	})
}

func (s *cluster) Lease(ctx context.Context, name string) (l actor.Lease, found bool, err error) {
	err = s.locked(ctx, func(c *cluster, _ time.Time) error {
		l, found = c.leases[name]
		return nil
	})
	return l, found, err
}

func (s *cluster) Leases(ctx context.Context, prefix string) (leases []actor.Lease, at time.Time, err error) {
	err = s.locked(ctx, func(c *cluster, now time.Time) error {
		at = now
		for _, name := range slices.Sorted(maps.Keys(c.leases)) {
			if strings.HasPrefix(name, prefix) {
				leases = append(leases, c.leases[name])
			}
		}
		return nil
	})
	return leases, at, err
}
