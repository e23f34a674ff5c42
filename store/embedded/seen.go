package embedded

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/greenroom-run/greenroom/store"
)

// seen knows which calls may be recorded, so that the writer need not look for
// those that cannot be, as almost all: a search that finds nothing costs as much
// as writing the record does. It takes a call for recorded that is not, less than
// once in a hundred times, and never the other way round. Only the writer's
// goroutine uses it.
//
// With a million calls recorded, a commit that records one takes 4.5 µs of processor
// time, and 6.9 with Pebble's filters alone (BenchmarkRecorded).
//
// It has a filter for as many records as fit, and then another one; one goes
// when all its records have expired, or when there is no room for more.
type seen struct {
	filters []*filter // in the order in which they go
	bytes   int       // of the filters
	// unread and lost are when the last record expires that is in no filter, in
	// microseconds since 1970: of those that were there when the folder was opened
	// and are not read yet, and of those that there was no room for. Until then any
	// call may be recorded.
	unread, lost int64
}

const (
	// The first filter is small, and each further one twice as large, up to a
	// bound: few to ask, and little memory for few records.
	minFilterBytes = 256 << 10
	maxFilterBytes = 8 << 20
	// maxSeenBytes is room for some 20 million records.
	maxSeenBytes = 32 << 20
)

// filter is a Bloom filter. Each member is in one line of the processor's cache.
type filter struct {
	lines []line
	room  int   // for so many more
	until int64 // when the last of its records expires
}

type line [8]uint64

const (
	lineBytes = 64
	perLine   = 40 // records: 13 bits for each
	bits      = 6  // set for a record
)

// tidy forgets what has expired, and the first filters where there are too many.
func (s *seen) tidy(now int64) {
	s.filters = slices.DeleteFunc(s.filters, func(f *filter) bool {
		if f.until > now && s.bytes <= maxSeenBytes {
			return false
		}
		s.bytes -= len(f.lines) * lineBytes
		s.lost = max(s.lost, f.until) // which is over, if it has expired
		return true
	})
}

// add notes that a call is recorded.
func (s *seen) add(id store.RecordID, expires int64) {
	if n := len(s.filters); n == 0 || s.filters[n-1].room == 0 {
		s.grow()
	}
	f := s.filters[len(s.filters)-1]
	f.room--
	f.until = max(f.until, expires)
	l, pattern := f.place(id)
	for range bits {
		l[pattern>>6&7] |= 1 << (pattern & 63)
		pattern >>= 9
	}
}

// grow adds a filter, twice as large as the last one.
func (s *seen) grow() {
	size := minFilterBytes
	if n := len(s.filters); n > 0 {
		size = min(2*lineBytes*len(s.filters[n-1].lines), maxFilterBytes)
	}
	lines := make([]line, size/lineBytes)
	s.filters = append(s.filters, &filter{lines: lines, room: perLine * len(lines)})
	s.bytes += size
}

// has reports whether a call may be recorded. What has expired may be missing.
func (s *seen) has(id store.RecordID, now int64) bool {
	if max(s.unread, s.lost) > now {
		return true
	}
	for _, f := range s.filters {
		if f.has(id) {
			return true
		}
	}
	return false
}

func (f *filter) has(id store.RecordID) bool {
	l, pattern := f.place(id)
	for range bits {
		if l[pattern>>6&7]&(1<<(pattern&63)) == 0 {
			return false
		}
		pattern >>= 9
	}
	return true
}

// place returns where an ID, which is random, is noted: a line, and the bits in it
// by nine of the pattern for each.
func (f *filter) place(id store.RecordID) (l *line, pattern uint64) {
	return &f.lines[binary.BigEndian.Uint64(id[:])%uint64(len(f.lines))], binary.BigEndian.Uint64(id[8:])
}

// join adds what was read of the records that were there when the folder was
// opened, the last to expire first; the others are lost.
func (s *seen) join(read *seen) {
	slices.Reverse(read.filters)
	s.filters = append(read.filters, s.filters...)
	s.bytes += read.bytes
	s.lost = max(s.lost, read.lost)
	s.unread = 0
}

// lastExpiry returns when the last record expires that was written before the
// folder was opened; if nobody knows, never.
func lastExpiry(db *pebble.DB) (int64, error) {
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte(expirySpace), UpperBound: prefixEnd([]byte(expirySpace))})
	if err != nil {
		return 0, err
	}
	last := int64(0)
	if it.Last() {
		if last, err = parseExpiryKey(it.Key()); err != nil || last < 0 {
			last = math.MaxInt64
		}
	}
	if err := it.Close(); err != nil { // a block of it is damaged
		last = math.MaxInt64
	}
	return last, nil
}

// load adds what the index of expiries has, from the end, and reports whether it
// could, and was not told to quit.
func (s *seen) load(it *pebble.Iterator, quit <-chan struct{}) bool {
	for ok := it.Last(); ok; ok = it.Prev() {
		select {
		case <-quit:
			return false
		default:
		}
		ids, err := it.ValueAndErr()
		if err != nil || len(ids) == 0 || len(ids)%len(store.RecordID{}) != 0 {
			return false
		}
		expires, err := parseExpiryKey(it.Key())
		if err != nil {
			return false
		}
		if s.bytes > maxSeenBytes {
			s.lost = expires
			return true
		}
		for ; len(ids) > 0; ids = ids[len(store.RecordID{}):] {
			s.add(store.RecordID(ids), expires)
		}
	}
	return true
}
