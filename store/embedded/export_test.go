package embedded

import (
	"context"
	"errors"
	"math"

	"github.com/cockroachdb/pebble/v2"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// DamageRow changes the stored bytes of an actor's row.
func (s *Store) DamageRow(k actor.Key, change func(value []byte) []byte) error {
	return s.damage(actorKey(k), change)
}

// DamageChunk changes the stored bytes of a module's first chunk.
func (s *Store) DamageChunk(app string, d actor.Digest, change func(value []byte) []byte) error {
	return s.damage(chunkKey(app, d, 0), change)
}

// DamageRecord changes the stored bytes of a recorded call.
func (s *Store) DamageRecord(c actor.KeyedCall, change func(value []byte) []byte) error {
	return s.damage(recordKey(store.RecordIDOf(c)), change)
}

func (s *Store) damage(key []byte, change func(value []byte) []byte) error {
	value, err := get(s.db, key)
	if err != nil {
		return err
	}
	if err := s.db.Set(key, change(value), pebble.Sync); err != nil {
		return err
	}
	// As if the row had been read from a disk that nobody remembers.
	return s.write(context.Background(), writeOptions{}, func(tx *tx) error {
		s.heads.set(string(key), head{})
		return nil
	})
}

// Panic has the writer panic in a decision.
func (s *Store) Panic(ctx context.Context) error {
	return s.write(ctx, writeOptions{}, func(*tx) error { panic("planned") })
}

// Flush moves what is in memory to data files.
func (s *Store) Flush() error { return s.db.Flush() }

// Compact moves everything to the data files of the lowest level.
func (s *Store) Compact(ctx context.Context) error {
	return s.db.Compact(ctx, []byte("a"), []byte("z"), false)
}

// CountKeys counts the keys of a keyspace.
func (s *Store) CountKeys(space string) (n int, err error) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte(space), UpperBound: prefixEnd([]byte(space))})
	if err != nil {
		return 0, err
	}
	for ok := it.First(); ok; ok = it.Next() {
		n++
	}
	return n, it.Close()
}

// RowHeaderSize is where the state begins in a row.
const RowHeaderSize = rowHeaderSize

// Keyspaces that tests count.
const (
	TombSpace   = tombSpace
	ChunkSpace  = chunkSpace
	UploadSpace = uploadSpace
)

// SetLayout changes the layout's version.
func (s *Store) SetLayout(version string) error {
	return s.db.Set([]byte(formatKey), []byte(version), pebble.Sync)
}

// CutUpload makes of a stored module what a crash before the last write of its
// upload leaves.
func (s *Store) CutUpload(app string, d actor.Digest) error {
	b := s.db.NewBatch()
	if err := errors.Join(b.Set(uploadKey(app, d), nil, nil), b.Delete(moduleKey(app, d), nil)); err != nil {
		return err
	}
	return s.db.Apply(b, pebble.Sync)
}

// Blind reports whether the writer looks for every key, not having read yet which
// calls were recorded before the folder was opened.
func (s *Store) Blind(ctx context.Context) (blind bool, err error) {
	err = s.write(ctx, writeOptions{}, func(tx *tx) error {
		blind = s.seen.unread > tx.now
		return nil
	})
	return blind, err
}

// PutExpiry puts an entry into the index of expiries.
func (s *Store) PutExpiry(key string, ids []byte) error {
	return s.db.Set([]byte(expirySpace+key), ids, pebble.Sync)
}

// SetFilters has the writer search for every call, or for those alone that its filters
// do not rule out.
func (s *Store) SetFilters(on bool) {
	_ = s.write(context.Background(), writeOptions{}, func(*tx) error {
		s.seen.unread = 0
		if !on {
			s.seen.unread = math.MaxInt64
		}
		return nil
	})
}

// SetNextBucket makes next the index of the bucket that an app is given next.
func (s *Store) SetNextBucket(ctx context.Context, app string, next uint32) error {
	return s.write(ctx, writeOptions{}, func(tx *tx) error {
		l, err := readLap(s.db, app)
		if err != nil {
			return err
		}
		l.Next = next
		return tx.setRecord(lapKey(app), l)
	})
}

// UploadsWaiting returns how many uploads wait for the one that is being written.
func (s *Store) UploadsWaiting() int { return s.uploads.Waiting() }
