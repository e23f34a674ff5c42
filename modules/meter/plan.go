package meter

import (
	"errors"
	"fmt"
)

// plan is what is decided of one function before it is written.
type plan struct {
	entry     uint64   // charge at the entry
	loops     []uint64 // charges at the loops, in order of their appearance
	free      bool     // its callers pay
	dynamic   bool     // has an instruction that charges by an operand
	recursive bool     // counts in depth
	depth     uint32   // what it takes of the depth
	locals    uint32   // parameters too
	calls     []uint32 // own functions called directly, each once in a row
	indirect  bool     // has an indirect call
	localsEnd int      // where the declarations of locals end in the body
	groups    uint32   // of locals declared
}

// scope is one open block while a body is walked.
type scope struct {
	op       byte // opBlock, opLoop, opIf, opElse; opEnd for the function itself
	cost     uint64
	thenCost uint64 // of the first arm, once in the second
	loop     int    // index of a loop's charge
}

// local reports whether the function keeps the fuel in a local variable: if it
// has loops, which then touch no memory for it.
func (p *plan) local() bool { return len(p.loops) > 0 }

// survey walks a body once and returns what does not depend on other functions.
// Costs of direct calls leave out what free callees cost; see addFree.
func survey(m *module, typ funcType, body []byte) (*plan, error) {
	p := &plan{locals: uint32(len(typ.params))}
	r := &reader{b: body}
	p.groups = r.count()
	total := uint64(p.locals)
	for range p.groups {
		total += uint64(r.u32())
		r.byte()
	}
	if total > maxLocals && r.err == nil {
		return nil, fmt.Errorf("has %d local variables; at most %d are allowed", total, maxLocals)
	}
	p.locals, p.localsEnd = uint32(total), r.off
	p.depth = 1 + p.locals/16

	depth := 1
	for depth > 0 && r.err == nil {
		in := next(r)
		m.checkIndex(r, in)
		if err := p.check(in, depth); err != nil {
			return nil, err
		}
		switch in.op {
		case opBlock, opLoop, opIf:
			depth++
		case opEnd:
			depth--
		case opRefFunc:
			m.addressTaken[in.index] = true
		case opCall:
			if in.index >= m.importedFuncs && (len(p.calls) == 0 || p.calls[len(p.calls)-1] != in.index) {
				p.calls = append(p.calls, in.index)
			}
		case opCallIndirect:
			p.indirect = true
		}
		if _, ok := dynamicCost(in); ok {
			p.dynamic = true
		}
	}
	if r.err != nil {
		return nil, r.err
	}
	if !r.done() {
		return nil, errors.New("goes on after its end")
	}
	return p, nil
}

// maxLocals is above what engines accept, and keeps sums from overflowing.
const maxLocals = 1 << 20

func (p *plan) check(in instruction, depth int) error {
	switch in.op {
	case opLocalGet, opLocalSet, opLocalTee:
		if in.index >= p.locals {
			return fmt.Errorf("local variable %d does not exist", in.index)
		}
	case opBr, opBrIf, opBrTable:
		if uint64(in.index) >= uint64(depth) {
			return fmt.Errorf("label %d does not exist", in.index)
		}
	}
	return nil
}

// charge computes the costs of a body that survey accepted. callCost gives what
// a call of a function costs on top of its weight.
func (p *plan) charge(body []byte, callCost func(f uint32) uint64, indirectCost uint64) {
	r := &reader{b: body, off: p.localsEnd}
	scopes := []scope{{op: opEnd}}
	p.loops = p.loops[:0]
	for len(scopes) > 0 {
		in := next(r)
		top := &scopes[len(scopes)-1]
		top.cost += weight(in.op, in.sub)
		switch in.op {
		case opBlock, opIf:
			scopes = append(scopes, scope{op: in.op})
		case opLoop:
			scopes = append(scopes, scope{op: opLoop, loop: len(p.loops)})
			p.loops = append(p.loops, 0)
		case opElse:
			top.op, top.thenCost, top.cost = opElse, top.cost, 0
		case opCall:
			top.cost += callCost(in.index)
		case opCallIndirect:
			top.cost += indirectCost
		case opEnd:
			closed := *top
			scopes = scopes[:len(scopes)-1]
			p.close(closed, scopes)
		}
	}
}

// close accounts for a scope that ended, in the one around it.
func (p *plan) close(s scope, around []scope) {
	if len(around) == 0 {
		p.entry = s.cost
		return
	}
	outer := &around[len(around)-1]
	switch s.op {
	case opLoop:
		// One unit even if empty: no round is free.
		p.loops[s.loop] = max(s.cost, 1)
	case opElse:
		outer.cost += max(s.cost, s.thenCost)
	default:
		outer.cost += s.cost
	}
}

// markRecursive finds the functions that can be part of a cycle of calls:
// Tarjan's strongly connected components (SIAM J. Comput. 1972), without
// recursion, over the direct calls and one node that stands for every indirect
// call.
func markRecursive(m *module, plans []*plan) {
	n := len(plans)
	table := n // the node of indirect calls
	var targets []int
	for f := range m.addressTaken {
		if f >= m.importedFuncs {
			targets = append(targets, int(f-m.importedFuncs))
		}
	}
	edges := func(v int) int {
		if v == table {
			return len(targets)
		}
		k := len(plans[v].calls)
		if plans[v].indirect {
			k++
		}
		return k
	}
	edge := func(v, i int) int {
		if v == table {
			return targets[i]
		}
		if i == len(plans[v].calls) {
			return table
		}
		return int(plans[v].calls[i] - m.importedFuncs)
	}

	const unseen = -1
	index, low := make([]int, n+1), make([]int, n+1)
	onStack := make([]bool, n+1)
	for v := range index {
		index[v] = unseen
	}
	type visit struct{ node, edge int }
	var stack []int
	var visits []visit
	counter := 0
	for start := range n {
		if index[start] != unseen {
			continue
		}
		visits = append(visits, visit{node: start})
		for len(visits) > 0 {
			v := &visits[len(visits)-1]
			if v.edge == 0 && index[v.node] == unseen {
				index[v.node], low[v.node] = counter, counter
				counter++
				stack = append(stack, v.node)
				onStack[v.node] = true
			}
			if v.edge < edges(v.node) {
				to := edge(v.node, v.edge)
				v.edge++
				if to == v.node && to != table {
					plans[to].recursive = true
				}
				if index[to] == unseen {
					visits = append(visits, visit{node: to})
				} else if onStack[to] {
					low[v.node] = min(low[v.node], index[to])
				}
				continue
			}
			done := v.node
			visits = visits[:len(visits)-1]
			if len(visits) > 0 {
				parent := visits[len(visits)-1].node
				low[parent] = min(low[parent], low[done])
			}
			if low[done] != index[done] {
				continue
			}
			size := 1
			for stack[len(stack)-size] != done {
				size++
			}
			for _, w := range stack[len(stack)-size:] {
				onStack[w] = false
				if size > 1 && w != table {
					plans[w].recursive = true
				}
			}
			stack = stack[:len(stack)-size]
		}
	}
}
