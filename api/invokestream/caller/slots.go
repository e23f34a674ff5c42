package caller

// slots are the calls that were sent over a stream and not answered, by the IDs
// that they have there. An ID is a place and how often it was used, so that finding
// a call is no search, and no ID means another call later.
type slots struct {
	limit int
	all   []slot
	free  []uint32
}

type slot struct {
	use  uint32
	busy bool
	call *Call // nil if nobody waits for the reply
}

// put gives a call a place and its ID; false if all are taken.
func (s *slots) put(ca *Call) (uint64, bool) {
	var at uint32
	switch n := len(s.free); {
	case n > 0:
		at = s.free[n-1]
		s.free = s.free[:n-1]
	case len(s.all) < s.limit:
		at = uint32(len(s.all)) //nolint:gosec // below limit
		s.all = append(s.all, slot{})
	default:
		return 0, false
	}
	e := &s.all[at]
	e.use++
	e.busy, e.call = true, ca
	ca.slot = at
	return uint64(e.use)<<32 | uint64(at), true
}

// get frees the slot of an ID and returns its call, or nil if the slot has none.
func (s *slots) get(id uint64) *Call {
	at := uint32(id)                    //nolint:gosec // its lower half
	if int64(at) >= int64(len(s.all)) { // a server's invention
		return nil
	}
	e := &s.all[at]
	if !e.busy || e.use != uint32(id>>32) { //nolint:gosec // its upper half
		return nil
	}
	ca := e.call
	e.busy, e.call = false, nil
	s.free = append(s.free, at)
	return ca
}

// abandon drops the call of a place, which stays taken until the reply.
func (s *slots) abandon(at uint32) { s.all[at].call = nil }

// reset frees all places and returns the calls that were in them.
func (s *slots) reset() []*Call {
	var unanswered []*Call
	for at := range s.all {
		e := &s.all[at]
		if !e.busy {
			continue
		}
		if e.call != nil {
			unanswered = append(unanswered, e.call)
		}
		e.busy, e.call = false, nil
		s.free = append(s.free, uint32(at)) //nolint:gosec // below limit
	}
	return unanswered
}
