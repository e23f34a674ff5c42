package embedded

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// A recorded call is a header and store.AppendRecord's bytes, integers
// big-endian:
//
//	 0  u32  CRC-32C of the key and of everything after this
//	 4  i64  expires at, microseconds since 1970
//	12  16   commit ID
//	28       the record
const recordHeaderSize = 28

// storedRecord is a recorded call as it was found.
type storedRecord struct {
	expires  int64 // microseconds since 1970; for ever, if damaged
	commitID actor.CommitID
	value    []byte // aliases the bytes that were decoded
	damage   string
}

func appendStoredRecord(dst, key []byte, expires int64, id actor.CommitID, r *actor.IdempotencyRecord) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint64(dst, uint64(expires))
	dst = append(dst, id[:]...)
	dst = store.AppendRecord(dst, r)
	binary.BigEndian.PutUint32(dst[start:], recordSum(key, dst[start:]))
	return dst
}

func recordSum(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value[4:])
}

// decodeStoredRecord never fails: what cannot be read is described by damage,
// and is in the way until the index of expiries has it removed.
func decodeStoredRecord(key, value []byte) storedRecord {
	const forEver = 1<<63 - 1
	switch {
	case len(value) < recordHeaderSize:
		return storedRecord{expires: forEver, damage: fmt.Sprintf("it has %d bytes, and its header alone has %d", len(value), recordHeaderSize)}
	case binary.BigEndian.Uint32(value) != recordSum(key, value):
		return storedRecord{expires: forEver, damage: "its checksum is wrong"}
	}
	return storedRecord{
		expires:  int64(binary.BigEndian.Uint64(value[4:])),
		commitID: actor.CommitID(value[12:recordHeaderSize]),
		value:    value[recordHeaderSize:],
	}
}

// readRecord reads the record under key, nil if there is none. It owns its bytes.
func readRecord(r reader, key []byte) (*storedRecord, error) {
	value, err := r.get(key)
	switch {
	case pebble.IsCorruptionError(err):
		return &storedRecord{expires: 1<<63 - 1, damage: "its block of the data file is damaged: " + err.Error()}, nil
	case err != nil || value == nil:
		return nil, err
	}
	stored := decodeStoredRecord(key, value)
	return &stored, nil
}

// recorded is what a record that has not expired says of its call.
func (r *storedRecord) recorded(c actor.KeyedCall, now int64) actor.Recorded {
	damaged := func(detail string) actor.Recorded {
		return actor.Recorded{Err: fmt.Errorf("idempotency record of %s: %w: %s", c, actor.ErrStateDamaged, detail)}
	}
	if r.damage != "" {
		return damaged(r.damage)
	}
	record, err := store.DecodeRecord(r.value)
	if err != nil {
		return damaged(err.Error())
	}
	record.Actor, record.Method, record.Key = c.Actor, c.Method, c.Key
	record.TTL = time.Duration(r.expires-now) * time.Microsecond
	return actor.Recorded{Found: true, Record: record}
}
