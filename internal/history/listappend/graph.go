package listappend

import "slices"

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
	key  string // of the list; empty for rt
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

// hops is the length of an edge in a path. All edges over moments in a row count as one.
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
		for _, hops := range []int{0, 1} { // what moments lead to is on this level as well
			for i := 0; i < len(level); i++ {
				n := level[i]
				if g.hops(n) != hops {
					continue
				}
				for _, e := range g.edges[n] {
					if _, reached := by[e.to]; reached || e.kind&kinds == 0 || !within[e.to] {
						continue
					}
					by[e.to] = step{n, e}
					if hops == 0 {
						level = append(level, e.to)
					} else {
						next = append(next, e.to)
					}
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
