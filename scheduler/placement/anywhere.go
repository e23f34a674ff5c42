package placement

import "slices"

// Anywhere places a call of an actor that no host holds: types of placement any,
// where the lock of the actor's row decides who goes first, and stateless ones. The
// call stays where it arrived if that host serves the type, and otherwise goes to the
// one that rendezvous hashing names for the actor, so that calls of one actor meet
// in one queue rather than at its lock. hosts are those that serve the type; without
// any the answer is empty.
func Anywhere(here HostID, p Point, hosts []HostID) HostID {
	switch {
	case len(hosts) == 0:
		return ""
	case slices.Contains(hosts, here):
		return here
	}
	return rendezvous(p, hosts)
}
