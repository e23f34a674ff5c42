package embedded

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// rowWrites are the rows of actors that a decision has checked and written.
type rowWrites struct {
	*draft
	known   *heads
	written []writtenHead // for known, once they are applied
	// checked are the rows of the commit that is being decided, and keys their keys.
	checked []checkedRow
	keys    []byte
}

// writtenHead is what a row has become. known is what was remembered of it; if
// that is nil, key says which one it is.
type writtenHead struct {
	known *head
	key   string
	head  head
}

// checkedRow is a row whose fence held.
type checkedRow struct {
	key []byte
	old storedRow
}

// check adds the row that was read to t.checked, with its state if it is needed, or
// says why the commit is refused. mustBeSound: it is not to be deleted or replaced.
func (t *rowWrites) check(read actor.RowFence, mustBeSound, withState bool) (refusal, err error) {
	start := len(t.keys)
	t.keys = appendActorKey(t.keys, read.Key)
	key := t.keys[start:len(t.keys):len(t.keys)]
	old, err := t.fence(key, withState)
	if err != nil {
		return nil, err
	}
	fits := old.row.Version == read.Version
	switch {
	case old.damage != "" && fits && !mustBeSound && old.row.Version != 0:
		// Whoever names the version means to delete or replace what is damaged.
	case old.damage != "" && (fits || old.headerLost):
		return &store.DamagedError{Rows: []store.DamagedRow{old.damaged(read.Key)}}, nil
	case !fits:
		return fmt.Errorf("%s has version %d, and version %d was read: %w", read.Key, old.row.Version, read.Version, actor.ErrStale), nil
	}
	t.checked = append(t.checked, checkedRow{key, old})
	return nil, nil
}

// change writes a row as a commit leaves it.
func (t *rowWrites) change(id actor.CommitID, r *actor.RowWrite, found *checkedRow) {
	old := &found.old
	row := actor.Row{
		Version:     r.NewVersion,
		CommitID:    id,
		Life:        old.row.Life,
		Deleted:     r.Delete,
		Spawned:     old.row.Spawned || r.Spawned,
		Born:        old.row.Born,
		Generation:  r.Generation,
		StateSchema: r.StateSchema,
	}
	if r.NewLife {
		row.Life++
		row.Born = time.UnixMicro(t.now).UTC()
	}
	switch {
	case r.Delete:
	case r.MethodSet != nil:
		row.MethodSet = *r.MethodSet
	default:
		row.MethodSet = old.row.MethodSet
	}
	switch {
	case r.Delete:
	case r.Bump:
		row = old.row
		row.Version, row.CommitID = r.NewVersion, id
		row.Deleted = old.row.Deleted || old.row.Version == 0
	case r.State != nil:
		row.State = *r.State
	default:
		row.State = old.row.State // none, if it is a tombstone
	}
	t.put(r.Key, found.key, old, &row)
}

// fence returns the row that a commit stands on: as remembered, which is without
// its state, or as stored.
func (t *rowWrites) fence(key []byte, withState bool) (storedRow, error) {
	if !withState {
		if h := t.known.get(key); h != nil {
			return storedRow{row: h.row(), known: h}, nil
		}
	}
	return readRow(t, key)
}

// put writes a row over an old one, zero if there was none, at the time of the
// decision, and keeps the index of tombstones in step.
func (t *rowWrites) put(k actor.Key, key []byte, old *storedRow, row *actor.Row) {
	row.UpdatedAt = time.UnixMicro(t.now)
	if old.row.Deleted {
		t.delete(tombKey(sweptFrom(&old.row), k))
	}
	if row.Deleted {
		t.set(tombKey(sweptFrom(row), k), nil)
	}
	op := t.batch.SetDeferred(len(key), rowSize(row))
	copy(op.Key, key)
	appendRow(op.Value[:0], key, row)
	t.must(op.Finish())
	t.wrote(key)
	w := writtenHead{known: old.known, head: headOf(row)}
	if w.known == nil {
		w.key = string(key)
	}
	t.written = append(t.written, w)
	t.stamp()
}

// sweptFrom is the time under which the index has a tombstone: when it was written, and of a
// spawned actor [actor.SpawnedRetention] later.
func sweptFrom(row *actor.Row) int64 {
	at := row.UpdatedAt.UnixMicro()
	if row.Spawned {
		at += actor.SpawnedRetention.Microseconds()
	}
	return at
}

// sweep follows the index of tombstones. The row decides: an entry whose row is
// not that tombstone, or cannot be read, goes alone.
func (t *rowWrites) sweep(ctx context.Context, before int64, limit int) (swept int, err error) {
	if before <= 0 {
		return 0, nil
	}
	it, err := t.db.NewIterWithContext(ctx, &pebble.IterOptions{
		LowerBound: []byte(tombSpace), UpperBound: tombUpperBound(before),
	})
	if err != nil {
		return 0, err
	}
	err = visitAll(ctx, it, func(entry, _ []byte) (more bool, err error) {
		micros, k, err := parseTombKey(entry)
		if err != nil {
			return false, fmt.Errorf("tombstone %q: %w", entry, err)
		}
		key := actorKey(k)
		stored, err := readRow(t, key)
		if err != nil {
			return false, err
		}
		if r := stored.row; stored.damage == "" && r.Deleted && sweptFrom(&r) == micros {
			t.delete(key)
			t.wrote(key)
			t.written = append(t.written, writtenHead{key: string(key)})
			swept++
		}
		t.delete(bytes.Clone(entry))
		return swept < limit, nil
	})
	return swept, err
}

// applied remembers the rows that were written.
func (t *rowWrites) applied() {
	for i := range t.written {
		if w := &t.written[i]; w.known != nil {
			*w.known = w.head
		} else {
			t.known.set(w.key, w.head)
		}
	}
}
