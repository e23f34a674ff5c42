package embedded

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
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

// LoadIdempotency implements [store.Actors].
func (s *Store) LoadIdempotency(ctx context.Context, calls []actor.KeyedCall) ([]actor.Recorded, error) {
	if err := store.ValidateCalls(calls); err != nil {
		return nil, err
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	now := s.clock.read()
	f, err := s.find(&recordKeys)
	if err != nil {
		return nil, unavailable(err)
	}
	defer f.close()
	found := make([]actor.Recorded, len(calls))
	for i, c := range calls {
		key := recordKey(store.RecordIDOf(c))
		stored, err := readRecord(f, key)
		if err != nil {
			return nil, unavailable(err)
		}
		if err := s.await(ctx, s.flights.over(key)); err != nil {
			return nil, err
		}
		if stored != nil && stored.expires > now {
			found[i] = stored.recorded(c, now)
		}
	}
	return found, nil
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

// call is one of the calls that a commit records.
type call struct {
	commit *actor.Commit
	record *actor.IdempotencyRecord
	id     store.RecordID
	key    []byte
	// until is when the record that is there expires, in microseconds since 1970; 0: no record is
	// there.
	until int64
	by    actor.CommitID // the commit that recorded it
	held  bool           // its commit held: the record is to be written
}

// callsOf returns the calls that commits record, in their order.
func callsOf(commits []actor.Commit) []call {
	n := 0
	for i := range commits {
		n += len(commits[i].Records)
	}
	if n == 0 {
		return nil
	}
	calls := make([]call, 0, n)
	keys := make([]byte, 0, n*(len(recordSpace)+len(store.RecordID{})))
	for i := range commits {
		c := &commits[i]
		for j := range c.Records {
			r := &c.Records[j]
			id, start := store.RecordIDOf(r.Call()), len(keys)
			keys = append(append(keys, recordSpace...), id[:]...)
			calls = append(calls, call{commit: c, record: r, id: id, key: keys[start:]})
		}
	}
	return calls
}

// lookUp finds out which calls are recorded already. It looks for those alone that
// may be, in the order of their keys, so that what one search has read is at hand
// for the next; backwards, since Pebble would first try what comes after the last
// key otherwise.
func (t *tx) lookUp(calls []call) error {
	if len(calls) == 0 {
		return nil
	}
	t.calls = make([]*call, len(calls))
	for i := range calls {
		t.calls[i] = &calls[i]
	}
	slices.SortFunc(t.calls, func(a, b *call) int { return bytes.Compare(a.id[:], b.id[:]) })
	t.s.seen.tidy(t.now)
	var f *finder
	for _, c := range slices.Backward(t.calls) {
		if !t.s.seen.has(c.id, t.now) {
			continue
		}
		if f == nil {
			var err error
			if f, err = t.s.find(&recordKeys); err != nil {
				return err
			}
			defer f.close()
		}
		old, err := readRecord(f, c.key)
		if err != nil {
			return err
		}
		if old != nil {
			c.until, c.by = old.expires, old.commitID
		}
	}
	return nil
}

// recordedBy reports whether a record of c is c's own.
func (t *tx) recordedBy(c *actor.Commit) (bool, error) {
	for i := range c.Records {
		old, err := readRecord(t, recordKey(store.RecordIDOf(c.Records[i].Call())))
		if err != nil {
			return false, err
		}
		if old != nil && old.damage == "" && old.commitID == c.ID {
			return true, nil
		}
	}
	return false, nil
}

// record writes the records of the commits that held. They are in the index of
// expiries only once the decision has ended: see indexExpiries.
func (t *tx) record() {
	for _, c := range t.calls {
		if !c.held {
			continue
		}
		expires := t.now + c.record.TTL.Microseconds()
		op := t.batch.SetDeferred(len(c.key), recordHeaderSize+store.RecordSize(c.record))
		copy(op.Key, c.key)
		appendStoredRecord(op.Value[:0], c.key, expires, c.commit.ID, c.record)
		t.must(op.Finish())
		t.wrote(c.key)
		t.s.seen.add(c.id, expires)
		if t.expiring == nil {
			t.expiring = make(map[int64][]byte)
		}
		t.expiring[expires] = append(t.expiring[expires], c.id[:]...)
	}
	t.calls = nil // they are the caller's
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
			old, err := readRecord(t, key)
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
