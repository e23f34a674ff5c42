package embedded

import (
	"bytes"
	"cmp"
	"context"
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
func readRecord(r pebble.Reader, key []byte) (*storedRecord, error) {
	value, err := get(r, key)
	switch {
	case pebble.IsCorruptionError(err):
		return &storedRecord{expires: 1<<63 - 1, damage: "its block of the data file is damaged: " + err.Error()}, nil
	case err != nil || value == nil:
		return nil, err
	}
	stored := decodeStoredRecord(key, value)
	return &stored, nil
}

// LoadIdempotency implements [store.Actors].
func (s *Store) LoadIdempotency(ctx context.Context, k actor.Key, method, idem string) (actor.IdempotencyRecord, bool, error) {
	if err := store.ValidateCall(k, method, idem); err != nil {
		return actor.IdempotencyRecord{}, false, err
	}
	if err := s.enter(ctx); err != nil {
		return actor.IdempotencyRecord{}, false, err
	}
	defer s.leave()
	key := recordKey(store.RecordIDOf(k, method, idem))
	now := s.clock.read()
	stored, err := readRecord(s.db, key)
	if err != nil {
		return actor.IdempotencyRecord{}, false, unavailable(err)
	}
	if err := s.await(ctx, s.flights.over(key)); err != nil {
		return actor.IdempotencyRecord{}, false, err
	}
	if stored == nil || stored.expires <= now {
		return actor.IdempotencyRecord{}, false, nil
	}
	damaged := func(detail string) error {
		return fmt.Errorf("idempotency record %q of %s.%s: %w: %s", idem, k, method, actor.ErrStateDamaged, detail)
	}
	if stored.damage != "" {
		return actor.IdempotencyRecord{}, false, damaged(stored.damage)
	}
	r, err := store.DecodeRecord(stored.value)
	if err != nil {
		return actor.IdempotencyRecord{}, false, damaged(err.Error())
	}
	r.Method, r.Key = method, idem
	r.TTL = time.Duration(stored.expires-now) * time.Microsecond
	return r, true, nil
}

// call is one of the calls that a commit records.
type call struct {
	id  store.RecordID
	key []byte
}

// calls returns what c records and where, or says why c is refused: one of its
// keys is recorded already.
func (t *tx) calls(c *actor.Commit) (calls []call, refusal, err error) {
	if len(c.Effects.Idempotency) == 0 {
		return nil, nil, nil
	}
	calls = make([]call, len(c.Effects.Idempotency))
	for i := range calls {
		r := &c.Effects.Idempotency[i]
		id := store.RecordIDOf(c.Key, r.Method, r.Key)
		calls[i] = call{id: id, key: recordKey(id)}
		expires, err := t.recordedUntil(calls[i].key)
		if err != nil {
			return nil, nil, err
		}
		if expires > t.now {
			return nil, fmt.Errorf("%s.%s, key %q: %w", c.Key, r.Method, r.Key, actor.ErrKeyExists), nil
		}
	}
	return calls, nil, nil
}

// findRecords makes an iterator that finds out cheaply that there is no record
// under a key, as there hardly ever is: it asks the filter of every data file,
// which a Get does not do where most of the data is, and opens no file twice.
var findRecords = pebble.IterOptions{
	LowerBound: []byte(recordSpace), UpperBound: prefixEnd([]byte(recordSpace)), UseL6Filters: true,
}

// recordedUntil returns when the record under key expires, 0 if there is none.
func (t *tx) recordedUntil(key []byte) (micros int64, err error) {
	if t.finder == nil {
		if t.finder, err = t.s.db.NewIter(&findRecords); err != nil {
			return 0, err
		}
	}
	if t.finder.SeekPrefixGE(key) {
		if value, err := t.finder.ValueAndErr(); err == nil {
			return decodeStoredRecord(key, value).expires, nil
		}
	} else if t.finder.Error() == nil {
		return 0, nil
	}
	// Something is damaged, and perhaps no more than a filter.
	old, err := readRecord(t.s.db, key)
	if err != nil || old == nil {
		return 0, err
	}
	return old.expires, nil
}

// recordedBy reports whether a record of c is c's own.
func (t *tx) recordedBy(c *actor.Commit) (bool, error) {
	for i := range c.Effects.Idempotency {
		r := &c.Effects.Idempotency[i]
		old, err := readRecord(t.s.db, recordKey(store.RecordIDOf(c.Key, r.Method, r.Key)))
		if err != nil {
			return false, err
		}
		if old != nil && old.damage == "" && old.commitID == c.ID {
			return true, nil
		}
	}
	return false, nil
}

// record writes the records of c. They are in the index of expiries only once
// the decision has ended: see indexExpiries.
func (t *tx) record(c *actor.Commit, calls []call) {
	for i := range calls {
		r, at := &c.Effects.Idempotency[i], &calls[i]
		expires := t.now + r.TTL.Microseconds()
		value := make([]byte, 0, recordHeaderSize+store.RecordSize(r))
		t.set(at.key, appendStoredRecord(value, at.key, expires, c.ID, r))
		t.wrote(at.key)
		if t.expiring == nil {
			t.expiring = make(map[int64][]byte)
		}
		t.expiring[expires] = append(t.expiring[expires], at.id[:]...)
	}
}

// indexExpiries writes the index of the records that the decision has written:
// one entry for all that expire together, since an entry each would cost as much
// as the records. What an earlier record in the place of one had in the index
// stays there, and says another time than the record.
func (t *tx) indexExpiries() {
	for expires, ids := range t.expiring {
		t.set(expiryKey(expires, store.RecordID(ids)), ids)
	}
	if t.expiring != nil {
		t.stamp()
	}
}

// SweepIdempotency implements [store.Actors].
func (s *Store) SweepIdempotency(ctx context.Context, limit int) (int, error) {
	if err := store.ValidateLimit(limit); err != nil {
		return 0, err
	}
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.leave()
	var swept int
	err := s.write(ctx, writeOptions{frees: true}, func(tx *tx) (err error) {
		swept, err = tx.sweepRecords(ctx, limit)
		return unavailable(err)
	})
	if err != nil {
		return 0, unavailable(err) // sweeping may always go again
	}
	return swept, nil
}

// sweepRecords follows the index of expiries. A record that says another time
// was written anew; one that says none, being damaged, goes by the index.
func (t *tx) sweepRecords(ctx context.Context, limit int) (swept int, err error) {
	it, err := t.s.db.NewIterWithContext(ctx, &pebble.IterOptions{
		LowerBound: []byte(expirySpace), UpperBound: expiryUpperBound(t.now + 1),
	})
	if err != nil {
		return 0, err
	}
	err = visitAll(ctx, it, func(entry, ids []byte) (more bool, err error) {
		micros, err := parseExpiryKey(entry)
		if err != nil || len(ids)%len(store.RecordID{}) != 0 {
			return false, fmt.Errorf("expiry %q of %d bytes: %w", entry, len(ids), cmp.Or(err, errShortKey))
		}
		for len(ids) > 0 && swept < limit {
			key := recordKey(store.RecordID(ids))
			ids = ids[len(store.RecordID{}):]
			old, err := readRecord(t.s.db, key)
			if err != nil {
				return false, err
			}
			if old != nil && (old.expires == micros || old.damage != "") {
				t.delete(key)
				t.wrote(key)
				swept++
			}
		}
		if len(ids) > 0 {
			t.set(bytes.Clone(entry), bytes.Clone(ids)) // the rest, for the next time
		} else {
			t.delete(bytes.Clone(entry))
		}
		return swept < limit, nil
	})
	return swept, err
}
