package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// LoadActors implements [store.Actors]. It never shows a past state.
func (s *Store) LoadActors(ctx context.Context, keys []actor.Key, opts actor.LoadOptions) ([]actor.Row, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	f, err := s.find(&actorKeys)
	if err != nil {
		return nil, unavailable(err)
	}
	defer f.close()
	rows := make([]actor.Row, len(keys))
	var damaged []store.DamagedRow
	bytes := int64(0)
	for i, k := range keys {
		if opts.MaxBytes > 0 && bytes >= opts.MaxBytes {
			rows[i].Unread = true
			continue
		}
		stored, err := s.load(ctx, f, k)
		switch {
		case err != nil:
			return nil, err
		case stored.damage != "":
			damaged = append(damaged, stored.damaged(k))
		default:
			rows[i] = stored.row
			bytes += int64(len(stored.row.State.Data))
		}
	}
	if damaged != nil {
		return rows, &store.DamagedError{Rows: damaged}
	}
	return rows, nil
}

// load reads a row by f and waits until what it read is durable.
func (s *Store) load(ctx context.Context, f *finder, k actor.Key) (storedRow, error) {
	key := actorKey(k)
	stored, err := readRow(f, key)
	if err != nil {
		return storedRow{}, unavailable(err)
	}
	return stored, s.await(ctx, s.flights.over(key))
}

// Versions implements [store.Actors].
func (s *Store) Versions(ctx context.Context, keys []actor.Key) ([]actor.RowVersion, error) {
	if err := store.ValidateKeys(keys); err != nil {
		return nil, err
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	f, err := s.find(&actorKeys)
	if err != nil {
		return nil, unavailable(err)
	}
	defer f.close()
	versions := make([]actor.RowVersion, len(keys))
	for i, k := range keys {
		// The state is copied and checked with the rest: a row that is damaged
		// has another version for the writer, too.
		stored, err := s.load(ctx, f, k)
		if err != nil {
			return nil, err
		}
		r := &stored.row
		versions[i] = actor.RowVersion{Version: r.Version, Life: r.Life, Deleted: r.Deleted}
	}
	return versions, nil
}

// reader reads a copy of a value, nil if there is none.
type reader interface {
	get(key []byte) ([]byte, error)
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

// Commit implements [store.Actors]. The whole group is one batch.
func (s *Store) Commit(ctx context.Context, commits []actor.Commit) []error {
	invalid := store.ValidateGroup(commits)
	calls := callsOf(commits)
	var refused []error
	err := s.enter(ctx)
	if err == nil {
		defer s.leave()
		err = s.write(ctx, writeOptions{bytes: groupBytes(commits)}, func(tx *tx) error {
			if err := tx.lookUp(calls); err != nil {
				return unavailable(err)
			}
			left := calls
			for i := range commits {
				n := len(commits[i].Records)
				own := left[:n]
				left = left[n:]
				if invalid[i] != nil {
					continue
				}
				refusal, err := tx.commit(&commits[i], own)
				if err != nil {
					return unavailable(err)
				}
				if refusal == nil {
					continue
				}
				if refused == nil {
					refused = make([]error, len(commits))
				}
				refused[i] = refusal
			}
			return nil
		})
	}
	errs := make([]error, len(commits))
	for i := range errs {
		switch {
		case invalid[i] != nil:
			errs[i] = invalid[i]
		case refused != nil && refused[i] != nil:
			errs[i] = refused[i] // certain, whatever happened to the others
		default:
			errs[i] = err
		}
	}
	return errs
}

// rowOverhead is about what a row takes beside its state: key, header, lengths. A reminder
// takes as much, and so do the keys of its indexes.
const rowOverhead = 160

// groupBytes is about what a group writes.
func groupBytes(commits []actor.Commit) int {
	n := rowOverhead
	for i := range commits {
		c := &commits[i]
		for j := range c.Rows {
			n += rowOverhead
			if state := c.Rows[j].State; state != nil {
				n += len(state.Data)
			}
		}
		for j := range c.Records {
			n += rowOverhead + store.RecordSize(&c.Records[j])
		}
		for j := range c.Reminders.Set {
			n += 3*rowOverhead + len(c.Reminders.Set[j].Payload.Data)
		}
	}
	return n
}

// commit checks the fences of c, whose calls were looked up, and writes all of it,
// or says why it is refused. err means that nothing could be decided.
func (t *tx) commit(c *actor.Commit, calls []call) (refusal, err error) {
	for i := range calls {
		if r := calls[i].record; calls[i].until > t.now {
			if calls[i].by == c.ID {
				return nil, nil // c was applied before
			}
			return fmt.Errorf("%s: %w", r.Call(), actor.ErrKeyExists), nil
		}
	}
	ops := store.ReminderOps(c)
	if refusal, err := t.checkSteps(ops); refusal != nil || err != nil {
		return refusal, err
	}
	t.keys, t.checked = t.keys[:0], t.checked[:0]
	for i := range c.Rows {
		w := &c.Rows[i]
		keepsState := !w.Delete && w.State == nil
		if refusal, err := t.check(w.Fence(), keepsState, keepsState); refusal != nil || err != nil {
			return refusal, err
		}
	}
	for _, f := range c.Fences {
		if refusal, err := t.check(f, true, false); refusal != nil || err != nil {
			return refusal, err
		}
	}
	// All of it holds.
	for i := range calls {
		calls[i].held = true
	}
	for i := range c.Rows {
		t.change(c.ID, &c.Rows[i], &t.checked[i])
	}
	return nil, t.remind(c, ops)
}

// checkedRow is a row whose fence held.
type checkedRow struct {
	key []byte
	old storedRow
}

// check adds the row that was read to t.checked, with its state if it is needed, or
// says why the commit is refused. mustBeSound: it is not to be deleted or replaced.
func (t *tx) check(read actor.RowFence, mustBeSound, withState bool) (refusal, err error) {
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
func (t *tx) change(id actor.CommitID, r *actor.RowWrite, found *checkedRow) {
	old := &found.old
	row := actor.Row{
		Version:     r.NewVersion,
		CommitID:    id,
		Life:        old.row.Life,
		Deleted:     r.Delete,
		Generation:  r.Generation,
		StateSchema: r.StateSchema,
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
func (t *tx) fence(key []byte, withState bool) (storedRow, error) {
	if !withState {
		if h := t.s.heads.get(key); h != nil {
			return storedRow{row: h.row(), known: h}, nil
		}
	}
	return readRow(t, key)
}

// put writes a row over an old one, zero if there was none, at the time of the
// decision, and keeps the index of tombstones in step.
func (t *tx) put(k actor.Key, key []byte, old *storedRow, row *actor.Row) {
	row.UpdatedAt = time.UnixMicro(t.now)
	if old.row.Deleted {
		t.delete(tombKey(old.row.UpdatedAt.UnixMicro(), k))
	}
	if row.Deleted {
		t.set(tombKey(t.now, k), nil)
	}
	op := t.batch.SetDeferred(len(key), rowHeaderSize+len(row.State.Data))
	copy(op.Key, key)
	appendRow(op.Value[:0], key, row)
	t.must(op.Finish())
	t.wrote(key)
	w := writtenHead{known: old.known, head: headOf(row)}
	if w.known == nil {
		w.key = string(key)
	}
	t.heads = append(t.heads, w)
	t.stamp()
}

// Settle implements [store.Actors].
func (s *Store) Settle(ctx context.Context, c actor.Commit) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	if err := errors.Join(store.ValidateGroup([]actor.Commit{c})...); err != nil {
		return err
	}
	var verdict error
	err := s.write(ctx, writeOptions{}, func(tx *tx) (err error) {
		verdict, err = tx.settle(&c)
		return err
	})
	if err != nil {
		return unavailable(err) // settling may always go again
	}
	return verdict
}

// settle applies the table in the documentation of package store. Any row that c
// wrote proves all of it, and its anchor fenced out keeps all of it out.
func (t *tx) settle(c *actor.Commit) (verdict, err error) {
	recorded, err := t.recordedBy(c)
	if err != nil {
		return nil, err
	}
	evidence := store.Evidence{Recorded: recorded}
	var anchor storedRow
	find := func(k actor.Key) error {
		found, err := readRow(t, actorKey(k))
		if len(evidence.Rows) == 0 {
			anchor = found
		}
		evidence.Rows = append(evidence.Rows, store.FoundRow{
			Version: found.row.Version, CommitID: found.row.CommitID, Damaged: found.damage != "",
		})
		return err
	}
	for i := range c.Rows {
		if err := find(c.Rows[i].Key); err != nil {
			return nil, err
		}
	}
	for i := range c.Fences {
		if err := find(c.Fences[i].Key); err != nil {
			return nil, err
		}
	}
	key := c.Anchor().Key
	switch evidence.Of(c) {
	case store.VerdictApplied:
		return nil, nil
	case store.VerdictDamaged:
		return &store.DamagedError{Rows: []store.DamagedRow{anchor.damaged(key)}}, nil
	case store.VerdictFence:
		row := anchor.row
		if row.Version == 0 {
			row.Version, row.Deleted, row.CommitID = actor.FirstVersion(), true, store.FenceID(c.ID)
		} else {
			row.Version++
		}
		t.put(key, actorKey(key), &anchor, &row)
		return fmt.Errorf("%s: it was never applied: %w", store.CommitName(c), actor.ErrStale), nil
	case store.VerdictNever:
		return fmt.Errorf("%s: it was never applied: %w", store.CommitName(c), actor.ErrStale), nil
	default:
		return fmt.Errorf("%s: nobody can tell: %w", store.CommitName(c), actor.ErrAmbiguous), nil
	}
}

// ListActors implements [store.Actors].
func (s *Store) ListActors(ctx context.Context, q store.ActorQuery) (infos []store.ActorInfo, next string, err error) {
	if err := store.ValidateLimit(q.Limit); err != nil {
		return nil, "", err
	}
	if err := s.enter(ctx); err != nil {
		return nil, "", err
	}
	defer s.leave()
	prefix := actorPrefix(q.App, q.Type)
	asked := append(bytes.Clone(prefix), q.Prefix...)
	from := asked
	if q.After >= q.Prefix && q.After != "" {
		from = append(bytes.Clone(prefix), q.After...)
		from = append(from, 0) // the first key above, as no ID contains the zero byte
	}
	to := prefixEnd(asked)
	if bytes.Compare(from, to) >= 0 {
		return nil, "", nil
	}
	examined := 0
	err = s.scan(ctx, from, to, func(key, value []byte) (more bool, err error) {
		k := actor.Key{App: q.App, Type: q.Type, ID: string(key[len(prefix):])}
		stored := decodeRow(key, value)
		switch r := stored.row; {
		case stored.damage != "":
			infos = append(infos, store.ActorInfo{Key: k, Version: r.Version, Damaged: true})
		case !r.Deleted:
			infos = append(infos, store.ActorInfo{
				Key: k, Version: r.Version, Generation: r.Generation, StateSchema: r.StateSchema,
				StateSize: int64(len(r.State.Data)), UpdatedAt: r.UpdatedAt,
			})
		}
		if examined++; examined == store.MaxExamined || len(infos) == q.Limit {
			next = k.ID
		}
		return next == "", nil
	})
	if err != nil {
		return nil, "", err
	}
	return infos, next, nil
}

// scan calls visit with what is stored in [from, to), in order, until visit has
// enough, and then waits until all of it is durable. The slices are valid during
// the call.
func (s *Store) scan(ctx context.Context, from, to []byte, visit func(key, value []byte) (more bool, err error)) error {
	it, err := s.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return unavailable(err)
	}
	// What the iterator shows was applied before this, by this flight or before.
	f := s.flights.latest.Load()
	if err := visitAll(ctx, it, visit); err != nil {
		return err
	}
	return s.await(ctx, f)
}

// visitAll closes it.
func visitAll(ctx context.Context, it *pebble.Iterator, visit func(key, value []byte) (more bool, err error)) error {
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return errors.Join(unavailable(err), it.Close())
		}
		more, err := visit(it.Key(), value)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || !more {
			return errors.Join(err, it.Close())
		}
	}
	return unavailable(it.Close())
}

// SweepTombstones implements [store.Actors].
func (s *Store) SweepTombstones(ctx context.Context, before time.Time, limit int) (int, error) {
	if err := store.ValidateLimit(limit); err != nil {
		return 0, err
	}
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.leave()
	var swept int
	err := s.write(ctx, writeOptions{frees: true}, func(tx *tx) (err error) {
		swept, err = tx.sweep(ctx, before.UnixMicro(), limit)
		return unavailable(err)
	})
	if err != nil {
		return 0, unavailable(err) // sweeping may always go again
	}
	return swept, nil
}

// sweep follows the index of tombstones. The row decides: an entry whose row is
// not that tombstone, or cannot be read, goes alone.
func (t *tx) sweep(ctx context.Context, before int64, limit int) (swept int, err error) {
	if before <= 0 {
		return 0, nil
	}
	it, err := t.s.db.NewIterWithContext(ctx, &pebble.IterOptions{
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
		if r := stored.row; stored.damage == "" && r.Deleted && r.UpdatedAt.UnixMicro() == micros {
			t.delete(key)
			t.wrote(key)
			t.heads = append(t.heads, writtenHead{key: string(key)})
			swept++
		}
		t.delete(bytes.Clone(entry))
		return swept < limit, nil
	})
	return swept, err
}
