package wasi

import (
	"encoding/binary"
	"math"
)

// The clocks that there are.
const (
	realtime = iota
	monotonic
)

// clock reads a clock, and reports false if there is none of that number.
func clock(g Guest, id uint32) (nanoseconds uint64, ok bool) {
	switch id {
	case realtime:
		return uint64(g.Now()), true
	case monotonic:
		return uint64(g.Monotonic()), true
	}
	return 0, false
}

func clockTime(g Guest, a arguments) Errno {
	now, ok := clock(g, a.u32(0))
	if !ok {
		return Inval
	}
	out, ok := region(g, a.u32(2), 8)
	if !ok {
		return Fault
	}
	binary.LittleEndian.PutUint64(out, now)
	return Success
}

func clockResolution(g Guest, a arguments) Errno {
	if _, ok := clock(g, a.u32(0)); !ok {
		return Inval
	}
	out, ok := region(g, a.u32(1), 8)
	if !ok {
		return Fault
	}
	binary.LittleEndian.PutUint64(out, 1)
	return Success
}

// The layouts of subscription and event.
const (
	subscriptionBytes = 48
	eventBytes        = 32

	eventClock, eventRead, eventWrite = 0, 1, 2
)

// subscription is what a guest waits for.
type subscription struct {
	userdata [8]byte
	kind     byte
	errno    Errno
	delay    uint64 // nanoseconds until it happens; 0 for all but clocks
}

// readSubscription reports false for one that no guest should send.
func readSubscription(g Guest, b []byte) (s subscription, ok bool) {
	copy(s.userdata[:], b)
	s.kind = b[8]
	id := binary.LittleEndian.Uint32(b[16:])
	switch s.kind {
	case eventClock:
		now, known := clock(g, id)
		if !known {
			s.errno = Inval
			return s, true
		}
		timeout := binary.LittleEndian.Uint64(b[24:])
		switch binary.LittleEndian.Uint16(b[40:]) {
		case 0:
			s.delay = timeout
		case 1: // until a moment
			s.delay = timeout - min(timeout, now)
		default:
			return s, false
		}
	case eventRead:
		if id != stdin {
			s.errno = Badf
		}
	case eventWrite:
		if id != stdout && id != stderr {
			s.errno = Badf
		}
	default:
		return s, false
	}
	return s, true
}

func (s *subscription) write(out []byte) {
	const hangup = 1
	clear(out)
	copy(out, s.userdata[:])
	binary.LittleEndian.PutUint16(out[8:], uint16(s.errno))
	out[10] = s.kind
	switch {
	case s.errno != Success:
	case s.kind == eventRead:
		out[24] = hangup // nothing will come
	case s.kind == eventWrite:
		binary.LittleEndian.PutUint64(out[16:], printChunk)
	}
}

// poll waits for the first of some events, which takes no time, and tells which
// have happened then. Of what a guest can wait for only clocks do not happen at
// once.
func poll(g Guest, a arguments) Errno {
	n := uint64(a.u32(2))
	if n == 0 {
		return Inval
	}
	in, ok := region(g, a.u32(0), n*subscriptionBytes)
	out, also := region(g, a.u32(1), n*eventBytes)
	count, too := region(g, a.u32(3), 4)
	if !ok || !also || !too {
		return Fault
	}
	wait := uint64(math.MaxUint64)
	for at := range n {
		if at%block == 0 {
			g.Spend(fuelSubscription * min(n-at, block))
		}
		s, ok := readSubscription(g, in[at*subscriptionBytes:][:subscriptionBytes])
		if !ok {
			return Inval
		}
		wait = min(wait, s.delay)
	}
	happened := uint32(0)
	for at := range n {
		if at%block == 0 {
			g.Spend(fuelSubscription * min(n-at, block))
		}
		// Read again, and before the clock moves. A guest that has its events lie
		// over its subscriptions gets what it deserves.
		s, ok := readSubscription(g, in[at*subscriptionBytes:][:subscriptionBytes])
		if ok && s.delay <= wait {
			s.write(out[happened*eventBytes:][:eventBytes])
			happened++
		}
	}
	binary.LittleEndian.PutUint32(count, happened)
	if wait > 0 {
		g.Sleep(int64(min(wait, math.MaxInt64)))
	}
	return Success
}
