package meter

import "slices"

// countDepth chooses where the depth of calls is counted: so that every cycle of
// calls passes a place that counts, and few do. Counted are indirect calls, all
// of them or none, since any can lead to any function of a table, and functions
// of cycles of direct calls. It sets plan.depth, and returns what an indirect
// call takes and the functions in an order in which callees that are not counted
// come before their callers.
//
// A place that counts takes one, and one more for each 64 local variables and
// calls of the heaviest path of calls that begins there and passes no other, so
// that the depth bounds the stack that is used, too. Where a function counts around
// a part of its body, only the innermost of the calls open can be outside of that:
// all others wait for one within.
func countDepth(m *module, plans []*plan) (indirect uint32, order []int) {
	g := newCallGraph(m, plans)
	table := len(plans)
	g.cutCycles()
	g.components(func(c []int) {
		for _, v := range c { // one, as no cycle is left
			g.slots[v] = g.heaviest(v)
			if v != table {
				order = append(order, v)
			}
		}
	})
	const most = 1 << 20
	take := func(v int) uint32 { return uint32(min(1+g.heaviest(v)/64, most)) }
	for v, p := range plans {
		if g.cut[v] {
			p.depth = take(v)
			order = append(order, v)
		}
	}
	if g.cut[table] {
		indirect = take(table)
	}
	return indirect, order
}

// callGraph has a node for each own function and one, the last, that stands for
// every indirect call.
type callGraph struct {
	plans   []*plan
	imports uint32
	targets []int    // of indirect calls
	cut     []bool   // counted
	done    []bool   // known to be on no cycle that is left
	slots   []uint64 // local variables and calls of the heaviest path from here
}

func newCallGraph(m *module, plans []*plan) *callGraph {
	n := len(plans) + 1
	g := &callGraph{plans: plans, imports: m.importedFuncs, cut: make([]bool, n), done: make([]bool, n), slots: make([]uint64, n)}
	for f := range plans {
		if m.addressTaken[m.importedFuncs+uint32(f)] {
			g.targets = append(g.targets, f)
		}
	}
	return g
}

// callees of a node, as a count and a way to get each.
func (g *callGraph) callees(v int) int {
	if v == len(g.plans) {
		return len(g.targets)
	}
	n := len(g.plans[v].calls)
	if g.plans[v].indirect {
		n++
	}
	return n
}

func (g *callGraph) callee(v, i int) int {
	switch {
	case v == len(g.plans):
		return g.targets[i]
	case i == len(g.plans[v].calls):
		return len(g.plans)
	default:
		return int(g.plans[v].calls[i] - g.imports)
	}
}

func (g *callGraph) heaviest(v int) uint64 {
	var most uint64
	for i := range g.callees(v) {
		if to := g.callee(v, i); !g.cut[to] {
			most = max(most, g.slots[to])
		}
	}
	if v < len(g.plans) {
		most += 1 + uint64(g.plans[v].locals)
	}
	return most
}

// cutCycles cuts the node of indirect calls if it is on a cycle, and then, round
// by round, the busiest function of each component that has a cycle left. Few
// rounds are enough for compiled code; after the last, which keeps the time
// linear for modules made to be hard, everything that is left is cut.
func (g *callGraph) cutCycles() {
	const rounds = 24
	table := len(g.plans)
	for round := range rounds + 1 {
		found := false
		var cut []int
		g.components(func(c []int) {
			if len(c) == 1 && !g.callsItself(c[0]) {
				g.done[c[0]] = true
				return
			}
			found = true
			switch {
			case round == rounds:
				cut = append(cut, c...)
			case !g.cut[table] && slices.Contains(c, table):
				cut = append(cut, table)
			default:
				cut = append(cut, g.busiest(c))
			}
		})
		for _, v := range cut {
			g.cut[v] = true
		}
		if !found {
			break
		}
	}
	clear(g.done)
}

func (g *callGraph) callsItself(v int) bool {
	for i := range g.callees(v) {
		if g.callee(v, i) == v {
			return true
		}
	}
	return false
}

// busiest returns the function of a component through which most pairs of calls
// pass, or one that calls itself, which must be cut anyway.
func (g *callGraph) busiest(c []int) int {
	const in, out = 0, 1
	degrees := make(map[int]*[2]int, len(c))
	for _, v := range c {
		degrees[v] = new([2]int)
	}
	for _, v := range c {
		for i := range g.callees(v) {
			to := g.callee(v, i)
			if d := degrees[to]; d != nil {
				d[in]++
				degrees[v][out]++
			}
		}
	}
	best, score := c[0], -1
	for _, v := range c {
		if g.callsItself(v) {
			return v
		}
		if s := degrees[v][in] * degrees[v][out]; s > score {
			best, score = v, s
		}
	}
	return best
}

// components calls visit with each strongly connected component of the nodes
// that are neither cut nor done, callees before callers: Tarjan's algorithm (SIAM
// J. Comput. 1972) without recursion.
func (g *callGraph) components(visit func([]int)) {
	n := len(g.plans) + 1
	index, low := make([]int, n), make([]int, n) // index 0: not seen yet
	onStack := make([]bool, n)
	type step struct{ node, callee int }
	var stack []int
	var steps []step
	seen := 0
	open := func(v int) {
		seen++
		index[v], low[v] = seen, seen
		stack, onStack[v] = append(stack, v), true
		steps = append(steps, step{node: v})
	}
	for start := range n {
		if index[start] != 0 || g.cut[start] || g.done[start] {
			continue
		}
		for open(start); len(steps) > 0; {
			s := &steps[len(steps)-1]
			v := s.node
			if s.callee < g.callees(v) {
				to := g.callee(v, s.callee)
				s.callee++
				switch {
				case g.cut[to] || g.done[to]:
				case index[to] == 0:
					open(to)
				case onStack[to]:
					low[v] = min(low[v], index[to])
				}
				continue
			}
			steps = steps[:len(steps)-1]
			if len(steps) > 0 {
				caller := steps[len(steps)-1].node
				low[caller] = min(low[caller], low[v])
			}
			if low[v] != index[v] {
				continue
			}
			size := 1
			for stack[len(stack)-size] != v {
				size++
			}
			c := stack[len(stack)-size:]
			for _, w := range c {
				onStack[w] = false
			}
			stack = stack[:len(stack)-size]
			visit(c)
		}
	}
}
