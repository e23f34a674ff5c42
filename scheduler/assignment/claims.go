package assignment

import (
	"encoding/binary"
	"slices"
	"sort"

	"github.com/cespare/xxhash/v2"

	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// claim is what a host holds of some types as its session begins.
type claim struct {
	policy string
	ranges []protocol.Range
}

// alikeClaims returns one for all claims that are the same, by each of them.
func alikeClaims(claims map[protocol.TypeName]*claim) map[*claim]*claim {
	alike, byHash := map[*claim]*claim{nil: nil}, map[uint64][]*claim{}
	for _, c := range claims {
		if _, known := alike[c]; known {
			continue
		}
		hash := c.hash()
		i := slices.IndexFunc(byHash[hash], c.same)
		if i < 0 {
			i, byHash[hash] = len(byHash[hash]), append(byHash[hash], c)
		}
		alike[c] = byHash[hash][i]
	}
	return alike
}

func (c *claim) hash() uint64 {
	h := xxhash.New()
	_, _ = h.WriteString(c.policy)
	var buf []byte
	for _, r := range c.ranges {
		buf = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(buf[:0], uint64(r.First)), uint64(r.Last))
		_, _ = h.Write(buf)
	}
	return h.Sum64()
}

func (c *claim) same(o *claim) bool {
	return c.policy == o.policy && slices.EqualFunc(c.ranges, o.ranges, func(a, b protocol.Range) bool {
		return a.First == b.First && a.Last == b.Last && a.Clean == b.Clean && a.Moved == b.Moved && slices.Equal(a.Hosts, b.Hosts)
	})
}

// cleanThroughout reports whether held ranges, which are in order, cover a range and are clean
// there. A host may hold in parts what its leader knows as one range.
func cleanThroughout(held []protocol.Range, r protocol.Range) bool {
	next := r.First
	for _, c := range held[sort.Search(len(held), func(i int) bool { return held[i].Last >= r.First }):] {
		switch {
		case c.First > next || !c.Clean:
			return false
		case c.Last >= r.Last:
			return true
		}
		next = c.Last + 1
	}
	return false
}
