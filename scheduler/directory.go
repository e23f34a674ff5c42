package scheduler

import (
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/assignment"
	"github.com/greenroom-run/greenroom/scheduler/placement"
)

// directory finds, for each call, the host that holds an actor. It answers from the view, and takes
// no lock except that of one shard of the owned actors, unless it acquires a sticky actor.
type directory struct {
	*member
	sticky *sticky
}

// Holds says whether this host holds an actor, by its type's table or, if it is sticky,
// as its owner. It does not ask whether the lease holds: [Service.Current] does. It
// never blocks and does not allocate. policy is the placement by which the caller
// would run the actor; the table's own goes before it, so that all hosts agree. An actor
// that nobody holds is [actor.Held] by every host that would run it so.
func (d *directory) Holds(key actor.Key, policy string) actor.Hold {
	v := d.view.Load()
	at := v.locate(key)
	if hold := d.holds(v, at, key, policy); hold != actor.HeldClean || !at.unfenced {
		return hold
	}
	return actor.Held
}

// holds says what this host holds of an actor by the table of its place.
func (d *directory) holds(v *view, at place, key actor.Key, policy string) actor.Hold {
	t := at.table
	switch {
	case t == nil && (placement.Exclusive(policy) || !v.informed):
		return actor.NotHeld
	case t == nil:
		return actor.Held
	case !placement.Exclusive(t.Policy) && (t.HandingOver || placement.Exclusive(policy)): // its placement changes
		return actor.NotHeld
	case !placement.Exclusive(t.Policy):
		return actor.Held
	case t.Policy != abi.PlacementSticky:
		return t.Holds(v.self, at.key)
	case t.HandingOver:
		return actor.NotHeld
	default:
		return d.owned.hold(at.key, key)
	}
}

// Fenced notes that a commit of this host has moved the version of a sticky actor on since
// the actor was acquired: nothing of an earlier owner can land any more.
func (d *directory) Fenced(key actor.Key) { d.owned.fence(d.view.Load().locate(key).key, key) }

// Find says where a call of an actor goes. It never blocks.
func (d *directory) Find(key actor.Key, policy string) placement.Where {
	w := d.find(key, policy)
	if w.Wait != nil && d.lost() {
		return placement.Where{Lost: true}
	}
	return w
}

func (d *directory) find(key actor.Key, policy string) placement.Where {
	v := d.view.Load()
	at := v.locate(key)
	t, counts, key := at.table, at.counts, at.key
	switch {
	case t == nil && !placement.Exclusive(policy) && d.cfg.hosts() && (v.informed || policy != abi.PlacementAny):
		return d.anywhere(v, policy, placement.Where{Here: true})
	case t == nil:
		d.TypesChanged()
		return placement.Where{Wait: v.changed}
	case !placement.Exclusive(t.Policy):
		return d.findAnywhere(v, t, counts, key, policy)
	case t.Policy == abi.PlacementSticky:
		return d.findSticky(v, t, counts, key)
	}
	p := placement.PointOf(key)
	owner := t.Owner(p)
	_, there := v.members[owner]
	switch {
	case (owner == "" || !there) && v.away(t, key) != "":
		return placement.Where{Away: v.away(t, key)}
	case owner == v.self && d.Current(time.Now()) && t.HoldsAt(v.self, p) != actor.NotHeld:
		return v.here(counts, key)
	case owner == "" || owner == v.self || !there:
		return placement.Where{Wait: v.changed}
	default:
		return placement.Where{Host: owner}
	}
}

// findAnywhere is for actors that nobody holds: they are run where the call is, if that
// can run them.
func (d *directory) findAnywhere(v *view, t *assignment.View, counts *callCounts, key actor.Key, policy string) placement.Where {
	switch host := placement.Anywhere(v.self, placement.PointOf(key), t.Find(0).Hosts); {
	case host == "":
		return placement.Where{Wait: v.changed}
	case host != v.self:
		return placement.Where{Host: host}
	case placement.Exclusive(policy): // of another deployment than the leader knows, for now
		d.TypesChanged()
		return placement.Where{Wait: v.changed}
	default:
		return d.anywhere(v, policy, v.here(counts, key))
	}
}

// anywhere is for an actor that nobody holds, and that is run here: any types have turns as
// long as the host's lease lasts.
func (d *directory) anywhere(v *view, policy string, here placement.Where) placement.Where {
	if policy == abi.PlacementAny && !d.Current(time.Now()) {
		return placement.Where{Wait: v.changed}
	}
	return here
}

// findSticky gathers what [placement.Sticky] decides by: no more than that needs, since what
// is asked for counts as used.
func (d *directory) findSticky(v *view, t *assignment.View, counts *callCounts, key actor.Key) placement.Where {
	knows := placement.Sticky{Self: v.self, Handing: t.HandingOver}
	if !t.HandingOver {
		knows.Owns = d.owned.hold(key, key) != actor.NotHeld
	}
	switch {
	case t.HandingOver:
	case knows.Owns:
		knows.Current = d.Current(time.Now())
	default:
		if owner, known := d.sticky.owners.Get(key); known {
			if _, there := v.members[owner]; there && owner != v.self {
				knows.Owner = owner
			} else {
				d.sticky.owners.Remove(key)
			}
		}
		p := placement.PointOf(key)
		if ring := t.Owner(p); ring == v.self {
			knows.Ring, knows.Holds = ring, t.HoldsAt(v.self, p) != actor.NotHeld
		} else if _, there := v.members[ring]; there {
			knows.Ring = ring
		}
	}
	switch next := knows.Next(); {
	case next.Here:
		return v.here(counts, key)
	case next.Acquire:
		return d.sticky.acquire(key)
	case next.Host != "":
		return placement.Where{Host: next.Host}
	default:
		return placement.Where{Wait: v.changed}
	}
}

// Readers returns the hosts that may answer read-only methods of an actor beside the one
// that holds it, and whether this host is one. What they answer is to be confirmed in the
// store. It never blocks and does not allocate; the hosts are read-only.
func (d *directory) Readers(key actor.Key) (hosts []actor.HostID, here bool) {
	v := d.view.Load()
	r := v.readers(key)
	if r == nil {
		return nil, false
	}
	return r.Readers, v.reads(r) && d.Current(time.Now())
}

// Reads reports whether this host may answer a read-only method of an actor that another
// one holds.
func (d *directory) Reads(key actor.Key) bool {
	v := d.view.Load()
	r := v.readers(key)
	return r != nil && v.reads(r) && d.Current(time.Now())
}

// CountRead counts a call that this host answers as a reader among those that it is asked.
func (d *directory) CountRead(key actor.Key) {
	v := d.view.Load()
	if at := v.locate(key); at.table != nil {
		v.here(at.counts, at.key)
	}
}

// Learned notes which host owns a sticky actor, as another host reported. An empty owner
// means that the other host does not own the actor and knows no owner.
func (d *directory) Learned(key actor.Key, owner actor.HostID) {
	v := d.view.Load()
	at := v.locate(key)
	if at.table == nil || at.table.Policy != abi.PlacementSticky {
		return
	}
	key = at.key
	if _, there := v.members[owner]; there && owner != v.self {
		d.sticky.owners.Add(key, owner)
		return
	}
	d.sticky.owners.Remove(key)
}

// Peer returns where a host is reached and the newest protocol that both speak; false
// if it is not a member, or they speak none in common.
func (d *directory) Peer(id actor.HostID) (address string, protocol int, ok bool) {
	h, found := d.view.Load().members[id]
	if !found {
		return "", 0, false
	}
	protocol = min(h.MaxProtocol, d.cfg.Self.MaxProtocol)
	return h.Address, protocol, protocol >= max(h.MinProtocol, d.cfg.Self.MinProtocol)
}

// KnownOwners returns of how many sticky actors this host remembers the owner.
func (d *directory) KnownOwners() int { return d.sticky.owners.Len() }
