package assignment

import (
	"iter"
	"slices"
	"sort"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// heldRanges are the ranges of a table as a host knows them, in order; they cover the hash
// space. A value never changes: a change makes another one, which shares the chunks that it
// leaves as they are. So a view of the table costs nothing, and a change what it changes.
type heldRanges struct{ chunks []*rangeChunk }

// chunkRanges is how many ranges a chunk has at most.
const chunkRanges = 64

// rangeChunk is some ranges in order, with a summary of them.
type rangeChunk struct {
	ranges                             []HeldRange
	holding, leaving, underWay, shared bool
	cleanAt                            clock.Instant // of what is held, the last to become clean
}

// HeldRange is a range of a table as a host knows it, whether this host holds it or not. It
// ends before the next range's First, the last one at the end of the hash space.
type HeldRange struct {
	First placement.Point
	Hosts []placement.HostID // where calls go; empty: nowhere now
	// readers may answer read-only methods, also while calls go nowhere.
	Readers []placement.HostID
	// among are the hosts that share what this one holds; empty: it holds nothing.
	among []placement.HostID
	// leaving: it was locked, and is handed over. Nothing of it may begin any more, but
	// what has begun is still here.
	leaving bool
	// underWay: it was handed over, and the leader has not yet reported which host has it now.
	underWay bool
	Moved    bool // it is where it is because of its heat
	// held says what this host holds of its share, and may begin turns of, when the range was
	// changed last or became clean.
	held    actor.Hold
	locked  clock.Instant // of what is leaving or under way: when the LOCK came
	cleanAt clock.Instant // from when on what it holds is clean
}

// newHeldRanges makes a list of ranges, which it takes over.
func newHeldRanges(ranges []HeldRange) heldRanges {
	return heldRanges{chunks: appendChunks(nil, ranges)}
}

// appendChunks adds ranges as chunks of about the same length.
func appendChunks(chunks []*rangeChunk, ranges []HeldRange) []*rangeChunk {
	if len(ranges) == 0 {
		return chunks
	}
	parts := (len(ranges) + chunkRanges - 1) / chunkRanges
	for part := range slices.Chunk(ranges, (len(ranges)+parts-1)/parts) {
		c := &rangeChunk{ranges: part}
		for i := range part {
			r := &part[i]
			c.leaving, c.underWay = c.leaving || r.leaving, c.underWay || r.underWay
			c.shared = c.shared || len(r.Readers) > 0
			if len(r.among) > 0 {
				c.holding, c.cleanAt = true, max(c.cleanAt, r.cleanAt)
			}
		}
		chunks = append(chunks, c)
	}
	return chunks
}

// single reports whether there is one range alone.
func (h heldRanges) single() bool { return len(h.chunks) == 1 && len(h.chunks[0].ranges) == 1 }

// Find returns the range of a point; read-only.
func (h heldRanges) Find(p placement.Point) *HeldRange {
	low, high := 0, len(h.chunks)
	for high-low > 1 {
		if middle := (low + high) / 2; h.chunks[middle].ranges[0].First <= p {
			low = middle
		} else {
			high = middle
		}
	}
	ranges := h.chunks[low].ranges
	low, high = 0, len(ranges)
	for high-low > 1 {
		if middle := (low + high) / 2; ranges[middle].First <= p {
			low = middle
		} else {
			high = middle
		}
	}
	return &ranges[low]
}

// All returns the ranges with their last points; read-only.
func (h heldRanges) All() iter.Seq2[*HeldRange, placement.Point] {
	return func(yield func(*HeldRange, placement.Point) bool) {
		for i, c := range h.chunks {
			for j := range c.ranges {
				last := h.last(i)
				if j+1 < len(c.ranges) {
					last = c.ranges[j+1].First - 1
				}
				if !yield(&c.ranges[j], last) {
					return
				}
			}
		}
	}
}

// last returns the last point of the i-th chunk.
func (h heldRanges) last(i int) placement.Point {
	if i+1 < len(h.chunks) {
		return h.chunks[i+1].ranges[0].First - 1
	}
	return placement.LastPoint
}

// any reports whether some chunk fits.
func (h heldRanges) any(fits func(*rangeChunk) bool) bool { return slices.ContainsFunc(h.chunks, fits) }

func isHolding(c *rangeChunk) bool  { return c.holding }
func isLeaving(c *rangeChunk) bool  { return c.leaving }
func isUnderWay(c *rangeChunk) bool { return c.underWay }
func isShared(c *rangeChunk) bool   { return c.shared }

// change returns the list in which what lies in some ranges, which are in order and do not
// overlap, was changed by apply, which gets each part of them.
func (h heldRanges) change(ranges []protocol.Range, now clock.Instant, apply func(r *HeldRange, by protocol.Range)) heldRanges {
	chunks := make([]*rangeChunk, 0, len(h.chunks)+len(ranges)/chunkRanges+2)
	var rebuilt []HeldRange // neighbours that were changed, or are among such
	for i, c := range h.chunks {
		last := h.last(i)
		for len(ranges) > 0 && ranges[0].Last < c.ranges[0].First {
			ranges = ranges[1:]
		}
		switch changes := len(ranges) > 0 && ranges[0].First <= last; {
		case changes:
			rebuilt = c.changed(rebuilt, ranges, last, now, apply)
		case 0 < len(rebuilt) && len(rebuilt) < chunkRanges/4 || len(rebuilt) > 0 && len(c.ranges) < chunkRanges/4:
			for _, r := range c.ranges { // no chunk stays small
				rebuilt = appendRange(rebuilt, r, now)
			}
		default:
			chunks = append(appendChunks(chunks, rebuilt), c)
			rebuilt = nil
		}
	}
	return heldRanges{chunks: appendChunks(chunks, rebuilt)}
}

// changed adds the ranges of a chunk, which ends with last, after others: cut where the
// ranges that change begin and end, and changed by them.
func (c *rangeChunk) changed(out []HeldRange, ranges []protocol.Range, last placement.Point, now clock.Instant, apply func(*HeldRange, protocol.Range)) []HeldRange {
	for i, r := range c.ranges {
		end := last
		if i+1 < len(c.ranges) {
			end = c.ranges[i+1].First - 1
		}
		for {
			for len(ranges) > 0 && ranges[0].Last < r.First {
				ranges = ranges[1:]
			}
			if len(ranges) == 0 || ranges[0].First > end {
				out = appendRange(out, r, now)
				break
			}
			by := ranges[0]
			if r.First < by.First {
				out = appendRange(out, r, now)
				r.First = by.First
			}
			part := r
			apply(&part, by)
			part.held = part.hold(now)
			out = appendRange(out, part, now)
			if end <= by.Last {
				break
			}
			r.First = by.Last + 1
		}
	}
	return out
}

// appendRange adds a range, which becomes one with the last if they are alike. What leaves
// is kept apart by the orders that it leaves for.
func appendRange(out []HeldRange, r HeldRange, now clock.Instant) []HeldRange {
	if n := len(out); n > 0 {
		if last := &out[n-1]; last.alike(&r) && !r.leaving && !r.underWay && (last.cleanAt == r.cleanAt || last.cleanAt <= now && r.cleanAt <= now) {
			return out
		}
	}
	return append(out, r)
}

// alike reports whether ranges differ by their places and by when they become clean alone.
func (r *HeldRange) alike(o *HeldRange) bool {
	return r.leaving == o.leaving && r.underWay == o.underWay && r.Moved == o.Moved &&
		slices.Equal(r.Hosts, o.Hosts) && slices.Equal(r.Readers, o.Readers) && slices.Equal(r.among, o.among)
}

// hold says what the host holds of a range.
func (r *HeldRange) hold(now clock.Instant) actor.Hold {
	switch {
	case len(r.among) == 0 || r.leaving:
		return actor.NotHeld
	case now < r.cleanAt:
		return actor.Held
	default:
		return actor.HeldClean
	}
}

// nextClean returns when the first of what is held becomes clean; 0 if all is.
func (h heldRanges) nextClean(now clock.Instant) (first clock.Instant) {
	for _, c := range h.chunks {
		if c.cleanAt <= now {
			continue
		}
		for i := range c.ranges {
			if r := &c.ranges[i]; len(r.among) > 0 && now < r.cleanAt && (first == 0 || r.cleanAt < first) {
				first = r.cleanAt
			}
		}
	}
	return first
}

// united returns the list that is as clean as the less clean of two at each point; false if
// they differ otherwise, or something of them is handed over.
func (h heldRanges) united(with heldRanges, now clock.Instant) (heldRanges, bool) {
	if h.any(isLeaving) || with.any(isLeaving) {
		return h, false
	}
	var other []protocol.Range // the ranges of with
	var from []*HeldRange
	for r, last := range with.All() {
		other, from = append(other, protocol.Range{First: r.First, Last: last}), append(from, r)
	}
	same := true
	out := h.change(other, now, func(r *HeldRange, by protocol.Range) {
		i := sort.Search(len(from), func(i int) bool { return from[i].First >= by.First })
		same = same && r.alike(from[i])
		r.cleanAt = max(r.cleanAt, from[i].cleanAt)
	})
	return out, same
}

// from returns the ranges from that of a point on, with their last points; read-only.
func (h heldRanges) from(p placement.Point) iter.Seq2[*HeldRange, placement.Point] {
	i := max(0, sort.Search(len(h.chunks), func(i int) bool { return h.chunks[i].ranges[0].First > p })-1)
	return func(yield func(*HeldRange, placement.Point) bool) {
		for r, last := range (heldRanges{h.chunks[i:]}).All() {
			if last >= p && !yield(r, last) {
				return
			}
		}
	}
}

// order changes a range by what an order says of it.
func (r *HeldRange) order(kind protocol.OrderKind, o protocol.Range, now clock.Instant) {
	switch kind {
	case protocol.Lock:
		r.Hosts, r.leaving = nil, len(r.among) > 0
		if r.leaving {
			r.locked = now
		}
	case protocol.Update:
		r.Hosts, r.among, r.leaving, r.underWay, r.cleanAt, r.Moved = o.Hosts, o.Hosts, false, false, now, o.Moved
		if !o.Clean {
			r.cleanAt = now + CleanAfter
		}
	case protocol.Unlock, protocol.Remove, protocol.Form:
		r.Hosts, r.Readers, r.underWay = o.Hosts, o.Readers, false
		if len(r.among) == 0 {
			r.Moved = o.Moved
		}
	}
}

// claimed returns a range as the host holds it.
func (r *HeldRange) claimed(last placement.Point, now clock.Instant) protocol.Range {
	return protocol.Range{First: r.First, Last: last, Hosts: r.among, Clean: now >= r.cleanAt, Moved: r.Moved}
}
