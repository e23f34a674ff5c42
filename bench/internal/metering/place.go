package metering

import (
	"bytes"
	"encoding/binary"
	"errors"
)

// moved returns a module in which the machine code of all functions but the first
// stands n steps of some bytes further on: checks that never fail are put before the
// first one's code. Where a loop's code stands among the lines of the processor's
// caches makes up to half of what a round takes, metered or not, and is chance.
func moved(module []byte, n int) ([]byte, error) {
	const never = "\x3f\x00\x41\x7f\x46\x04\x40\x00\x0b" // if (memory.size == -1) { unreachable }
	const codeSection = 10
	r := &cursor{b: module, off: 8}
	for r.off < len(module) && !r.bad {
		id, at := module[r.off], r.off
		r.off++
		size := r.number()
		content := r.off
		if id != codeSection {
			r.off += size
			continue
		}
		count := r.number()
		bodySize := r.number()
		body := r.off
		for groups := r.number(); groups > 0; groups-- {
			r.number()
			r.off++ // the type
		}
		if r.bad || count == 0 {
			break
		}
		added := bytes.Repeat([]byte(never), n)
		first := append(append(append([]byte{}, module[body:r.off]...), added...), module[r.off:body+bodySize]...)
		code := binary.AppendUvarint(nil, uint64(count))
		code = append(binary.AppendUvarint(code, uint64(len(first))), first...)
		code = append(code, module[body+bodySize:content+size]...)
		out := append(append([]byte{}, module[:at]...), codeSection)
		out = append(binary.AppendUvarint(out, uint64(len(code))), code...)
		return append(out, module[content+size:]...), nil
	}
	return nil, errors.New("the module has no code")
}

// cursor reads the numbers of a module that is known to be valid.
type cursor struct {
	b   []byte
	off int
	bad bool
}

func (c *cursor) number() int {
	v, n := binary.Uvarint(c.b[min(c.off, len(c.b)):])
	c.bad = c.bad || n <= 0
	c.off += max(n, 0)
	return int(v)
}
