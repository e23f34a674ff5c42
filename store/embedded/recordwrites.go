package embedded

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// recordWrites are the recorded calls that a decision has looked for and written.
type recordWrites struct {
	*draft
	seen *seen
	// calls are those that the decision is about, in the order of their keys.
	calls []*call
	// expiring are the IDs of the records written, by when they expire.
	expiring map[int64][]byte
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
func (t *recordWrites) lookUp(calls []call) error {
	if len(calls) == 0 {
		return nil
	}
	t.calls = make([]*call, len(calls))
	for i := range calls {
		t.calls[i] = &calls[i]
	}
	slices.SortFunc(t.calls, func(a, b *call) int { return bytes.Compare(a.id[:], b.id[:]) })
	t.seen.tidy(t.now)
	var f *finder
	for _, c := range slices.Backward(t.calls) {
		if !t.seen.has(c.id, t.now) {
			continue
		}
		if f == nil {
			var err error
			if f, err = t.find(&recordKeys); err != nil {
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
func (t *recordWrites) recordedBy(c *actor.Commit) (bool, error) {
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

// write writes the records of the commits that held. They are in the index of
// expiries only once the decision has ended: see indexExpiries.
func (t *recordWrites) write() {
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
		t.seen.add(c.id, expires)
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
func (t *recordWrites) indexExpiries() {
	for expires, ids := range t.expiring {
		t.set(expiryKey(expires, store.RecordID(ids)), ids)
	}
	if t.expiring != nil {
		t.stamp()
	}
}

// sweep follows the index of expiries. A record that says another time
// was written anew; one that says none, being damaged, goes by the index.
func (t *recordWrites) sweep(ctx context.Context, limit int) (swept int, err error) {
	it, err := t.db.NewIterWithContext(ctx, &pebble.IterOptions{
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

func (t *recordWrites) add(r store.StoredRecord) {
	key, expires := recordKey(r.ID), r.ExpiresAt.UnixMicro()
	value := binary.BigEndian.AppendUint64(make([]byte, 4, recordHeaderSize+len(r.Value)), uint64(expires))
	value = append(append(value, r.Commit[:]...), r.Value...)
	binary.BigEndian.PutUint32(value, recordSum(key, value))
	t.set(key, value)
	t.set(expiryKey(expires, r.ID), r.ID[:])
	t.wrote(key)
	t.seen.add(r.ID, expires)
}
