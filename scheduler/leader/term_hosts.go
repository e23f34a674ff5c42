package leader

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// minReadPause is the least pause between two readings of the hosts' rows.
const minReadPause = 20 * time.Millisecond

// readHosts reads the hosts' rows, removes those that are over, and returns when to do
// so again. With sake, it does nothing if a reading that it waited for has found that
// host: so many hosts may come at once.
func (t *term) readHosts(ctx context.Context, sake actor.HostID) time.Duration {
	next := clock.RenewEvery(t.cfg.Lease)
	ctx, cancel := context.WithTimeout(ctx, t.cfg.Lease/2) // with the wait: the term's loop renews its lease as well
	defer cancel()
	select {
	case t.reading <- struct{}{}:
		defer func() { <-t.reading }()
	case <-ctx.Done():
		return next / 4
	}
	if sake != "" && t.knows(sake) {
		return next
	}
	t.lock()
	known := t.tables.KnownHosts() // whose rows were there before
	t.mu.Unlock()
	hosts, now, err := t.cfg.Store.Hosts(ctx)
	if err != nil {
		t.cfg.Logger.Warn("the hosts of the cluster were not read", "error", err)
		return next / 4
	}
	rows := make(map[actor.HostID]actor.Host, len(hosts))
	ids := make([]actor.HostID, 0, len(hosts))
	for _, h := range hosts {
		rows[h.ID] = h
		ids = append(ids, h.ID)
	}
	t.lock()
	t.leader.Registered(ids)
	known = append(known, t.leader.Missing()...)
	leading := t.leader.Leading(t.cfg.now())
	t.mu.Unlock()
	// After a time without the database hosts are as quick to renew as this one was to
	// lead.
	if grace := t.began + clock.RenewEvery(t.cfg.Lease)/2 - t.cfg.now(); grace > 0 {
		leading, next = false, min(next, grace)
	}
	sticky := map[actor.HostID]int{} // what those that are removed owned, by their rows
	for _, h := range hosts {
		remaining := h.ExpiresAt.Sub(now)
		if remaining > 0 {
			next = min(next, remaining+time.Millisecond)
			continue
		}
		// It is over, or was when it was read.
		if !leading {
			continue
		}
		next = minReadPause
		gone, err := t.cfg.Store.ClearHost(ctx, h.ID, LeaseName, t.lease.Epoch)
		if err != nil {
			t.cfg.Logger.Warn("the row of a host that is over was not removed", "host", h.ID, "error", err)
		}
		if gone {
			t.cfg.Logger.Warn("a host's lease has run out; what it held is free", "host", h.ID, "name", h.Name, "address", h.Address)
			delete(rows, h.ID)
			known = append(known, h.ID)
			sticky[h.ID] = h.Sticky
		}
	}
	t.lock()
	defer t.mu.Unlock()
	others, sessions := 0, 0
	for id, h := range rows {
		if id != t.lease.Holder && h.ExpiresAt.After(now) {
			others++
			if t.sessions[id] != nil {
				sessions++
			}
		}
	}
	t.reach.observe(t.cfg.now(), others, sessions)
	for _, id := range known {
		if _, there := rows[id]; !there {
			t.cleared(id, sticky[id])
		}
	}
	changed := len(rows) != len(t.members)
	for id := range rows {
		if _, there := t.members[id]; !there {
			changed = true
		}
	}
	t.members = rows
	if changed {
		t.sendMembers()
	}
	t.plan()
	if len(t.leader.Missing()) > 0 || slices.ContainsFunc(ids, t.isLeaving) { // something waits for a row's end
		next = min(next, clock.RenewEvery(t.cfg.Lease)/8)
	}
	return max(next, minReadPause)
}

// isLeaving reports whether a host has drained and gone, so that its row is about to. The
// caller has the lock.
func (t *term) isLeaving(id actor.HostID) bool {
	_, there := t.members[id]
	return there && t.sessions[id] == nil && t.tables.Draining(id)
}

// unreached returns how many other hosts there are if none of them has reached this
// leader for long.
func (t *term) unreached() int {
	t.lock()
	defer t.mu.Unlock()
	now := t.cfg.now()
	if !t.reach.lost(now, t.cfg.Lease, t.leader.Granting(now)) {
		return 0
	}
	return t.reach.others
}

// knows reports whether a host is a member, by the rows that were read last.
func (t *term) knows(id actor.HostID) bool {
	t.lock()
	defer t.mu.Unlock()
	_, there := t.members[id]
	return there
}

// cleared notes that a host's row is gone, with how many sticky actors it owned by that row.
// The caller has the lock, as everywhere below.
func (t *term) cleared(id actor.HostID, recorded int) {
	owned, known := t.leader.OwnedBy(id)
	if !known { // it ended together with an earlier leader
		owned = recorded
	}
	if owned > 0 && t.cfg.StickyCleared != nil {
		t.cfg.StickyCleared(owned)
	}
	t.leader.Cleared(id)
	t.tables.Cleared(id)
	t.heat.Gone(id)
	if h := t.sessions[id]; h != nil {
		h.end(fmt.Errorf("host %s: %w", id, actor.ErrHostGone))
		delete(t.sessions, id)
	}
}

// membership is a message with all hosts.
func (t *term) membership() *greenroomv1.ReportActorTypesResponse {
	m := &greenroomv1.ClusterMembers{}
	for _, id := range slices.Sorted(maps.Keys(t.members)) {
		m.Members = append(m.Members, protocol.ToMember(t.members[id], t.tables.Draining(id)))
	}
	return &greenroomv1.ReportActorTypesResponse{Message: &greenroomv1.ReportActorTypesResponse_Members{Members: m}}
}

// sendMembers sends all hosts who is a member.
func (t *term) sendMembers() {
	members := t.membership() // one for all, which nobody changes
	for _, h := range t.sessions {
		h.out.Put(members)
	}
}
