package reminder

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// alone is the one process of a store that nobody shares.
type alone struct{ self actor.HostID }

func (a alone) Self() actor.HostID { return a.self }
func (a alone) Live(context.Context) ([]actor.HostID, bool, error) {
	return []actor.HostID{a.self}, true, nil
}
func (a alone) Connected(live []actor.HostID) []actor.HostID { return live }
func (a alone) Current() bool                                { return true }
func (a alone) Leave(context.Context) error                  { return nil }

// Names of what processes that share a store know each other by, where nothing else
// tells.
const (
	leaderLease = "reminders"
	memberRole  = "reminders"
	memberLease = 10 * time.Second
)

// leased are the processes that share a store, each with a row of its own that it renews
// whenever it is asked who is there.
type leased struct {
	store   Store
	self    actor.Host
	listed  bool
	leading *actor.Lease

	mu    sync.Mutex
	until time.Time // when the row may have run out, by the local clock
}

func (l *leased) Self() actor.HostID { return l.self.ID }

func (l *leased) Connected(live []actor.HostID) []actor.HostID { return live }

func (l *leased) Current() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.until)
}

func (l *leased) renewed(sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = sent.Add(memberLease)
}

func (l *leased) Live(ctx context.Context) ([]actor.HostID, bool, error) {
	sent := time.Now()
	if !l.listed {
		if _, err := l.store.RegisterHost(ctx, l.self, memberLease); err != nil {
			return nil, false, err
		}
		l.listed = true
	} else if _, err := l.store.RenewHost(ctx, l.self.ID, memberLease, 0); err != nil {
		l.listed = false
		return nil, false, err
	}
	l.renewed(sent)
	leading, err := l.lead(ctx)
	if err != nil {
		return nil, false, err
	}
	hosts, now, err := l.store.Hosts(ctx)
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
			if _, err := l.store.ClearHost(ctx, h.ID, leaderLease, l.leading.Epoch); err != nil {
				return nil, false, err
			}
		}
	}
	return live, leading, nil
}

// lead renews the lease of the leader, or takes it if it is free.
func (l *leased) lead(ctx context.Context) (bool, error) {
	if l.leading != nil {
		held, err := l.store.RenewLease(ctx, *l.leading, memberLease)
		if held || err != nil {
			return held, err
		}
		l.leading = nil
	}
	lease, taken, err := l.store.AcquireLease(ctx, leaderLease, l.self.ID, memberLease)
	if taken && err == nil {
		l.leading = &lease
	}
	return taken, err
}

func (l *leased) Leave(ctx context.Context) error {
	if l.leading != nil {
		if err := l.store.ReleaseLease(ctx, *l.leading); err != nil {
			return err
		}
	}
	if !l.listed {
		return nil
	}
	return l.store.RemoveHost(ctx, l.self.ID)
}
