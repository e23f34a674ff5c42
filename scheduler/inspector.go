package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/scheduler/ownership"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// inspector answers questions of people about the cluster.
type inspector struct{ *member }

// HostInfo is a host of the cluster as people see it.
type HostInfo struct {
	actor.Host
	Leader, Self bool
	// Partitions are those of checkout types that it has leased, also those that it is
	// checking in.
	Partitions int
	// What follows is known by the leader.
	Draining, Connected bool
	Ranges, Sticky      int
	// Weight is how many new sticky actors it gets, in units of a mean host's; 0: none.
	Weight float64
}

// HostList is all hosts of a cluster.
type HostList struct {
	Hosts []HostInfo
	// Now is the database's time, ClockAhead how far this process's clock is before it,
	// within the time that the question took.
	Now        time.Time
	ClockAhead time.Duration
	// Epoch is the leader's; 0 without one.
	Epoch uint64
	// Answered: the leader was asked. Missing has the hosts that it waits for.
	Answered bool
	Missing  []actor.HostID
}

// Hosts lists the hosts that have a row in the store. What the leader alone knows is
// left out if it does not answer.
func (in *inspector) Hosts(ctx context.Context) (HostList, error) {
	asked := time.Now()
	hosts, now, err := in.cfg.Store.Hosts(ctx)
	if err != nil {
		return HostList{}, err
	}
	took := time.Since(asked)
	list := HostList{Now: now, ClockAhead: asked.Add(took / 2).Sub(now)}
	leading := in.Leadership()
	if leading.Connected {
		list.Epoch = leading.Epoch
	}
	shares := map[actor.HostID]*greenroomv1.HostShare{}
	ask, cancel := context.WithTimeout(ctx, in.cfg.Lease)
	defer cancel()
	if a, err := in.query(ask, &greenroomv1.LeaderQuery{}); err == nil {
		list.Answered, list.Missing = true, protocol.FromIDs(a.GetMissing())
		for _, h := range a.GetHosts() {
			shares[actor.HostID(h.GetHostId())] = h
		}
	}
	leases, at, err := in.cfg.Store.Leases(ctx, checkoutPrefix)
	if err != nil {
		return HostList{}, err
	}
	partitions := map[actor.HostID]int{}
	for _, l := range leases {
		if at.Before(l.ExpiresAt) {
			partitions[l.Holder]++
		}
	}
	self := in.Self()
	for _, h := range hosts {
		share := shares[h.ID]
		list.Hosts = append(list.Hosts, HostInfo{
			Host: h, Leader: leading.Connected && h.ID == leading.Leader, Self: h.ID == self,
			Partitions: partitions[h.ID],
			Draining:   share.GetDraining(), Connected: share.GetConnected(),
			Ranges: int(share.GetRanges()), Sticky: int(share.GetSticky()), Weight: share.GetWeight(), //nolint:gosec // counts
		})
	}
	return list, nil
}

// Connected returns the hosts that have a session with the leader. It returns
// [actor.ErrUnavailable] if this process has no such session, or if the leader does not
// answer within the lease.
func (in *inspector) Connected(ctx context.Context) ([]actor.HostID, error) {
	ctx, cancel := context.WithTimeout(ctx, in.cfg.Lease)
	defer cancel()
	a, err := in.query(ctx, &greenroomv1.LeaderQuery{})
	if err != nil {
		return nil, err
	}
	var hosts []actor.HostID
	for _, h := range a.GetHosts() {
		if h.GetConnected() {
			hosts = append(hosts, actor.HostID(h.GetHostId()))
		}
	}
	return hosts, nil
}

// Others returns the other members that this process knows.
func (in *inspector) Others() []actor.Host {
	v := in.view.Load()
	others := make([]actor.Host, 0, len(v.members))
	for id, h := range v.members {
		if id != v.self {
			others = append(others, h)
		}
	}
	return others
}

// Members returns how many members that run actors this process knows, itself included.
func (in *inspector) Members() (n int) {
	for _, h := range in.view.Load().members {
		if slices.Contains(h.Roles, protocol.RoleHost) {
			n++
		}
	}
	return n
}

// FindHost returns the one member with an ID, the beginning of one, or a name.
// [actor.ErrHostGone] without one; an [*actor.ArgumentError] if there are several.
func (in *inspector) FindHost(name string) (actor.HostID, error) {
	var found []actor.HostID
	for id, h := range in.view.Load().members {
		switch {
		case string(id) == name:
			return id, nil
		case h.Name == name || strings.HasPrefix(string(id), name):
			found = append(found, id)
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("no host of the cluster is %q: %w", name, actor.ErrHostGone)
	case 1:
		return found[0], nil
	}
	return "", &actor.ArgumentError{Field: "host", Problem: fmt.Sprintf("%q fits %d hosts; give the ID of one", name, len(found))}
}

// Location is where an actor is.
type Location struct {
	Policy string
	// Group is the group that the actor is placed with, and GroupKey its key there; empty
	// without one.
	Group, GroupKey string
	// Host holds the actor; its ID is empty if nobody does. It has a name alone where the
	// host of that name is the only one that may, and is away.
	Host actor.Host
	// Moving: it is between two holders.
	Moving bool
	Point  placement.Point
	// Readers are the other hosts that may answer its read-only methods.
	Readers []actor.Host
}

// Where says where an actor is, without acquiring it. [actor.ErrTypeNotFound] for a type
// that no host runs; for a sticky one the leader is asked.
func (in *inspector) Where(ctx context.Context, key actor.Key) (Location, error) {
	v := in.view.Load()
	at := v.locate(key)
	t := at.table
	if t == nil {
		return Location{}, fmt.Errorf("no host of the cluster runs type %s of app %s: %w", key.Type, key.App, actor.ErrTypeNotFound)
	}
	l := Location{Policy: t.Policy, Point: placement.PointOf(at.key)}
	if at.key != key {
		l.Group, l.GroupKey = placement.GroupOf(at.key.Type), at.key.ID
	}
	key = at.key
	var owner actor.HostID
	switch {
	case !placement.Exclusive(t.Policy):
		return l, nil
	case t.Policy == abi.PlacementSticky:
		a, err := in.query(ctx, &greenroomv1.LeaderQuery{App: key.App, Type: key.Type, Id: key.ID})
		if err != nil {
			return Location{}, err
		}
		if len(a.GetSticky()) > 0 {
			owner = actor.HostID(a.GetSticky()[0].GetOwner())
		}
	default:
		owner = t.Owner(l.Point)
		l.Moving = owner == ""
		for _, id := range t.Find(l.Point).Readers {
			if h, there := v.members[id]; there && id != owner {
				l.Readers = append(l.Readers, h)
			}
		}
		if _, there := v.members[owner]; !there {
			if away := v.away(t, key); away != "" {
				l.Host.Name, l.Moving = away, false
				return l, nil
			}
		}
	}
	if h, there := v.members[owner]; there {
		l.Host = h
	} else if owner != "" {
		l.Host.ID, l.Moving = owner, true // its row is gone
	}
	return l, nil
}

// Sticky lists sticky actors of an app in order of type and ID, those after a key, limit
// at most; of a type and an owner, or of all where they are empty. The leader is asked.
//
// For a type that is placed with a group these are the group keys, under the name of the
// group's table; the type of after is then that name too.
func (in *inspector) Sticky(ctx context.Context, app, typ string, owner actor.HostID, after actor.Key, limit int) ([]ownership.StickyEntry, error) {
	if typ != "" {
		typ = in.tableOf(app, typ)
	}
	a, err := in.query(ctx, &greenroomv1.LeaderQuery{
		App: app, Type: typ, Owner: string(owner), Limit: uint32(limit), //nolint:gosec // of a page
		After: &greenroomv1.StickyEntry{Type: after.Type, Id: after.ID},
	})
	if err != nil {
		return nil, err
	}
	list := make([]ownership.StickyEntry, len(a.GetSticky()))
	for i, e := range a.GetSticky() {
		list[i] = ownership.StickyEntry{Key: actor.Key{App: app, Type: e.GetType(), ID: e.GetId()}, Owner: actor.HostID(e.GetOwner())}
	}
	return list, nil
}

// tableOf returns the name of the table of a type: that of its group if it is placed with one.
func (in *inspector) tableOf(app, typ string) string {
	return in.view.Load().locate(actor.Key{App: app, Type: typ}).key.Type
}

// Part is a part of the hash space as people see it. Without hosts it moves, or is away.
type Part struct {
	First, Last placement.Point // inclusive
	Hosts       []actor.HostID
	// Readers are the other hosts that may answer read-only methods of its actors.
	Readers []actor.HostID
	// Name is that of the one host that may hold it, of static types; Away: it is not
	// there.
	Name string
	Away bool
	// Moved: it is there because of its heat, not by the ring.
	Moved bool
}

// Placement returns the table of a type as this process knows it; neighbours that are
// alike are one range, but for those of static types. [actor.ErrTypeNotFound] for a type
// that no host runs.
func (in *inspector) Placement(app, typ string) (policy string, parts []Part, err error) {
	v := in.view.Load()
	t, _ := v.of(app, in.tableOf(app, typ))
	if t == nil {
		return "", nil, fmt.Errorf("no host of the cluster runs type %s of app %s: %w", typ, app, actor.ErrTypeNotFound)
	}
	for r := range t.All() {
		if n := len(parts); n > 0 && !placement.IsCheckout(t.Policy) && parts[n-1].Moved == r.Moved && slices.Equal(parts[n-1].Hosts, r.Hosts) && slices.Equal(parts[n-1].Readers, r.Readers) {
			continue
		}
		parts = append(parts, Part{First: r.First, Hosts: r.Hosts, Readers: r.Readers, Moved: r.Moved})
	}
	if n := len(t.Static); n > 0 {
		parts = parts[:0]
		for i, r := range placement.StaticTable(make([]actor.HostID, n)).Ranges() {
			p := Part{First: r.First, Hosts: t.Find(r.First).Hosts, Name: t.Static[i], Away: !v.there(t.Static[i])}
			if len(p.Hosts) > 0 {
				_, there := v.members[p.Hosts[0]]
				p.Away = !there
			}
			parts = append(parts, p)
		}
	}
	for i := range parts {
		parts[i].Last = placement.LastPoint
		if i+1 < len(parts) {
			parts[i].Last = parts[i+1].First - 1
		}
	}
	return t.Policy, parts, nil
}

// HostHeat is what a host is asked for of one type, in calls per second: sampled, and
// smoothed over some reports.
type HostHeat struct {
	Host  actor.HostID
	Total float64
	// Cells are those that stand out.
	Cells map[placement.Cell]float64
}

// Heat returns how hot a type is at the hosts that are asked for it. The leader is asked,
// for as long as a lease.
func (in *inspector) Heat(ctx context.Context, app, typ string) ([]HostHeat, error) {
	ctx, cancel := context.WithTimeout(ctx, in.cfg.Lease)
	defer cancel()
	a, err := in.query(ctx, &greenroomv1.LeaderQuery{App: app, Type: in.tableOf(app, typ), Heat: true})
	if err != nil {
		return nil, err
	}
	list := make([]HostHeat, len(a.GetHeat()))
	for i, t := range a.GetHeat() {
		h := HostHeat{Host: actor.HostID(t.GetHostId()), Total: t.GetCallsPerSecond(), Cells: map[placement.Cell]float64{}}
		for j, rate := range t.GetCellCallsPerSecond() {
			if j < len(t.GetCells()) {
				h.Cells[placement.Cell(t.GetCells()[j])] = float64(rate) //nolint:gosec // of a leader of this cluster
			}
		}
		list[i] = h
	}
	return list, nil
}

// query asks the leader what only the leader knows.
func (in *inspector) query(ctx context.Context, q *greenroomv1.LeaderQuery) (*greenroomv1.LeaderAnswer, error) {
	in.mu.Lock()
	ss := in.session
	if ss == nil {
		in.mu.Unlock()
		return nil, fmt.Errorf("no session with the leader of the cluster: %w", actor.ErrUnavailable)
	}
	ss.lastQuery++
	q.CorrelationId = ss.lastQuery
	answer := make(chan answerOrEnd, 1)
	ss.queries[q.CorrelationId] = answer
	ss.out.Put(&greenroomv1.ReportActorTypesRequest{Message: &greenroomv1.ReportActorTypesRequest_Query{Query: q}})
	in.mu.Unlock()
	select {
	case a, ok := <-answer:
		if !ok {
			return nil, fmt.Errorf("the session with the leader of the cluster broke: %w", actor.ErrUnavailable)
		}
		return a.answer, nil
	case <-ctx.Done():
		in.mu.Lock()
		defer in.mu.Unlock()
		delete(ss.queries, q.CorrelationId)
		return nil, ctx.Err()
	}
}
