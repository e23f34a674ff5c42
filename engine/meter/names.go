package meter

// Subsections of the custom section "name" that are keyed by functions.
const (
	namesFunctions = 1
	namesLocals    = 2
	namesLabels    = 3
)

// custom returns the new content of a custom section: the names of functions
// and of what is in them move on with the functions; everything else is kept.
// A name section that cannot be read is kept as it is too: names are for people,
// and engines ignore a broken one.
func (w *rewriter) custom(content []byte) []byte {
	r := &reader{b: content}
	if r.name() != "name" {
		return content
	}
	out := appendName(make([]byte, 0, len(content)+64), "name")
	for !r.done() {
		id := r.byte()
		sub := r.bytes(r.u32())
		if r.err != nil {
			return content
		}
		switch id {
		case namesFunctions, namesLocals, namesLabels:
			var ok bool
			if sub, ok = w.shiftNames(id, sub); !ok {
				return content
			}
		}
		out = append(appendU32(append(out, id), uint32(len(sub))), sub...)
	}
	return out
}

func (w *rewriter) shiftNames(id byte, sub []byte) ([]byte, bool) {
	r := &reader{b: sub}
	n := r.count()
	var out []byte
	named := false // refill itself, at its place in the order
	added := uint32(0)
	for range n {
		f := w.shift(r.u32())
		start := r.off
		if id == namesFunctions {
			r.name()
			if f > w.refill && !named {
				named, added = true, 1
				out = appendName(appendU32(out, w.refill), ImportModule+"."+ImportRefill)
			}
		} else {
			for range r.count() {
				r.u32()
				r.name()
			}
		}
		if r.err != nil {
			return nil, false
		}
		out = append(appendU32(out, f), sub[start:r.off]...)
	}
	if r.err != nil || !r.done() {
		return nil, false
	}
	return append(appendU32(nil, n+added), out...), true
}
