package listappend

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// kind is a set of kinds of dependencies.
type kind uint8

const (
	ww kind = 1 << iota
	wr
	rw
	rt
)

// edge is a dependency: the node that has it comes before another one.
type edge struct {
	to   int
	kind kind
	of   *list // nil of rt
	// element is the one that the later transaction appends (ww, rw) or reads (wr).
	element int64
}

// graph has a node for each transaction, and one for each moment at which a transaction was
// acknowledged: these are in a row, so that the order of real time takes no more edges than there
// are transactions. They are numbered from transactions on.
type graph struct {
	transactions int
	edges        [][]edge
}

// hops is how much longer an edge makes a path: the whole way over moments counts once.
func (g *graph) hops(from int) int {
	if from >= g.transactions {
		return 0
	}
	return 1
}

func (g *graph) add(from int, e edge) {
	if from != e.to {
		g.edges[from] = append(g.edges[from], e)
	}
}

// dependencies returns the graph of a history.
func (c *checker) dependencies() *graph {
	g := &graph{transactions: len(c.history), edges: make([][]edge, len(c.history))}
	// first returns the first append from a place on that has taken effect, to the right or the
	// left; nil if there is none.
	first := func(l *list, place, step int) *appended {
		for ; place >= 0 && place < len(l.order); place += step {
			if a := l.appends[l.order[place]]; a != nil && a.place == place && c.inOrder[a.by] {
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
			g.add(last.by, edge{next.by, ww, l, next.element})
			last = next
		}
		for _, a := range unseen[l.number] {
			if last != nil {
				g.add(last.by, edge{a.by, ww, l, a.element})
			}
		}
	}
	for _, r := range c.reads {
		if a := first(r.of, r.upTo-1, -1); a != nil {
			g.add(a.by, edge{r.by, wr, r.of, a.element})
		}
		if a := first(r.of, r.upTo, 1); a != nil {
			g.add(r.by, edge{a.by, rw, r.of, a.element})
			continue
		}
		for _, a := range unseen[r.of.number] {
			g.add(r.by, edge{a.by, rw, r.of, a.element})
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

// components returns the strongly connected components of more than one node, by Tarjan's
// algorithm without recursion.
func (g *graph) components(kinds kind) (found [][]int) {
	index, low := make([]int, len(g.edges)), make([]int, len(g.edges)) // 0: not visited
	onStack := make([]bool, len(g.edges))
	var stack []int
	type frame struct{ node, next int }
	var frames []frame
	count := 0
	visit := func(n int) {
		count++
		index[n], low[n], onStack[n] = count, count, true
		stack, frames = append(stack, n), append(frames, frame{node: n})
	}
	for root := range g.edges {
		if index[root] != 0 {
			continue
		}
		visit(root)
		for len(frames) > 0 {
			f := &frames[len(frames)-1]
			n := f.node
			if f.next < len(g.edges[n]) {
				e := g.edges[n][f.next]
				f.next++
				switch {
				case e.kind&kinds == 0:
				case index[e.to] == 0:
					visit(e.to)
				case onStack[e.to]:
					low[n] = min(low[n], index[e.to])
				}
				continue
			}
			frames = frames[:len(frames)-1]
			if len(frames) > 0 {
				caller := frames[len(frames)-1].node
				low[caller] = min(low[caller], low[n])
			}
			if low[n] != index[n] {
				continue
			}
			at := len(stack) - 1
			for stack[at] != n {
				at--
			}
			component := slices.Clone(stack[at:])
			stack = stack[:at]
			for _, m := range component {
				onStack[m] = false
			}
			if len(component) > 1 {
				found = append(found, component)
			}
		}
	}
	return found
}

// maxSearches bounds the searches for the shortest cycle of a large component.
const maxSearches = 1000

// step is an edge of a path, with the node that it leaves.
type step struct {
	from int
	edge
}

// shortestCycle returns the shortest cycle within a component, of edges of some kinds. If once is
// not 0, an edge of that kind is in the cycle exactly once; nil if there is no such cycle.
func (g *graph) shortestCycle(nodes []int, kinds, once kind) (shortest []step) {
	within := make(map[int]bool, len(nodes))
	for _, n := range nodes {
		within[n] = true
	}
	length := func(path []step) (n int) {
		for _, s := range path {
			n += g.hops(s.from)
		}
		return n
	}
	searches := 0
	for _, n := range nodes {
		for _, e := range g.edges[n] {
			first := once
			if once == 0 {
				first = kinds
			}
			if e.kind&first == 0 || e.kind&kinds == 0 || !within[e.to] {
				continue
			}
			if searches++; searches > maxSearches {
				return shortest
			}
			path := g.path(e.to, n, kinds&^once, within)
			if path == nil {
				continue
			}
			if path = append([]step{{n, e}}, path...); shortest == nil || length(path) < length(shortest) {
				shortest = path
			}
		}
	}
	return shortest
}

// path returns the shortest path from one node to another; nil if there is none.
func (g *graph) path(from, to int, kinds kind, within map[int]bool) []step {
	by := map[int]step{from: {from: -1}} // how a node is reached
	level, next := []int{from}, []int(nil)
	for len(level) > 0 {
		for i := 0; i < len(level); i++ {
			n := level[i]
			for _, e := range g.edges[n] {
				if _, reached := by[e.to]; reached || e.kind&kinds == 0 || !within[e.to] {
					continue
				}
				by[e.to] = step{n, e}
				if g.hops(n) == 0 {
					level = append(level, e.to)
				} else {
					next = append(next, e.to)
				}
			}
		}
		if _, reached := by[to]; reached {
			break
		}
		level, next = next, level[:0]
	}
	var path []step
	for n := to; ; {
		s, reached := by[n]
		switch {
		case !reached:
			return nil
		case s.from < 0:
			slices.Reverse(path)
			return path
		}
		path = append(path, s)
		n = s.from
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
			why = append(why, fmt.Sprintf("  ww: %s appends %d to %s, after what %s has appended", later, s.element, s.of.key, from))
		case wr:
			why = append(why, fmt.Sprintf("  wr: %s reads %d of %s, which %s has appended", later, s.element, s.of.key, from))
		case rw:
			why = append(why, fmt.Sprintf("  rw: %s reads %s without %d, which %s appends", from, s.of.key, s.element, later))
		case rt:
			why = append(why, fmt.Sprintf("  rt: %s ends at %d, and %s begins at %d", from, c.history[s.from].End, later, c.history[to].Begin))
		}
	}
	names = append(names, names[0])
	return strings.Join(names, " before ") + "\n" + strings.Join(slices.Concat(why, who), "\n")
}
