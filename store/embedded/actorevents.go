package embedded

import (
	"bytes"
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// actorEvents keeps the events that actors publish.
type actorEvents struct{ *writer }

// ReadEvents implements [store.Events].
func (s *actorEvents) ReadEvents(ctx context.Context, q actor.EventQuery) (page actor.EventPage, err error) {
	if err := store.ValidateEventQuery(&q); err != nil {
		return actor.EventPage{}, err
	}
	prefix := eventsOf(q.Key)
	bytesRead := 0
	from := append(eventKey(q.Key, q.After), 0)
	if q.After == (actor.EventPosition{}) {
		from = prefix
	}
	err = s.list(ctx, from, prefixEnd(prefix), func(key, value []byte) (more bool, err error) {
		at, r, err := decodeEvent(prefix, key, value)
		switch {
		case err != nil:
			return false, err
		case r.Name == "":
			return true, nil
		}
		if bytesRead += r.size(); q.MaxBytes > 0 && bytesRead > q.MaxBytes && len(page.Events) > 0 {
			return false, nil
		}
		page.Events = append(page.Events, r.event(at))
		return len(page.Events) < q.Limit, nil
	})
	if err != nil {
		return actor.EventPage{}, err
	}
	err = s.list(ctx, prefix, prefixEnd(prefix), func(key, value []byte) (more bool, err error) {
		at, r, err := decodeEvent(prefix, key, value)
		if err == nil && r.Name == "" {
			page.Trimmed = at
		}
		return false, err
	})
	return page, err
}

// NewestEvent implements [store.Events].
func (s *actorEvents) NewestEvent(ctx context.Context, key actor.Key) (at actor.EventPosition, err error) {
	if err := key.Validate(); err != nil {
		return at, err
	}
	if err := s.enter(ctx); err != nil {
		return at, err
	}
	defer s.leave()
	prefix := eventsOf(key)
	it, err := s.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: prefix, UpperBound: prefixEnd(prefix)})
	if err != nil {
		return at, unavailable(err)
	}
	f := s.syncs.latest.Load()
	if it.Last() {
		at, _, err = decodeEvent(prefix, it.Key(), it.Value())
	}
	if err := errors.Join(err, it.Close()); err != nil {
		return actor.EventPosition{}, err
	}
	return at, s.await(ctx, f)
}

// TrimEvents implements [store.Events].
func (s *actorEvents) TrimEvents(ctx context.Context, key actor.Key, keep actor.EventsKept) error {
	if err := store.ValidateEventsKept(key, keep); err != nil {
		return err
	}
	prefix := eventsOf(key)
	return s.update(ctx, writeOptions{frees: true}, func(tx *tx) error {
		it, err := tx.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: prefixEnd(prefix)})
		if err != nil {
			return unavailable(err)
		}
		defer func() { _ = it.Close() }()
		var cut []byte // the newest that is removed
		count, size := 0, int64(0)
		for ok := it.Last(); ok && cut == nil; ok = it.Prev() {
			value, err := it.ValueAndErr()
			if err != nil {
				return unavailable(err)
			}
			var r eventRecord
			damaged := decodeRecord(it.Key(), value, &r) != nil
			if r.Name == "" && !damaged { // trimmed before
				break
			}
			if count, size = count+1, size+int64(r.size()); damaged || count > keep.Count || size > keep.Bytes ||
				r.At < keep.Before.UnixMicro() && !keep.Before.IsZero() {
				cut = bytes.Clone(it.Key())
			}
		}
		if cut == nil {
			return nil
		}
		tx.deleteRange(prefix, cut)
		return tx.setRecord(cut, eventRecord{At: tx.now})
	})
}
