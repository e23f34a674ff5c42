package placement

// Sticky decides what a host does with a call of a sticky actor, by what it knows. An actor
// belongs to its owner until the owner gives it up or is cleared, wherever the ring would
// have it. If no owner of an actor is known, the ring names the host that asks: that host
// alone acquires the actor, from the leader, which gives it to one host.
type Sticky struct {
	Self HostID
	// Handing: the type gets another policy, and its actors are handed over.
	Handing bool
	// Owns: Self owns the actor; Current: its lease lasts.
	Owns, Current bool
	// Owner is the other member that is remembered as the owner; empty: none.
	Owner HostID
	// Ring is the member that the type's table names for the actor, empty while it moves;
	// Holds: that is Self, and it holds that part of the table.
	Ring  HostID
	Holds bool
}

// StickyStep is what to do with a call: one of its fields is set.
type StickyStep struct {
	Here    bool   // run it
	Host    HostID // send it there
	Acquire bool   // ask the leader for the actor
	Wait    bool   // until what is known has changed
}

// Next returns the step.
func (s Sticky) Next() StickyStep {
	switch {
	case s.Handing, s.Owns && !s.Current:
		return StickyStep{Wait: true}
	case s.Owns:
		return StickyStep{Here: true}
	case s.Owner != "":
		return StickyStep{Host: s.Owner}
	case s.Ring != "" && s.Ring != s.Self:
		return StickyStep{Host: s.Ring}
	case s.Ring == s.Self && s.Holds:
		return StickyStep{Acquire: true}
	default:
		return StickyStep{Wait: true}
	}
}
