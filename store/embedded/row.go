package embedded

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// A row is a header of fixed size and the state behind it, integers big-endian:
//
//	 0  u8   layout, 1
//	 1  u32  CRC-32C of the key and of the header from byte 5 on
//	 5  u64  version
//	13  16   commit ID
//	29  u64  life
//	37  u64  generation
//	45  i64  updated at, microseconds since 1970
//	53  u32  state schema
//	57  u8   1: tombstone
//	58  u8   state format
//	59  u32  state length
//	63  u32  CRC-32C of the state
//	67       state
//
// Layout 2 is that of a spawned actor, of one that has a method set, and of one that has passed
// away before. Byte 57 has two bits, 1: tombstone, 2: spawned; and before the state, under the
// checksum of the header:
//
//	67  i64  when the life began, microseconds since 1970; 0: it is the first
//	75  u8   length of the method set
//	76       method set
//
// The two checksums keep a damaged state from taking the version with it.
const (
	rowLayout     = 1
	lifeLayout    = 2
	rowHeaderSize = 67

	tombstoneBit, spawnedBit = 1, 2
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendRow appends the encoding of row, stored under key, to dst.
func appendRow(dst, key []byte, row *actor.Row) []byte {
	start := len(dst)
	layout := byte(rowLayout)
	if hasLife(row) {
		layout = lifeLayout
	}
	dst = append(dst, layout, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint64(dst, row.Version)
	dst = append(dst, row.CommitID[:]...)
	dst = binary.BigEndian.AppendUint64(dst, row.Life)
	dst = binary.BigEndian.AppendUint64(dst, row.Generation)
	dst = binary.BigEndian.AppendUint64(dst, uint64(row.UpdatedAt.UnixMicro()))
	dst = binary.BigEndian.AppendUint32(dst, row.StateSchema)
	var bits byte
	if row.Deleted {
		bits |= tombstoneBit
	}
	if row.Spawned {
		bits |= spawnedBit
	}
	dst = append(dst, bits, byte(row.State.Format))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(row.State.Data)))
	dst = binary.BigEndian.AppendUint32(dst, crc32.Checksum(row.State.Data, castagnoli))
	if layout == lifeLayout {
		born := int64(0)
		if !row.Born.IsZero() {
			born = row.Born.UnixMicro()
		}
		dst = binary.BigEndian.AppendUint64(dst, uint64(born))
		dst = append(append(dst, byte(len(row.MethodSet))), row.MethodSet...)
	}
	header := dst[start:]
	binary.BigEndian.PutUint32(header[1:], headerSum(key, header))
	return append(dst, row.State.Data...)
}

// rowSize returns the length of the encoding of row.
func rowSize(row *actor.Row) int {
	size := rowHeaderSize + len(row.State.Data)
	if hasLife(row) {
		size += 8 + 1 + len(row.MethodSet)
	}
	return size
}

// hasLife reports whether row needs the layout 2.
func hasLife(row *actor.Row) bool { return row.Spawned || row.MethodSet != "" || !row.Born.IsZero() }

func headerSum(key, header []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, header[5:])
}

// storedRow is a row as it was found.
type storedRow struct {
	// row has no state if damage is not empty, and nothing but Version if the
	// header is lost. Its state aliases the bytes that were decoded. Version is
	// the fence in any case, 0 for no row and for one that cannot be addressed.
	row        actor.Row
	damage     string
	headerLost bool
	known      *head // what was remembered of the row, if it was not read
}

// decodeRow decodes value, found under key. It never fails: what cannot be read
// is described by damage, and still fences.
func decodeRow(key, value []byte) storedRow {
	broken := func(format string, args ...any) storedRow {
		return storedRow{row: actor.Row{Version: damagedVersion(value)}, damage: fmt.Sprintf(format, args...), headerLost: true}
	}
	if len(value) < rowHeaderSize {
		return broken("it has %d bytes, and its header alone has %d", len(value), rowHeaderSize)
	}
	size := rowHeaderSize
	switch value[0] {
	case rowLayout:
	case lifeLayout:
		if size += 8 + 1; len(value) < size || len(value) < size+int(value[size-1]) {
			return broken("it has %d bytes, and its method set goes beyond its end", len(value))
		}
		size += int(value[size-1])
	default:
		return broken("its layout is %d, and %d and %d are known", value[0], rowLayout, lifeLayout)
	}
	h := value[:size]
	if sum := binary.BigEndian.Uint32(h[1:]); sum != headerSum(key, h) {
		return broken("the checksum of its header is wrong")
	}
	r := actor.Row{
		Version:     binary.BigEndian.Uint64(h[5:]),
		CommitID:    actor.CommitID(h[13:29]),
		Life:        binary.BigEndian.Uint64(h[29:]),
		Generation:  binary.BigEndian.Uint64(h[37:]),
		UpdatedAt:   time.UnixMicro(int64(binary.BigEndian.Uint64(h[45:]))).UTC(),
		StateSchema: binary.BigEndian.Uint32(h[53:]),
		Deleted:     h[57]&tombstoneBit != 0,
	}
	if size > rowHeaderSize {
		r.Spawned, r.MethodSet = h[57]&spawnedBit != 0, string(h[rowHeaderSize+8+1:])
		if born := int64(binary.BigEndian.Uint64(h[rowHeaderSize:])); born != 0 {
			r.Born = time.UnixMicro(born).UTC()
		}
	}
	state := value[size:]
	if n := binary.BigEndian.Uint32(h[59:]); int64(n) != int64(len(state)) {
		return storedRow{row: r, damage: fmt.Sprintf("its state has %d bytes, and %d were written", len(state), n)}
	}
	if binary.BigEndian.Uint32(h[63:]) != crc32.Checksum(state, castagnoli) {
		return storedRow{row: r, damage: "the checksum of its state is wrong"}
	}
	r.State = actor.EncodedState{Format: actor.StateFormat(h[58]), Data: state}
	return storedRow{row: r}
}

// readRow reads the row under key; the zero storedRow stands for none. Its state
// is a copy.
func readRow(r reader, key []byte) (storedRow, error) {
	value, err := r.get(key)
	switch {
	case pebble.IsCorruptionError(err):
		return storedRow{headerLost: true, damage: "its block of the data file is damaged: " + err.Error()}, nil
	case err != nil || value == nil:
		return storedRow{}, err
	}
	return decodeRow(key, value), nil
}

// damagedVersion stands in for the version of a row whose header is damaged: it
// names exactly these bytes, is in the range of actor.FirstVersion, and so meets
// the version that a stale owner remembers only by a chance of 2^-62.
func damagedVersion(value []byte) uint64 {
	h := fnv.New64a()
	h.Write(value)
	return h.Sum64()>>2 | 1
}

func (s storedRow) damaged(k actor.Key) store.DamagedRow {
	return store.DamagedRow{Key: k, Version: s.row.Version, Detail: s.damage}
}
