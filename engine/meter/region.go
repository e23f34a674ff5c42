package meter

import "sort"

// region is the part of a body in which a function calls others. It begins and
// ends in the same block, which is in no loop, and no branch leaves it: what goes
// in at its beginning comes out at its end or not at all.
type region struct{ from, to int }

// maxOutlined bounds what an outline may take, which is tens of times its
// body. No compiler makes functions of this size.
const maxOutlined = 1 << 20

// callRegion returns the smallest region that holds every instruction of the body
// for which calls is true; ok is false where only the whole body would do.
func callRegion(body []byte, localsEnd int, calls func(instruction) bool) (_ region, ok bool) {
	o := outlineOf(body, localsEnd, calls)
	if len(o.calls) == 0 {
		return region{}, false
	}
	within, r := o.common()
	lo := sort.Search(len(o.branches), func(i int) bool { return o.branches[i].at >= r.from })
	hi := lo
	outermost := len(o.blocks) // that a branch from within the region goes to
	for {
		for ; lo > 0 && o.branches[lo-1].at >= r.from; lo-- {
			outermost = min(outermost, o.branches[lo-1].depth)
		}
		for ; hi < len(o.branches) && o.branches[hi].at < r.to; hi++ {
			outermost = min(outermost, o.branches[hi].depth)
		}
		b := o.blocks[within]
		if b.loops == 0 && outermost > b.depth {
			return r, true
		}
		if within == 0 {
			return region{}, false
		}
		within, r = b.parent, region{b.start, b.end}
	}
}

// outline is what callRegion has to know of a body.
type outline struct {
	blocks   []block // the function itself first
	branches []branch
	calls    []call // the first and the last
}

// block is a block of a body; each arm of an if is one.
type block struct {
	parent     int
	depth      int
	loops      int // this and those around it
	start, end int
	first      int // of a second arm, the first one
}

// branch goes to the end or, of a loop, the beginning of the block of a depth.
type branch struct{ at, depth int }

type call struct {
	region
	block int
}

// outlineOf walks a body that survey accepted.
func outlineOf(body []byte, localsEnd int, calls func(instruction) bool) *outline {
	o := &outline{blocks: []block{{}}}
	r := &reader{b: body, off: localsEnd}
	for top := 0; top >= 0; {
		in := next(r)
		switch b := &o.blocks[top]; in.op {
		case opBlock, opLoop, opIf:
			inner := block{parent: top, depth: b.depth + 1, loops: b.loops, start: in.start}
			if in.op == opLoop {
				inner.loops++
			}
			o.blocks, top = append(o.blocks, inner), len(o.blocks)
		case opElse:
			second := *b
			second.first = top
			o.blocks, top = append(o.blocks, second), len(o.blocks)
		case opEnd:
			b.end = in.end
			if b.first > 0 {
				o.blocks[b.first].end = in.end
			}
			if top = b.parent; b.depth == 0 {
				top = -1
			}
		case opBr, opBrIf, opBrTable:
			o.branches = append(o.branches, branch{in.start, b.depth - int(in.index)})
		case opReturn:
			o.branches = append(o.branches, branch{in.start, 0})
		}
		if calls(in) {
			o.calls = append(o.calls[:min(len(o.calls), 1)], call{region{in.start, in.end}, top})
		}
	}
	return o
}

// common returns the innermost block that holds all calls, and what of it does.
func (o *outline) common() (within int, r region) {
	first, last := o.calls[0], o.calls[len(o.calls)-1]
	a, b := first.block, last.block
	r = region{first.from, last.to}
	for a != b {
		from, to := o.blocks[a], o.blocks[b]
		if from.depth >= to.depth {
			r.from, a = from.start, from.parent
		}
		if to.depth >= from.depth {
			r.to, b = to.end, to.parent
		}
	}
	return a, r
}
