package meter

import "slices"

// Data segments that lie close to each other become one. The linker of Go gives a
// module thousands of small segments, and engines spend more on evaluating where each
// of them goes than on copying them.
//
// Merged are active segments at constant offsets, in a memory that the module
// defines and which is therefore zero where no segment writes, so that a gap may
// be filled with zeros; in modules whose code does not name segments, so that
// their numbers do not matter. What later segments write over earlier ones, they
// write still.

const (
	// gapLimit is the most zeros that fill the gap between two segments: about
	// what is copied in the time that a segment of its own takes.
	gapLimit = 256
	// rangeLimit is how many ranges are remembered before they become one.
	rangeLimit = 64
)

// run is a segment that grows while others merge into it.
type run struct {
	start uint64
	bytes []byte
}

func (s *run) end() uint64 { return s.start + uint64(len(s.bytes)) }

// merger writes a data section.
type merger struct {
	out   []byte
	count uint32
	gaps  int      // zeros that may still be added; no section more than doubles
	open  *run     // not written yet
	done  []extent // cover what is written, where no gap may be
}

// extent is a range of memory, without its end.
type extent struct{ start, end uint64 }

// mergeData returns the content of the data section, and its number of segments.
func (m *module) mergeData(content []byte) ([]byte, uint32) {
	r := &reader{b: content}
	n := r.count()
	if !m.ownMemory || m.namesData || n < 2 {
		return content, n
	}
	w := &merger{out: make([]byte, 0, len(content)), gaps: len(content)}
	for range n {
		start := r.off
		flags, memory := r.u32(), uint32(0)
		if flags == 2 {
			memory = r.u32()
		}
		offset, constant := uint64(0), false
		if flags != 1 {
			offset, constant = m.constantOffset(r)
		}
		bytes := r.bytes(r.u32())
		switch {
		case constant && memory == 0 && offset+uint64(len(bytes)) <= 1<<32:
			w.add(offset, bytes)
		default:
			w.flush()
			w.out = append(w.out, content[start:r.off]...)
			w.count++
			w.written(extent{0, 1 << 32}) // it may write anywhere
		}
	}
	w.flush()
	return append(appendU32(make([]byte, 0, len(w.out)+5), w.count), w.out...), w.count
}

// constantOffset reads an offset, and reports whether it is a number.
func (m *module) constantOffset(r *reader) (uint64, bool) {
	in := next(r)
	number := &reader{b: r.b[:in.end], off: min(in.start+1, in.end)}
	if in.op == opI32Const {
		if end := next(r); end.op == opEnd {
			return uint64(uint32(number.s33())), true
		}
	}
	r.off = in.start
	m.readConst(r)
	return 0, false
}

func (w *merger) add(offset uint64, bytes []byte) {
	if s := w.open; s == nil || offset < s.start || offset > s.end() && !w.mayFill(extent{s.end(), offset}) {
		w.flush()
		w.open = &run{start: offset}
	}
	s := w.open
	if gap := int64(offset) - int64(s.end()); gap > 0 {
		w.gaps -= int(gap)
		s.bytes = append(s.bytes, make([]byte, gap)...)
	}
	over := copy(s.bytes[offset-s.start:], bytes)
	s.bytes = append(s.bytes, bytes[over:]...)
}

func (w *merger) mayFill(gap extent) bool {
	size := gap.end - gap.start
	return size <= gapLimit && int(size) <= w.gaps && !slices.ContainsFunc(w.done, func(e extent) bool {
		return gap.start < e.end && e.start < gap.end
	})
}

// written remembers a range, or a greater one.
func (w *merger) written(e extent) {
	if w.done = append(w.done, e); len(w.done) <= rangeLimit {
		return
	}
	for _, o := range w.done {
		e.start, e.end = min(e.start, o.start), max(e.end, o.end)
	}
	w.done = append(w.done[:0], e)
}

func (w *merger) flush() {
	s := w.open
	if s == nil {
		return
	}
	w.out = appendS64(append(w.out, 0, opI32Const), int64(int32(uint32(s.start))))
	w.out = append(appendU32(append(w.out, opEnd), uint32(len(s.bytes))), s.bytes...)
	w.count++
	w.written(extent{s.start, s.end()})
	w.open = nil
}
