package faultstore

import (
	"context"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// leases runs an operation on hosts and leases with its faults.
func (s *Store) leases(do func() error) error {
	switch f := s.plan.first(LeaseFails, LeaseReplyLost); f {
	case LeaseFails:
		return f.unavailable()
	case LeaseReplyLost:
		if err := do(); err != nil {
			return err
		}
		return f.unavailable()
	}
	return do()
}

// RegisterHost implements [store.Cluster].
func (s *Store) RegisterHost(ctx context.Context, h actor.Host, length time.Duration) (there actor.Host, err error) {
	err = s.leases(func() error {
		there, err = s.inner.RegisterHost(ctx, h, length)
		return err
	})
	return there, err
}

// RenewHost implements [store.Cluster].
func (s *Store) RenewHost(ctx context.Context, id actor.HostID, length time.Duration, sticky int) (now time.Time, err error) {
	err = s.leases(func() error {
		now, err = s.inner.RenewHost(ctx, id, length, sticky)
		return err
	})
	return now, err
}

// RemoveHost implements [store.Cluster].
func (s *Store) RemoveHost(ctx context.Context, id actor.HostID) error {
	return s.leases(func() error { return s.inner.RemoveHost(ctx, id) })
}

// ClearHost implements [store.Cluster].
func (s *Store) ClearHost(ctx context.Context, id actor.HostID, lease string, epoch uint64) (gone bool, err error) {
	err = s.leases(func() error {
		gone, err = s.inner.ClearHost(ctx, id, lease, epoch)
		return err
	})
	return gone, err
}

// Hosts implements [store.Cluster].
func (s *Store) Hosts(ctx context.Context) (hosts []actor.Host, now time.Time, err error) {
	err = s.leases(func() error {
		hosts, now, err = s.inner.Hosts(ctx)
		return err
	})
	return hosts, now, err
}

// AcquireLease implements [store.Cluster].
func (s *Store) AcquireLease(ctx context.Context, name string, holder actor.HostID, length time.Duration) (held actor.Lease, taken bool, err error) {
	err = s.leases(func() error {
		held, taken, err = s.inner.AcquireLease(ctx, name, holder, length)
		return err
	})
	return held, taken, err
}

// RenewLease implements [store.Cluster].
func (s *Store) RenewLease(ctx context.Context, l actor.Lease, length time.Duration) (done bool, err error) {
	err = s.leases(func() error {
		done, err = s.inner.RenewLease(ctx, l, length)
		return err
	})
	return done, err
}

// ReleaseLease implements [store.Cluster].
func (s *Store) ReleaseLease(ctx context.Context, l actor.Lease) error {
	return s.leases(func() error { return s.inner.ReleaseLease(ctx, l) })
}

// Lease implements [store.Cluster].
func (s *Store) Lease(ctx context.Context, name string) (held actor.Lease, found bool, err error) {
	err = s.leases(func() error {
		held, found, err = s.inner.Lease(ctx, name)
		return err
	})
	return held, found, err
}

// Leases implements [store.Cluster].
func (s *Store) Leases(ctx context.Context, prefix string) (leases []actor.Lease, now time.Time, err error) {
	err = s.leases(func() error {
		leases, now, err = s.inner.Leases(ctx, prefix)
		return err
	})
	return leases, now, err
}
