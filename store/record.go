package store

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/greenroom-run/greenroom/actor"
)

// A RecordID stands for an actor, a method and an idempotency key, for drivers:
// the first half of a SHA-256 of them. It is short, and its order says nothing,
// so that records of one actor or of one moment do not make one hot range.
type RecordID [16]byte

// FenceID is the commit ID of the tombstone that settling puts in the place of
// an insert, for drivers: whoever settles the same commit again recognizes it.
func FenceID(c actor.CommitID) actor.CommitID {
	sum := sha256.Sum256(append([]byte("fence "), c[:]...))
	return actor.CommitID(sum[:len(actor.CommitID{})])
}

// RecordIDOf returns the ID of the record of a call. The boundaries of the five
// parts are in it.
func RecordIDOf(c actor.KeyedCall) RecordID {
	var buffer [1024]byte // fits whatever is valid
	b := buffer[:0]
	for _, part := range [...]string{c.Actor.App, c.Actor.Type, c.Actor.ID, c.Method, c.Key} {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(part)))
		b = append(b, part...)
	}
	sum := sha256.Sum256(b)
	return RecordID(sum[:len(RecordID{})])
}

// A record's value, for drivers, integers big-endian:
//
//	0  u8   layout, 1
//	1  32   sum of the payload
//	33 u64  version
//	41 u16  length of the content type
//	43      content type, and behind it the reply
const (
	recordLayout     = 1
	recordHeaderSize = 43
)

// AppendRecord appends to dst what [DecodeRecord] reads. The call and TTL are not in
// it.
func AppendRecord(dst []byte, r *actor.IdempotencyRecord) []byte {
	dst = append(dst, recordLayout)
	dst = append(dst, r.Payload[:]...)
	dst = binary.BigEndian.AppendUint64(dst, r.Version)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(r.Reply.ContentType)))
	dst = append(dst, r.Reply.ContentType...)
	return append(dst, r.Reply.Data...)
}

// DecodeRecord reads the value of a record. Data of the reply aliases value; an
// empty reply has none.
func DecodeRecord(value []byte) (actor.IdempotencyRecord, error) {
	if len(value) < recordHeaderSize {
		return actor.IdempotencyRecord{}, fmt.Errorf("it has %d bytes, and its header alone has %d", len(value), recordHeaderSize)
	}
	if value[0] != recordLayout {
		return actor.IdempotencyRecord{}, fmt.Errorf("its layout is %d, and %d is known", value[0], recordLayout)
	}
	body := value[recordHeaderSize:]
	n := int(binary.BigEndian.Uint16(value[41:]))
	if n > len(body) {
		return actor.IdempotencyRecord{}, errors.New("its content type goes beyond its end")
	}
	r := actor.IdempotencyRecord{
		Payload: [sha256.Size]byte(value[1:]),
		Version: binary.BigEndian.Uint64(value[33:]),
		Reply:   actor.Payload{ContentType: string(body[:n])},
	}
	if n < len(body) {
		r.Reply.Data = body[n:]
	}
	return r, nil
}

// RecordSize is what [AppendRecord] appends, in bytes.
func RecordSize(r *actor.IdempotencyRecord) int {
	return recordHeaderSize + len(r.Reply.ContentType) + len(r.Reply.Data)
}
