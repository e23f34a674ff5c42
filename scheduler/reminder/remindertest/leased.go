package remindertest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

const (
	leaderLease = "reminders"
	memberRole  = "reminders"
	// MemberLease is how long the row of a [Leased] lasts without renewal.
	MemberLease = 10 * time.Second
)

// Rows is the part of a store that a [Leased] uses.
type Rows interface {
	RegisterHost(ctx context.Context, h actor.Host, length time.Duration) (actor.Host, error)
	RenewHost(ctx context.Context, id actor.HostID, length time.Duration, sticky int) (now time.Time, err error)
	RemoveHost(ctx context.Context, id actor.HostID) error
	ClearHost(ctx context.Context, id actor.HostID, lease string, epoch uint64) (gone bool, err error)
	Hosts(ctx context.Context) (hosts []actor.Host, now time.Time, err error)
	AcquireLease(ctx context.Context, name string, holder actor.HostID, length time.Duration) (actor.Lease, bool, error)
	RenewLease(ctx context.Context, l actor.Lease, length time.Duration) (bool, error)
	ReleaseLease(ctx context.Context, l actor.Lease) error
}

// Leased is a reminder.Members without a cluster: the processes that share a store, each with a
// row of its own that it renews whenever it is asked who is there.
type Leased struct {
	Rows    Rows
	ID      actor.HostID
	listed  bool
	leading *actor.Lease

	mu    sync.Mutex
	until time.Time // when the row may have run out, by the local clock
}

// Self implements reminder.Members.
func (l *Leased) Self() actor.HostID { return l.ID }

// Connected implements reminder.Members.
func (l *Leased) Connected(live []actor.HostID) []actor.HostID { return live }

// Current implements reminder.Members.
func (l *Leased) Current() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.until)
}

func (l *Leased) renewed(sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = sent.Add(MemberLease)
}

// Live implements reminder.Members.
func (l *Leased) Live(ctx context.Context) ([]actor.HostID, bool, error) {
	sent := time.Now()
	if !l.listed {
		if _, err := l.Rows.RegisterHost(ctx, actor.Host{ID: l.ID, Cluster: "greenroom", Roles: []string{memberRole}}, MemberLease); err != nil {
			return nil, false, err
		}
		l.listed = true
	} else if _, err := l.Rows.RenewHost(ctx, l.ID, MemberLease, 0); err != nil {
		l.listed = false
		return nil, false, err
	}
	l.renewed(sent)
	leading, err := l.lead(ctx)
	if err != nil {
		return nil, false, err
	}
	hosts, now, err := l.Rows.Hosts(ctx)
	if err != nil {
		return nil, false, err
	}
	var live []actor.HostID
	for _, h := range hosts {
		switch {
		case !slices.Contains(h.Roles, memberRole):
		case h.ExpiresAt.After(now):
			live = append(live, h.ID)
		case leading:
			if _, err := l.Rows.ClearHost(ctx, h.ID, leaderLease, l.leading.Epoch); err != nil {
				return nil, false, err
			}
		}
	}
	return live, leading, nil
}

// lead renews the lease of the leader, or takes it if it is free.
func (l *Leased) lead(ctx context.Context) (bool, error) {
	if l.leading != nil {
		held, err := l.Rows.RenewLease(ctx, *l.leading, MemberLease)
		if held || err != nil {
			return held, err
		}
		l.leading = nil
	}
	lease, taken, err := l.Rows.AcquireLease(ctx, leaderLease, l.ID, MemberLease)
	if taken && err == nil {
		l.leading = &lease
	}
	return taken, err
}

// Leave implements reminder.Members.
func (l *Leased) Leave(ctx context.Context) error {
	if l.leading != nil {
		if err := l.Rows.ReleaseLease(ctx, *l.leading); err != nil {
			return err
		}
	}
	if !l.listed {
		return nil
	}
	return l.Rows.RemoveHost(ctx, l.ID)
}
