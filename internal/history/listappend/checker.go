package listappend

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// maxAnomalies is how many are reported: the first of them are enough to understand what is
// wrong.
const maxAnomalies = 16

// Serializable returns the anomalies of a history, none if some serial order explains it. It
// panics if two transactions append the same element to the same list.
func Serializable(history []Transaction) []Anomaly { return check(history, ww|wr|rw) }

// StrictlySerializable is [Serializable] for an order that follows real time.
func StrictlySerializable(history []Transaction) []Anomaly { return check(history, ww|wr|rw|rt) }

func check(history []Transaction, kinds kind) []Anomaly {
	c := &checker{history: history, byKey: map[string]*list{}, inOrder: make([]bool, len(history)), kinds: kinds}
	c.readAppends()
	c.readOrders()
	if kinds&rt != 0 {
		c.lostAppends()
	}
	c.cycles()
	return c.found
}

// checker checks one history.
type checker struct {
	history []Transaction
	lists   []*list // in the order of their first appearance
	byKey   map[string]*list
	inOrder []bool // by transaction: it has taken effect
	reads   []read // of transactions that have taken effect
	kinds   kind   // of dependencies that count
	found   []Anomaly
}

// list is what is known of one list.
type list struct {
	key     string
	number  int
	appends map[int64]*appended
	order   []int64 // the longest read
	longest int     // the transaction of that read
	latest  int64   // when the last transaction began that has taken effect and reads the list
	last    *appended
}

// appended is one append.
type appended struct {
	by      int // the transaction
	element int64
	before  *appended // the previous one of its transaction and list; nil: there is none
	final   bool      // it is the last one of its transaction and list
	place   int       // in the order of its list; -1: no read shows it
}

// read is the first read of a list by a transaction, without what the transaction itself has
// appended before.
type read struct {
	by   int
	of   *list
	upTo int // how many elements of the list's order it shows
}

func (c *checker) fail(k Kind, format string, args ...any) {
	if len(c.found) < maxAnomalies {
		c.found = append(c.found, Anomaly{k, fmt.Sprintf(format, args...)})
	}
}

func (c *checker) list(key string) *list {
	l := c.byKey[key]
	if l == nil {
		l = &list{key: key, number: len(c.lists), appends: map[int64]*appended{}, longest: -1, latest: -1 << 63}
		c.byKey[key] = l
		c.lists = append(c.lists, l)
	}
	return l
}

// readAppends notes who appends which element.
func (c *checker) readAppends() {
	for i := range c.history {
		for _, o := range c.history[i].Ops {
			l := c.list(o.Key)
			if o.IsRead {
				continue
			}
			if other := l.appends[o.Element]; other != nil {
				panic(fmt.Sprintf("listappend: %s and %s append %d to %s", c.history[other.by].Name, c.history[i].Name, o.Element, o.Key))
			}
			a := &appended{by: i, element: o.Element, place: -1, final: true}
			if l.last != nil && l.last.by == i {
				l.last.final, a.before = false, l.last
			}
			l.last, l.appends[o.Element] = a, a
		}
	}
}

// readOrders recovers the order of each list from the reads of transactions that have taken
// effect, which follows from these orders for those of unknown outcome.
func (c *checker) readOrders() {
	var next []int
	enter := func(i int) {
		if !c.inOrder[i] {
			c.inOrder[i] = true
			next = append(next, i)
		}
	}
	for i := range c.history {
		if c.history[i].Outcome == Committed {
			enter(i)
		}
	}
	for len(next) > 0 {
		i := next[0]
		next = next[1:]
		c.readTransaction(i, enter)
	}
}

// seen is what a transaction knows of a list so far.
type seen struct {
	of   *list
	own  []int64 // appended by itself
	base []int64 // before that; nil: not read
	read bool
}

// readTransaction checks the reads of one transaction against each other, and against the order
// of their lists, which they may extend. enter is called for the transactions that it shows to
// have taken effect.
func (c *checker) readTransaction(i int, enter func(int)) {
	t := &c.history[i]
	known := make([]seen, 0, len(t.Ops))
	for _, o := range t.Ops {
		l := c.list(o.Key)
		at := slices.IndexFunc(known, func(s seen) bool { return s.of == l })
		if at < 0 {
			at = len(known)
			known = append(known, seen{of: l})
		}
		k := &known[at]
		if !o.IsRead {
			k.own = append(k.own, o.Element)
			continue
		}
		rest := len(o.List) - len(k.own)
		if rest < 0 || !slices.Equal(o.List[rest:], k.own) || k.read && !slices.Equal(o.List[:rest], k.base) {
			c.fail(Internal, "%s reads %s as %v, after operations of its own that show otherwise\n  %s", t.Name, l.key, o.List, t)
			continue
		}
		if k.read {
			c.extend(l, i, o.List, enter)
			continue
		}
		k.read, k.base = true, o.List[:rest]
		if !c.extend(l, i, o.List, enter) {
			continue
		}
		l.latest = max(l.latest, t.Begin)
		c.reads = append(c.reads, read{i, l, rest})
		if rest == 0 {
			continue
		}
		switch last := l.appends[o.List[rest-1]]; {
		case last == nil:
		case last.by == i:
			c.fail(Internal, "%s reads %d of %s before it appends it\n  %s", t.Name, last.element, l.key, t)
		case !last.final:
			c.fail(IntermediateRead, "%s reads %s up to %d, after which %s appends more\n  %s\n  %s", t.Name, l.key, last.element, c.history[last.by].Name, t, &c.history[last.by])
		}
	}
}

// extend reports whether a read by the transaction i agrees with the order of its list, which it
// extends if it is longer.
func (c *checker) extend(l *list, i int, elements []int64, enter func(int)) bool {
	common := min(len(elements), len(l.order))
	if !slices.Equal(elements[:common], l.order[:common]) {
		c.fail(IncompatibleOrders, "of %s: %v and %v\n  %s\n  %s", l.key, l.order, elements, &c.history[l.longest], &c.history[i])
		return false
	}
	if len(elements) <= len(l.order) {
		return true
	}
	for place := common; place < len(elements); place++ {
		a := l.appends[elements[place]]
		switch {
		case a == nil:
			c.fail(UnwrittenRead, "%d is in %s, and nobody has appended it\n  %s", elements[place], l.key, &c.history[i])
			continue
		case a.place >= 0:
			c.fail(DuplicateAppend, "%d is in %s twice: %v\n  %s\n  %s", a.element, l.key, elements, &c.history[a.by], &c.history[i])
			continue
		case c.history[a.by].Outcome == Aborted:
			c.fail(AbortedRead, "%s reads %d of %s, which %s has appended\n  %s\n  %s",
				c.history[i].Name, a.element, l.key, c.history[a.by].Name, &c.history[i], &c.history[a.by])
		case a.before != nil && a.before.place < 0:
			c.fail(Internal, "%s reads %s as %v, without %d before %d, which %s has appended in that order\n  %s\n  %s",
				c.history[i].Name, l.key, elements, a.before.element, a.element, c.history[a.by].Name, &c.history[i], &c.history[a.by])
		}
		enter(a.by)
		a.place = place
	}
	l.order, l.longest = elements, i
	return true
}

// lostAppends finds acknowledged appends that no read shows, though one should.
func (c *checker) lostAppends() {
	for i := range c.history {
		t := &c.history[i]
		if t.Outcome != Committed {
			continue
		}
		for _, o := range t.Ops {
			if o.IsRead {
				continue
			}
			if l := c.list(o.Key); l.appends[o.Element].place < 0 && t.End < l.latest {
				c.fail(LostAppend, "no read shows %d of %s, and the last one began at %d\n  %s", o.Element, l.key, l.latest, t)
			}
		}
	}
}

// dependencies returns the graph of a history.
func (c *checker) dependencies() *graph {
	g := &graph{transactions: len(c.history), edges: make([][]edge, len(c.history))}
	// first returns the first append from a place on, to the right or the left; nil if there is
	// none.
	first := func(l *list, place, step int) *appended {
		for ; place >= 0 && place < len(l.order); place += step {
			if a := l.appends[l.order[place]]; a != nil && a.place == place {
				return a
			}
		}
		return nil
	}
	unseen := make([][]*appended, len(c.lists))
	for i := range c.history {
		for _, o := range c.history[i].Ops {
			if l := c.list(o.Key); !o.IsRead && c.inOrder[i] && l.appends[o.Element].place < 0 {
				unseen[l.number] = append(unseen[l.number], l.appends[o.Element])
			}
		}
	}
	for _, l := range c.lists {
		last := first(l, 0, 1)
		for last != nil {
			next := first(l, last.place+1, 1)
			if next == nil {
				break
			}
			g.add(last.by, edge{next.by, ww, l.key, next.element})
			last = next
		}
		for _, a := range unseen[l.number] {
			if last != nil {
				g.add(last.by, edge{a.by, ww, l.key, a.element})
			}
		}
	}
	for _, r := range c.reads {
		if a := first(r.of, r.upTo-1, -1); a != nil {
			g.add(a.by, edge{r.by, wr, r.of.key, a.element})
		}
		if a := first(r.of, r.upTo, 1); a != nil {
			g.add(r.by, edge{a.by, rw, r.of.key, a.element})
			continue
		}
		for _, a := range unseen[r.of.number] {
			g.add(r.by, edge{a.by, rw, r.of.key, a.element})
		}
	}
	if c.kinds&rt != 0 {
		c.addRealtime(g)
	}
	return g
}

// addRealtime adds the moments, and the edges to and from them.
func (c *checker) addRealtime(g *graph) {
	var ended []int
	for i := range c.history {
		if c.history[i].Outcome == Committed {
			ended = append(ended, i)
		}
	}
	slices.SortStableFunc(ended, func(a, b int) int { return cmp.Compare(c.history[a].End, c.history[b].End) })
	moments := len(g.edges)
	g.edges = append(g.edges, make([][]edge, len(ended))...)
	for n, i := range ended {
		g.add(i, edge{to: moments + n, kind: rt})
		if n > 0 {
			g.add(moments+n-1, edge{to: moments + n, kind: rt})
		}
	}
	for i := range c.history {
		if !c.inOrder[i] {
			continue
		}
		begin := c.history[i].Begin
		n, _ := slices.BinarySearchFunc(ended, begin, func(j int, begin int64) int {
			if c.history[j].End < begin {
				return -1
			}
			return 1
		})
		if n > 0 {
			g.add(moments+n-1, edge{to: i, kind: rt})
		}
	}
}

// cycles reports one cycle of each component of the graph, first those of the fewest kinds of
// dependencies.
func (c *checker) cycles() {
	g := c.dependencies()
	reported := make([]bool, len(g.edges))
	for _, level := range []struct {
		name  Kind
		kinds kind
		once  kind // is in the cycle once
	}{
		{G0, ww, 0}, {G1c, ww | wr, 0}, {GSingle, ww | wr | rw, rw}, {G2, ww | wr | rw, 0},
		{G0, ww | rt, 0}, {G1c, ww | wr | rt, 0}, {GSingle, ww | wr | rw | rt, rw}, {G2, ww | wr | rw | rt, 0},
	} {
		kinds := level.kinds & c.kinds
		if level.kinds&rt != 0 && kinds&rt == 0 {
			continue
		}
		for _, nodes := range g.components(kinds) {
			if slices.ContainsFunc(nodes, func(n int) bool { return reported[n] }) {
				continue
			}
			path := g.shortestCycle(nodes, kinds, level.once)
			if path == nil {
				continue
			}
			for _, n := range nodes {
				reported[n] = true
			}
			if level.kinds&rt != 0 {
				c.fail(Realtime, "%s of %s", c.explain(g, path), level.name)
			} else {
				c.fail(level.name, "%s", c.explain(g, path))
			}
		}
	}
}

// explain returns a cycle as text. Ways over moments are one step each.
func (c *checker) explain(g *graph, path []step) string {
	for path[0].from >= g.transactions { // begin at a transaction
		path = append(path[1:], path[0])
	}
	name := func(i int) string { return c.history[i].Name }
	var names, why, who []string
	for at := 0; at < len(path); at++ {
		s := path[at]
		to := s.to
		for to >= g.transactions {
			at++
			to = path[at].to
		}
		from, later := name(s.from), name(to)
		names, who = append(names, from), append(who, "  "+c.history[s.from].String())
		switch s.kind {
		case ww:
			why = append(why, fmt.Sprintf("  ww: %s appends %d to %s, after what %s has appended", later, s.element, s.key, from))
		case wr:
			why = append(why, fmt.Sprintf("  wr: %s reads %d of %s, which %s has appended", later, s.element, s.key, from))
		case rw:
			why = append(why, fmt.Sprintf("  rw: %s reads %s without %d, which %s appends", from, s.key, s.element, later))
		case rt:
			why = append(why, fmt.Sprintf("  rt: %s ends at %d, and %s begins at %d", from, c.history[s.from].End, later, c.history[to].Begin))
		}
	}
	names = append(names, names[0])
	return strings.Join(names, " before ") + "\n" + strings.Join(slices.Concat(why, who), "\n")
}
