package leader

import "github.com/greenroom-run/greenroom/scheduler/clock"

// Patience is for how many leases a leader that no other host reaches keeps leading, and a
// host without a session keeps its row: longer than an election takes.
const Patience = 2

// reach is what a leader knows of whether the other hosts reach it. It is pure state.
type reach struct {
	others int           // hosts with a lease, beside the leader
	met    bool          // one of them has had a session in this term
	cut    bool          // others are there, and none has a session
	since  clock.Instant // from when on; while cut
}

// connected notes that another host has a session.
func (r *reach) connected() { r.met, r.cut = true, false }

// observe notes how many other hosts were there at a reading of the rows, and how many of them
// had a session.
func (r *reach) observe(now clock.Instant, others, sessions int) {
	r.others = others
	switch {
	case sessions > 0:
		r.connected()
	case others == 0:
		r.cut = false
	case !r.cut:
		r.cut, r.since = true, now
	}
}

// mayGrant reports whether a term may give anything away. One that two others cannot reach,
// and nobody has yet, would give everything to its own host, which would be of no use to
// them, and for which each later leader would wait.
func (r *reach) mayGrant() bool { return r.met || r.others < 2 }

// lost reports whether the leader should let another one try. Of two hosts that do not
// reach each other either leads as well as the other, if it can grant.
func (r *reach) lost(now, lease clock.Instant, granting bool) bool {
	return r.cut && now-r.since >= Patience*lease && (r.others > 1 || !granting)
}
