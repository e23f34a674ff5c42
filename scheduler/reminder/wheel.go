package reminder

import (
	"cmp"
	"math/bits"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// Entry names a reminder in a [Wheel] while it is there; 0 names none. It is used again
// for another reminder once this one has left the wheel.
type Entry uint32

// Due is a reminder whose time has come.
type Due struct {
	ID actor.ReminderID
	At time.Time
}

// Wheel keeps reminders in the order of when they are to be delivered: a hierarchical
// timing wheel (Varghese and Lauck, 1987), with lists through the entries themselves. It
// holds some 40 bytes for each, in a few large allocations without pointers, which the
// garbage collector passes over: of a reminder it knows the ID alone, and the rest is
// read when it is due.
//
// Insert and Cancel take the same time whatever the number of entries. It is for one
// goroutine at a time, and reads no clock.
type Wheel struct {
	now     int64 // microseconds since 1970; all entries before it were given out
	levels  [wheelLevels]level
	entries []entry
	free    Entry // the first of the list of unused entries
	laps    []lap // what IDs have in common, by number
	numbers map[lap]uint32
	count   int
}

// A slot of the lowest level holds what is due in one tick; one of each level above as
// many ticks as the whole level below.
const (
	wheelBits   = 6
	wheelSlots  = 1 << wheelBits
	wheelLevels = 9 // 64^9 ticks are half a million years

	tick = 1 << 10 // microseconds: about a millisecond
)

// level is a ring of lists, and which of them have entries. The first entry of a list has the last
// one as its previous one: what was inserted first goes first.
type level struct {
	used  uint64
	heads [wheelSlots]Entry
}

// lap is the prefix and vector of an ID.
type lap struct {
	prefix actor.Prefix
	vector actor.Vector
}

// entry is a reminder in a list: 32 bytes.
type entry struct {
	at         int64 // microseconds since 1970
	token      uint32
	lap        uint32
	next, prev Entry
	slot       uint16 // level and slot of the list; outside: none
	_          uint16
}

const outside = 1<<16 - 1

// NewWheel returns an empty wheel that begins at now.
func NewWheel(now time.Time) *Wheel {
	return &Wheel{now: now.UnixMicro(), entries: make([]entry, 1), numbers: map[lap]uint32{}}
}

// Len returns how many reminders there are.
func (w *Wheel) Len() int { return w.count }

// Insert adds a reminder to be given out once Advance comes to at. The caller does not
// insert one that is there.
func (w *Wheel) Insert(id actor.ReminderID, at time.Time) Entry {
	e := w.free
	if e == 0 {
		w.entries = append(w.entries, entry{})
		e = Entry(len(w.entries) - 1)
	} else {
		w.free = w.entries[e].next
	}
	w.entries[e] = entry{at: at.UnixMicro(), token: id.Token, lap: w.number(id)}
	w.count++
	w.link(e)
	return e
}

// number returns the number of what the ID has in common with others. There are few: one
// for each app, and for each lap of it.
func (w *Wheel) number(id actor.ReminderID) uint32 {
	l := lap{id.Prefix, id.Vector}
	n, ok := w.numbers[l]
	if !ok {
		n = uint32(len(w.laps))
		w.laps = append(w.laps, l)
		w.numbers[l] = n
	}
	return n
}

// ID returns which reminder an entry names.
func (w *Wheel) ID(e Entry) actor.ReminderID { return w.idOf(&w.entries[e]) }

func (w *Wheel) idOf(x *entry) actor.ReminderID {
	l := w.laps[x.lap]
	return actor.ReminderID{Prefix: l.prefix, Token: x.token, Vector: l.vector}
}

// holds reports whether an entry that was in the wheel when Advance was called is still there. Nothing was inserted
// since.
func (w *Wheel) holds(e Entry) bool { return w.entries[e].slot != outside }

// Cancel removes a reminder that is in the wheel.
func (w *Wheel) Cancel(e Entry) {
	w.unlink(e)
	w.release(e)
}

func (w *Wheel) release(e Entry) {
	w.entries[e] = entry{next: w.free, slot: outside}
	w.free = e
	w.count--
}

// link puts an entry into the list that its time belongs to: of the lowest level on
// which that is not the slot of now. What is due already goes into the slot of now.
func (w *Wheel) link(e Entry) {
	x := &w.entries[e]
	at, now := max(x.at, w.now)/tick, w.now/tick
	lev := 0
	if differ := uint64(at ^ now); differ != 0 {
		lev = (bits.Len64(differ) - 1) / wheelBits
	}
	slot := int(at>>(lev*wheelBits)) & (wheelSlots - 1)
	x.slot = uint16(lev*wheelSlots + slot)
	l := &w.levels[lev]
	x.prev, x.next = e, 0
	if first := l.heads[slot]; first == 0 {
		l.heads[slot] = e
	} else {
		x.prev = w.entries[first].prev
		w.entries[x.prev].next = e
		w.entries[first].prev = e
	}
	l.used |= 1 << slot
}

func (w *Wheel) unlink(e Entry) {
	x := &w.entries[e]
	l, slot := &w.levels[x.slot/wheelSlots], x.slot%wheelSlots
	first := l.heads[slot]
	switch {
	case first != e:
		w.entries[x.prev].next = x.next
		if x.next == 0 {
			w.entries[first].prev = x.prev
		} else {
			w.entries[x.next].prev = x.prev
		}
	case x.next == 0:
		l.heads[slot] = 0
		l.used &^= 1 << slot
	default:
		l.heads[slot] = x.next
		w.entries[x.next].prev = x.prev
	}
}

// Advance moves the wheel to now and appends to dst what is due by then, in the order of
// time and token; what was overdue when it was inserted comes first. Now may be earlier
// than it was. Once that is limit the wheel stops, and the caller calls again; what is left of
// the tick comes in the order in which it was inserted.
func (w *Wheel) Advance(now time.Time, dst []Due, limit int) []Due {
	until := now.UnixMicro()
	if until < w.now-rewindAfter {
		w.rewind(until)
	}
	start := len(dst)
	for len(dst)-start < limit {
		slot := int(w.now/tick) & (wheelSlots - 1)
		if w.levels[0].heads[slot] != 0 {
			dst = w.take(slot, until, dst, start+limit)
			if w.levels[0].heads[slot] != 0 {
				break // the rest of this tick is not due yet, or above the limit
			}
		}
		next, ok := w.nextSlot()
		if !ok || next > until {
			break
		}
		w.now = next
		w.cascade()
	}
	if len(dst)-start < limit && until > w.now {
		w.move(until)
	}
	return dst
}

// rewindAfter is how far a clock may go back, in microseconds, before the wheel follows it.
// Until the clock has caught up, what is inserted meanwhile is in one list.
const rewindAfter = 1_000_000

// rewind sets the time back.
func (w *Wheel) rewind(now int64) {
	w.now = now
	w.levels = [wheelLevels]level{}
	for e := Entry(1); int(e) < len(w.entries); e++ {
		if w.entries[e].slot != outside {
			w.link(e)
		}
	}
}

// move sets the time where no slot lies between: what the slots of now on each level
// hold has to come down.
func (w *Wheel) move(until int64) {
	w.now = until
	w.cascade()
}

// take appends what is due of a slot of the lowest level, sorted, until dst has most entries.
func (w *Wheel) take(slot int, until int64, dst []Due, most int) []Due {
	from := len(dst)
	for e := w.levels[0].heads[slot]; e != 0 && len(dst) < most; {
		x := &w.entries[e]
		next := x.next
		if x.at <= until {
			dst = append(dst, Due{w.idOf(x), time.UnixMicro(x.at).UTC()})
			w.Cancel(e)
		}
		e = next
	}
	sortDue(dst[from:])
	return dst
}

// cascade takes the entries of the slots of now, above the lowest level, to where they
// belong since the time has come into those slots.
func (w *Wheel) cascade() {
	for lev := wheelLevels - 1; lev > 0; lev-- {
		l := &w.levels[lev]
		slot := int(w.now/tick>>(lev*wheelBits)) & (wheelSlots - 1)
		if l.used&(1<<slot) == 0 {
			continue
		}
		e := l.heads[slot]
		l.heads[slot] = 0
		l.used &^= 1 << slot
		for e != 0 {
			next := w.entries[e].next
			w.link(e)
			e = next
		}
	}
}

// nextSlot returns when the next slot with entries begins, in microseconds; false if no slot
// has entries.
func (w *Wheel) nextSlot() (int64, bool) {
	now := w.now / tick
	for lev := range wheelLevels {
		shift := lev * wheelBits
		slot := int(now>>shift) & (wheelSlots - 1)
		// Of each level only the slots behind that of now can have entries: those before
		// it would lie beyond the slot of now of the level above.
		if later := w.levels[lev].used &^ (1<<(slot+1) - 1); later != 0 {
			at := now>>shift>>wheelBits<<wheelBits | int64(bits.TrailingZeros64(later))
			return at << shift * tick, true
		}
	}
	return 0, false
}

// Next returns a time before which nothing is due; false if the wheel is empty. It may be
// earlier than the first reminder by as much as the slot is wide that this is in.
func (w *Wheel) Next() (time.Time, bool) {
	slot := int(w.now/tick) & (wheelSlots - 1)
	if e := w.levels[0].heads[slot]; e != 0 {
		first := w.entries[e].at
		for ; e != 0; e = w.entries[e].next {
			first = min(first, w.entries[e].at)
		}
		return time.UnixMicro(first).UTC(), true
	}
	next, ok := w.nextSlot()
	return time.UnixMicro(next).UTC(), ok
}

func sortDue(list []Due) {
	slices.SortFunc(list, func(a, b Due) int {
		if c := a.At.Compare(b.At); c != 0 {
			return c
		}
		if c := cmp.Compare(a.ID.Prefix, b.ID.Prefix); c != 0 {
			return c
		}
		return cmp.Compare(a.ID.Token, b.ID.Token)
	})
}
