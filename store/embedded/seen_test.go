package embedded

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/greenroom-run/greenroom/store"
)

// someIDs returns n of the IDs of a seed.
func someIDs(seed uint64, n int) []store.RecordID {
	rng := rand.New(rand.NewPCG(seed, 0))
	ids := make([]store.RecordID, n)
	for i := range ids {
		binary.BigEndian.PutUint64(ids[i][:], rng.Uint64())
		binary.BigEndian.PutUint64(ids[i][8:], rng.Uint64())
	}
	return ids
}

// missed counts the IDs that are in none of the filters.
func (s *seen) missed(ids []store.RecordID, now int64) (n int) {
	for _, id := range ids {
		if !s.has(id, now) {
			n++
		}
	}
	return n
}

func TestSeenMissesNothing(t *testing.T) {
	const n = 700_000 // three filters
	var s seen
	ids, others := someIDs(1, n), someIDs(2, n/10)
	for i, id := range ids {
		s.add(id, int64(1000+i/1000))
	}
	s.tidy(999)
	if missed := s.missed(ids, 999); missed != 0 {
		t.Fatalf("%d of %d records are missed", missed, n)
	}
	if taken := len(others) - s.missed(others, 999); taken > len(others)/50 {
		t.Fatalf("%d of %d other IDs are taken for records", taken, len(others))
	}
	s.tidy(1000 + n/1000)
	if len(s.filters) != 0 || s.bytes != 0 || s.missed(others, 1000+n/1000) != len(others) {
		t.Fatalf("all has expired, and %d filters with %d bytes are left", len(s.filters), s.bytes)
	}
}

func TestSeenIsBounded(t *testing.T) {
	var s seen
	first, more := someIDs(1, 100), someIDs(2, 1000)
	for _, id := range first {
		s.add(id, 500)
	}
	for i := 0; s.lost == 0; i++ {
		if i > 64*maxSeenBytes {
			t.Fatal("no filter was ever given up")
		}
		s.filters[len(s.filters)-1].room = 0 // as if so many had come
		s.add(more[i%len(more)], 600)
		s.tidy(1)
		if s.bytes > maxSeenBytes {
			t.Fatalf("the filters have %d bytes, more than %d", s.bytes, maxSeenBytes)
		}
	}
	if missed := s.missed(first, 499); missed != 0 {
		t.Fatalf("%d records are missed whose filter was given up", missed)
	}
	if s.missed(someIDs(3, 100), 600) == 0 {
		t.Fatal("every key is looked for still, and what was given up has expired")
	}
}

func TestSeenJoins(t *testing.T) {
	before, since := someIDs(1, 200_000), someIDs(2, 200_000)
	s, read := seen{unread: 900}, seen{lost: 300}
	for i := range since {
		read.add(before[i], 800)
		s.add(since[i], 1000)
	}
	if others := someIDs(3, 100); s.missed(others, 1) != 0 {
		t.Fatal("keys are taken for new, and nothing was read yet")
	}
	s.join(&read)
	for _, now := range []int64{1, 299, 300, 799} {
		s.tidy(now)
		if missed := s.missed(before, now) + s.missed(since, now); missed != 0 {
			t.Fatalf("at %d %d records are missed", now, missed)
		}
	}
	if s.missed(someIDs(3, 100), 299) != 0 {
		t.Fatal("keys are taken for new that there was no room for")
	}
	if s.missed(someIDs(3, 100), 300) == 0 {
		t.Fatal("every key is looked for still")
	}
	s.tidy(1000)
	if s.bytes != 0 {
		t.Fatalf("all has expired, and %d bytes are left", s.bytes)
	}
}
