package embedded

import (
	"bytes"
	"context"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// actors reads the rows of actors, and sweeps tombstones.
type actors struct{ *writer }

// LoadActors implements [store.Actors]. It never shows a past state.
func (s *actors) LoadActors(ctx context.Context, keys []actor.Key, opts actor.LoadOptions) ([]actor.Row, error) {
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

func (s *actors) Versions(ctx context.Context, keys []actor.Key) ([]actor.RowVersion, error) {
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

func (s *actors) ListActors(ctx context.Context, q store.ActorQuery) (infos []store.ActorInfo, next string, err error) {
	if err := store.ValidateLimit(q.Limit); err != nil {
		return nil, "", err
	}
	prefix := actorPrefix(q.App, q.Type)
	asked := append(bytes.Clone(prefix), q.Prefix...)
	from := asked
	if q.After >= q.Prefix && q.After != "" {
		from = append(bytes.Clone(prefix), q.After...)
		from = append(from, 0) // the first key above, as no ID contains the zero byte
	}
	to := prefixEnd(asked)
	examined := 0
	err = s.list(ctx, from, to, func(key, value []byte) (more bool, err error) {
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

// ScanActors implements [store.Actors]. It leaves out no excluded row.
func (s *actors) ScanActors(ctx context.Context, q store.ActorScan, visit func(row *store.ScannedActor) (more bool)) (examined int, next string, err error) {
	if err := q.Validate(); err != nil {
		return 0, "", err
	}
	prefix := actorPrefix(q.App, q.Type)
	from, to := append(bytes.Clone(prefix), q.From...), prefixEnd(prefix)
	if q.After >= q.From && q.After != "" {
		from = append(append(bytes.Clone(prefix), q.After...), 0) // the first key above, as no ID contains the zero byte
	}
	if q.Before != "" {
		to = append(bytes.Clone(prefix), q.Before...)
	}
	var scanned int64
	var row store.ScannedActor // one for all: a scan of many rows is no work for the garbage collector
	err = s.list(ctx, from, to, func(key, value []byte) (more bool, err error) {
		more = true
		row = store.ScannedActor{ActorInfo: store.ActorInfo{Key: actor.Key{App: q.App, Type: q.Type, ID: string(key[len(prefix):])}}}
		stored := decodeRow(key, value)
		switch r := &stored.row; {
		case stored.damage != "":
			row.Version, row.Damaged = r.Version, true
			more = visit(&row)
		case !r.Deleted:
			row.Version, row.Generation, row.StateSchema, row.UpdatedAt = r.Version, r.Generation, r.StateSchema, r.UpdatedAt
			row.StateSize, row.Life, row.Spawned, row.MethodSet = int64(len(r.State.Data)), r.Life, r.Spawned, r.MethodSet
			if q.States {
				row.State = r.State
				scanned += row.StateSize
			}
			more = visit(&row)
		}
		if examined++; examined == q.Limit || q.MaxBytes > 0 && scanned >= q.MaxBytes {
			more = false
		}
		if !more {
			next = row.Key.ID
		}
		return more, nil
	})
	return examined, next, err
}

func (s *actors) SweepTombstones(ctx context.Context, before time.Time, limit int) (int, error) {
	return s.sweep(ctx, limit, func(tx *tx) (int, error) { return tx.rows.sweep(ctx, before.UnixMicro(), limit) })
}
