package actor

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
)

// MaxIdempotencyKeyLen is the longest idempotency key, in bytes.
const MaxIdempotencyKeyLen = 255

// CallbacksKey returns the key under which the host records the callbacks of a call with an
// idempotency key ([Reply.Callbacks]).
func CallbacksKey(key string) string { return key + ":callbacks" }

// KeyedCall names a call that was given an idempotency key: what is recorded is
// recorded under these three.
type KeyedCall struct {
	Actor  Key
	Method string
	Key    string // see [ValidateIdempotencyKey]
}

func (c KeyedCall) String() string { return fmt.Sprintf("%s.%s, key %q", c.Actor, c.Method, c.Key) }

// No method has a name that begins with one of these: sendPrefix begins the method under which a
// message is recorded that was sent with a key, and donePrefix that of [KeyedCall.Done].
const (
	sendPrefix = "send:"
	donePrefix = "done:"
)

// SendMethod returns the method of the [KeyedCall] of a message that runs a method.
func SendMethod(method string) string { return sendPrefix + method }

// Done names the record of the reply to c where the record of c itself is a mark
// ([IdempotencyRecord.Mark]).
func (c KeyedCall) Done() KeyedCall {
	c.Method = donePrefix + c.Method
	return c
}

// Validate checks the parts of c.
func (c *KeyedCall) Validate() error {
	method := strings.TrimPrefix(strings.TrimPrefix(c.Method, sendPrefix), donePrefix)
	return errors.Join(c.Actor.Validate(), ValidateMethod(method), ValidateIdempotencyKey(c.Key))
}

// Recorded is what a store has recorded of a [KeyedCall].
type Recorded struct {
	// Found is false when nothing is recorded, or no more.
	Found  bool
	Record IdempotencyRecord
	// Err is [ErrStateDamaged] of a record that is there and cannot be read.
	Err error
}

// IdempotencyRecord is a call that was given an idempotency key and what it was
// answered. Its scope is Actor, Method and Key.
type IdempotencyRecord struct {
	Actor  Key // who was called
	Method string
	Key    string
	// Payload shows whether the same key comes with the same request: see
	// [PayloadSum].
	Payload [sha256.Size]byte
	Reply   Payload
	// Version is [Reply.Version] of the recorded reply.
	Version uint64
	// TTL is for how long the record answers, counted from its commit by
	// database time, to the microsecond. As loaded from a store it is what is
	// left.
	TTL time.Duration
	// Mark, if not nil, makes the record a mark, which has no reply: a turn that the call began has made
	// this call, by itself or by turns that it called, of an actor of another host, where it is committed. The
	// commit there writes the mark, and the commit of the call itself records its reply under
	// [KeyedCall.Done].
	Mark *KeyedCall
}

// Call names the call that is recorded.
func (r *IdempotencyRecord) Call() KeyedCall {
	return KeyedCall{Actor: r.Actor, Method: r.Method, Key: r.Key}
}

// PayloadSum is the SHA-256 of a payload's content type and bytes. Their
// boundary is in it, and no content type is the same as [ContentTypeJSON].
func PayloadSum(p Payload) [sha256.Size]byte {
	contentType := p.ContentType
	if contentType == "" {
		contentType = ContentTypeJSON
	}
	var buffer [1024]byte // so that most payloads need no allocation
	b := binary.LittleEndian.AppendUint64(buffer[:0], uint64(len(contentType)))
	b = append(b, contentType...)
	return sha256.Sum256(append(b, p.Data...))
}

// ValidateIdempotencyKey checks a key against 1 to 255 bytes of printable ASCII,
// space included.
func ValidateIdempotencyKey(key string) error {
	const field = "idempotency key"
	if key == "" {
		return &ArgumentError{Field: field, Problem: "is empty; give 1 to 255 bytes of printable ASCII"}
	}
	if len(key) > MaxIdempotencyKeyLen {
		return &ArgumentError{Field: field, Problem: fmt.Sprintf("has %d bytes; at most %d are allowed", len(key), MaxIdempotencyKeyLen)}
	}
	for i := range len(key) {
		if key[i] < ' ' || key[i] > '~' {
			return &ArgumentError{Field: field, Problem: fmt.Sprintf("has the byte 0x%02x at byte %d; only printable ASCII is allowed", key[i], i)}
		}
	}
	return nil
}
