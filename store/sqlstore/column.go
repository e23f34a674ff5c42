package sqlstore

import (
	"context"
	"encoding/binary"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// column is an array that writes itself as the databases take it. pgx would take a
// slice as well, but allocates for each of its elements, and a group has eleven
// columns.
type column interface {
	// appendElements appends the elements, each after its length.
	appendElements(dst []byte) []byte
	// shape returns the number of elements, their type, their size in bytes, and whether one is
	// NULL.
	shape() (n int, element uint32, bytes int, nulls bool)
}

type (
	texts  []string
	int8s  []int64
	int2s  []int16
	uuids  []uuid
	byteas [][]byte // nil: NULL
)

func (c texts) shape() (int, uint32, int, bool) {
	bytes := 0
	for _, v := range c {
		bytes += len(v)
	}
	return len(c), pgtype.TextOID, bytes, false
}

func (c texts) appendElements(dst []byte) []byte {
	for _, v := range c {
		dst = append(appendLength(dst, len(v)), v...)
	}
	return dst
}

func (c int8s) shape() (int, uint32, int, bool) { return len(c), pgtype.Int8OID, 8 * len(c), false }

func (c int8s) appendElements(dst []byte) []byte {
	for _, v := range c {
		dst = binary.BigEndian.AppendUint64(appendLength(dst, 8), uint64(v))
	}
	return dst
}

func (c int2s) shape() (int, uint32, int, bool) { return len(c), pgtype.Int2OID, 2 * len(c), false }

func (c int2s) appendElements(dst []byte) []byte {
	for _, v := range c {
		dst = binary.BigEndian.AppendUint16(appendLength(dst, 2), uint16(v))
	}
	return dst
}

func (c uuids) shape() (int, uint32, int, bool) { return len(c), pgtype.UUIDOID, 16 * len(c), false }

func (c uuids) appendElements(dst []byte) []byte {
	for i := range c {
		dst = append(appendLength(dst, 16), c[i][:]...)
	}
	return dst
}

func (c byteas) shape() (int, uint32, int, bool) {
	bytes, nulls := 0, false
	for _, v := range c {
		bytes += len(v)
		nulls = nulls || v == nil
	}
	return len(c), pgtype.ByteaOID, bytes, nulls
}

func (c byteas) appendElements(dst []byte) []byte {
	for _, v := range c {
		if v == nil {
			dst = append(dst, 0xff, 0xff, 0xff, 0xff) // the length -1
			continue
		}
		dst = append(appendLength(dst, len(v)), v...)
	}
	return dst
}

func appendLength(dst []byte, n int) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(min(n, math.MaxInt32)))
}

// leading is the first column of a statement. It makes room for all of them, which
// pgx would have grow from next to nothing, each time.
type leading struct {
	column
	total int // bytes of all columns
}

// arraySize is about what an array takes.
func arraySize(c column) int {
	n, _, bytes, _ := c.shape()
	return 20 + 4*n + bytes
}

// appendColumn appends an array of one dimension: dimensions, whether there are
// NULLs, the type, the length and the first index, and the elements.
func appendColumn(dst []byte, c column) []byte {
	if first, ok := c.(leading); ok {
		dst, c = slices.Grow(dst, first.total), first.column
	}
	n, element, _, nulls := c.shape()
	dst = slices.Grow(dst, arraySize(c))
	flags := uint32(0)
	if nulls {
		flags = 1
	}
	for _, v := range [...]uint32{1, flags, element, uint32(n), 1} {
		dst = binary.BigEndian.AppendUint32(dst, v)
	}
	return c.appendElements(dst)
}

// takeColumns teaches a new connection what columns are.
func takeColumns(_ context.Context, conn *pgx.Conn) error {
	m := conn.TypeMap()
	for _, oid := range []uint32{pgtype.TextArrayOID, pgtype.Int8ArrayOID, pgtype.Int2ArrayOID, pgtype.UUIDArrayOID, pgtype.ByteaArrayOID} {
		t, ok := m.TypeForOID(oid)
		if !ok {
			continue // then pgx's own way is left
		}
		m.RegisterType(&pgtype.Type{Name: t.Name, OID: oid, Codec: columnCodec{t.Codec}})
	}
	return nil
}

// columnCodec writes columns, and everything else as pgx does.
type columnCodec struct{ pgtype.Codec }

func (c columnCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.(column); ok && format == pgtype.BinaryFormatCode {
		return encodeColumn{}
	}
	return c.Codec.PlanEncode(m, oid, format, value)
}

type encodeColumn struct{}

// Encode implements [pgtype.EncodePlan].
func (encodeColumn) Encode(value any, buf []byte) ([]byte, error) {
	return appendColumn(buf, value.(column)), nil
}

// notNull returns b, empty if it is nil: nil would be NULL.
func notNull(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
