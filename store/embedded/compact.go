package embedded

import (
	"encoding/binary"
	"errors"
	"math"
)

// compact is what is being written.
type compact []byte

func (e *compact) uint(list ...uint64) {
	for _, v := range list {
		*e = binary.AppendUvarint(*e, v)
	}
}

func (e *compact) int(list ...int64) {
	for _, v := range list {
		*e = binary.AppendVarint(*e, v)
	}
}

func (e *compact) bool(v bool) {
	n := uint64(0)
	if v {
		n = 1
	}
	e.uint(n)
}

func (e *compact) text(list ...string) {
	for _, s := range list {
		e.uint(uint64(len(s)))
		*e = append(*e, s...)
	}
}

// compactReader reads what compact wrote. After an error it reads zeros.
type compactReader struct {
	data []byte
	at   int
	err  error
}

func (d *compactReader) uint() uint64 {
	v, n := binary.Uvarint(d.data[d.at:])
	if n <= 0 {
		d.fail()
		return 0
	}
	d.at += n
	return v
}

func (d *compactReader) int() int64 {
	v, n := binary.Varint(d.data[d.at:])
	if n <= 0 {
		d.fail()
		return 0
	}
	d.at += n
	return v
}

func (d *compactReader) below(most uint64) uint64 {
	v := d.uint()
	if v > most {
		d.fail()
		return 0
	}
	return v
}

func (d *compactReader) uint32() uint32 { return uint32(d.below(math.MaxUint32)) }

func (d *compactReader) uint8() uint8 { return uint8(d.below(math.MaxUint8)) }

// string returns a copy: who keeps it, as an actor keeps its ID, keeps nothing else.
func (d *compactReader) string() string { return string(d.bytes()) }

// bytes returns a part of the data.
func (d *compactReader) bytes() []byte {
	n := d.below(uint64(len(d.data)))
	if n > uint64(len(d.data)-d.at) {
		d.fail()
		return nil
	}
	from := d.at
	d.at += int(n) //nolint:gosec // a length
	return d.data[from:d.at]
}

func (d *compactReader) fail() {
	d.err = errCompact
	d.at = len(d.data)
}

var errCompact = errors.New("its fields cannot be read")
