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
//	0  u8   layout: 1, or 2 of a mark
//	1  32   sum of the payload
//	33 u64  version
//	41 u16  length of the content type
//	43      content type, and behind it the reply, or what appendMark appends
const (
	recordLayout     = 1
	markLayout       = 2
	recordHeaderSize = 43
)

// appendMark appends what a mark has in the place of a reply: the parts of the call that it names, each
// behind its length as a u16.
func appendMark(dst []byte, m *actor.KeyedCall) []byte {
	for _, part := range partsOf(m) {
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(*part)))
		dst = append(dst, *part...)
	}
	return dst
}

func decodeMark(data []byte) (*actor.KeyedCall, error) {
	m := &actor.KeyedCall{}
	for _, part := range partsOf(m) {
		if len(data) < 2 || len(data)-2 < int(binary.BigEndian.Uint16(data)) {
			return nil, errors.New("its mark goes beyond its end")
		}
		n := 2 + int(binary.BigEndian.Uint16(data))
		*part, data = string(data[2:n]), data[n:]
	}
	if len(data) > 0 {
		return nil, fmt.Errorf("%d bytes are behind its mark", len(data))
	}
	return m, nil
}

func partsOf(c *actor.KeyedCall) [5]*string {
	return [...]*string{&c.Actor.App, &c.Actor.Type, &c.Actor.ID, &c.Method, &c.Key}
}

// AppendRecord appends to dst what [DecodeRecord] reads. The call and TTL are not in
// it.
func AppendRecord(dst []byte, r *actor.IdempotencyRecord) []byte {
	layout := byte(recordLayout)
	if r.Mark != nil {
		layout = markLayout
	}
	dst = append(dst, layout)
	dst = append(dst, r.Payload[:]...)
	dst = binary.BigEndian.AppendUint64(dst, r.Version)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(r.Reply.ContentType)))
	dst = append(dst, r.Reply.ContentType...)
	if r.Mark != nil {
		return appendMark(dst, r.Mark)
	}
	return append(dst, r.Reply.Data...)
}

// DecodeRecord reads the value of a record. Data of the reply aliases value; an
// empty reply has none.
func DecodeRecord(value []byte) (actor.IdempotencyRecord, error) {
	if len(value) < recordHeaderSize {
		return actor.IdempotencyRecord{}, fmt.Errorf("it has %d bytes, and its header alone has %d", len(value), recordHeaderSize)
	}
	if value[0] != recordLayout && value[0] != markLayout {
		return actor.IdempotencyRecord{}, fmt.Errorf("its layout is %d, and %d and %d are known", value[0], recordLayout, markLayout)
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
	if value[0] == markLayout {
		var err error
		r.Mark, err = decodeMark(body[n:])
		return r, err
	}
	if n < len(body) {
		r.Reply.Data = body[n:]
	}
	return r, nil
}

// RecordSize is what [AppendRecord] appends, in bytes.
func RecordSize(r *actor.IdempotencyRecord) int {
	n := recordHeaderSize + len(r.Reply.ContentType) + len(r.Reply.Data)
	if r.Mark != nil {
		for _, part := range partsOf(r.Mark) {
			n += 2 + len(*part)
		}
	}
	return n
}
