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
	passed    bool     // its callers pay for what is outside its loops
	calling   bool     // calls what is charged outside its loops
	dynamic   bool     // has an instruction that charges by an operand
	depth     uint32   // what it takes of the depth; 0 where it is not counted
	deep      region   // in which it takes that; none: the whole body
	local     bool     // keeps the fuel in a local variable; see chooseLocal
	locals    uint32   // parameters too
	calls     []uint32 // own functions called directly, each once in a row
	indirect  bool     // has an indirect call
	imported  bool     // calls an imported function
	loopFirst bool     // every execution reaches the first loop at once
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

// survey walks a body once and returns what does not depend on other functions.
// Costs of direct calls leave out what free callees cost; see addFree.
func survey(m *module, typ funcType, body []byte) (*plan, error) {
	p := &plan{locals: uint32(len(typ.params))}
	r := &reader{b: body}
	p.groups = r.count()
	total := uint64(p.locals)
	for range p.groups {
		total += uint64(r.u32())
		r.valueType()
	}
	if total > maxLocals && r.err == nil {
		return nil, fmt.Errorf("has %d local variables; at most %d are allowed", total, maxLocals)
	}
	p.locals, p.localsEnd = uint32(total), r.off

	depth, straight := 1, true
	for depth > 0 && r.err == nil {
		in := next(r)
		m.checkIndex(r, in)
		if err := p.check(in, depth); err != nil {
			return nil, err
		}
		switch in.op {
		case opLoop:
			depth++
			p.loopFirst = p.loopFirst || straight
		case opBlock, opIf:
			depth++
		case opEnd:
			depth--
		case opRefFunc:
			m.addressTaken[in.index] = true
		case opCall:
			p.imported = p.imported || in.index < m.importedFuncs
			if in.index >= m.importedFuncs && (len(p.calls) == 0 || p.calls[len(p.calls)-1] != in.index) {
				p.calls = append(p.calls, in.index)
			}
		case opCallIndirect:
			p.indirect = true
		}
		if _, ok := dynamicCost(in); ok {
			p.dynamic = true
		}
		m.usesCopy = m.usesCopy || in.op == opMisc && in.sub == miscMemoryCopy
		m.usesFill = m.usesFill || in.op == opMisc && in.sub == miscMemoryFill
		if in.op == opMisc && (in.sub == miscMemoryInit || in.sub == miscDataDrop) {
			m.namesData = true
		}
		straight = straight && !branches(in)
	}
	if r.err != nil {
		return nil, r.err
	}
	if !r.done() {
		return nil, errors.New("goes on after its end")
	}
	return p, nil
}

// branches reports whether what follows in may not be reached, or only after
// something that takes long.
func branches(in instruction) bool {
	_, dynamic := dynamicCost(in)
	return dynamic || in.op >= opIf && in.op <= opElse || in.op >= opBr && in.op <= opCallIndirect || in.op == opUnreachable
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

// prices gives what a call costs on top of its own weight, and whether it
// looks at the fuel.
type prices struct {
	call     func(f uint32) (cost uint64, charged bool)
	indirect uint64
}

// charge computes the costs of a body that survey accepted.
func (p *plan) charge(body []byte, of prices) {
	r := &reader{b: body, off: p.localsEnd}
	scopes := []scope{{op: opEnd}}
	p.loops, p.calling = p.loops[:0], false
	var mode modes
	if !p.loopFirst {
		mode.localCost = 2 // read at the entry, written at the end
	}
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
			mode.loop()
		case opElse:
			top.op, top.thenCost, top.cost = opElse, top.cost, 0
		case opCall:
			cost, charged := of.call(in.index)
			top.cost += cost
			if charged {
				mode.call()
				p.calling = p.calling || mode.loops == 0
			}
		case opCallIndirect:
			top.cost += of.indirect
			mode.call()
			p.calling = p.calling || mode.loops == 0
		case opEnd:
			closed := *top
			scopes = scopes[:len(scopes)-1]
			if closed.op == opLoop {
				mode.loops--
			}
			p.close(closed, scopes)
		}
	}
	p.local = len(p.loops) > 0 && mode.localCost <= mode.globalCost
	if p.loopFirst && p.entry <= max(p.loops[0]/4, 8) {
		// The few instructions before the loop count in each of its rounds.
		p.loops[0] += p.entry
		p.entry = 0
	}
	if p.passed {
		p.entry = 0
	}
}

// modes estimates what it costs to keep the fuel in a local variable, written
// back before each call that may look at it and read after, and what it costs to
// keep it in the global. Each loop is taken to run eight times. Where both
// come out alike, a loop with a call in it is cheaper with the global: recursion in
// a loop is what compilers make of two calls of itself. Not where the loop begins
// the function: that is all of its loops in one, as Go compiles them, and most of
// its calls are rare.
type modes struct {
	loops                 int // open ones
	localCost, globalCost uint64
}

func (m *modes) times() uint64 { return 1 << (3 * min(m.loops, 12)) }

func (m *modes) loop() {
	m.loops++
	m.globalCost += 2 * m.times()
}

func (m *modes) call() { m.localCost += 2 * m.times() }

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

// wrapped functions do something at their end, and so run inside a block.
func (p *plan) wrapped() bool { return p.deepAll() || p.local }

// deepAll reports whether the depth is counted around the whole body.
func (p *plan) deepAll() bool { return p.depth > 0 && p.deep == region{} }
