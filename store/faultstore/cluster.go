package faultstore

import (
	"context"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// cluster is the part of a store that keeps hosts and leases, with faults.
type cluster struct {
	inner store.Cluster
	plan  *plan
}

// leases runs an operation on hosts and leases with its faults.
func (s *cluster) leases(do func() error) error { return s.plan.around(LeaseFails, LeaseReplyLost, do) }

func (s *cluster) RegisterHost(ctx context.Context, h actor.Host, length time.Duration) (there actor.Host, err error) {
	err = s.leases(func() error {
		there, err = s.inner.RegisterHost(ctx, h, length)
		return err
	})
	return there, err
}

func (s *cluster) RenewHost(ctx context.Context, id actor.HostID, length time.Duration, sticky int) (now time.Time, err error) {
	err = s.leases(func() error {
		now, err = s.inner.RenewHost(ctx, id, length, sticky)
		return err
	})
	return now, err
}

func (s *cluster) RemoveHost(ctx context.Context, id actor.HostID) error {
	return s.leases(func() error { return s.inner.RemoveHost(ctx, id) })
}

func (s *cluster) ClearHost(ctx context.Context, id actor.HostID, lease string, epoch uint64) (gone bool, err error) {
	err = s.leases(func() error {
		gone, err = s.inner.ClearHost(ctx, id, lease, epoch)
		return err
	})
	return gone, err
}

func (s *cluster) Hosts(ctx context.Context) (hosts []actor.Host, now time.Time, err error) {
	err = s.leases(func() error {
		hosts, now, err = s.inner.Hosts(ctx)
		return err
	})
	return hosts, now, err
}

func (s *cluster) AcquireLease(ctx context.Context, name string, holder actor.HostID, length time.Duration) (held actor.Lease, taken bool, err error) {
	err = s.leases(func() error {
		held, taken, err = s.inner.AcquireLease(ctx, name, holder, length)
		return err
	})
	return held, taken, err
}

func (s *cluster) RenewLease(ctx context.Context, l actor.Lease, length time.Duration) (done bool, err error) {
	err = s.leases(func() error {
		done, err = s.inner.RenewLease(ctx, l, length)
		return err
	})
	return done, err
}

func (s *cluster) ReleaseLease(ctx context.Context, l actor.Lease) error {
	return s.leases(func() error { return s.inner.ReleaseLease(ctx, l) })
}

func (s *cluster) Lease(ctx context.Context, name string) (held actor.Lease, found bool, err error) {
	err = s.leases(func() error {
		held, found, err = s.inner.Lease(ctx, name)
		return err
	})
	return held, found, err
}

func (s *cluster) Leases(ctx context.Context, prefix string) (leases []actor.Lease, now time.Time, err error) {
	err = s.leases(func() error {
		leases, now, err = s.inner.Leases(ctx, prefix)
		return err
	})
	return leases, now, err
}
