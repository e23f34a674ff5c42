package embedded

import (
	"bytes"
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/greenroom-run/greenroom/actor"
)

// core is what every part of a store reads with.
type core struct {
	*lifetime
	db    *pebble.DB
	clock clock
	syncs pendingSyncs
}

// find returns a finder of keys.
func (s *core) find(keys *pebble.IterOptions) (*finder, error) {
	it, err := s.db.NewIter(keys)
	if err != nil {
		return nil, err
	}
	return &finder{s.db, it}, nil
}

// list is scan for a caller that is not between enter and leave.
func (s *core) list(ctx context.Context, from, to []byte, visit func(key, value []byte) (more bool, err error)) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	if bytes.Compare(from, to) >= 0 {
		return nil
	}
	return s.scan(ctx, from, to, visit)
}

// scan calls visit with what is stored in [from, to), in order, until visit has
// enough, and then waits until all of it is durable. The slices are valid during
// the call.
func (s *core) scan(ctx context.Context, from, to []byte, visit func(key, value []byte) (more bool, err error)) error {
	it, err := s.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return unavailable(err)
	}
	// What the iterator shows was applied before this, by this batch or before.
	f := s.syncs.latest.Load()
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

// await waits until what a batch shows is durable; nil stands for what is
// durable already.
func (s *core) await(ctx context.Context, f *pendingSync) error {
	if f == nil {
		return nil
	}
	select {
	case <-f.done:
		return nil
	case <-s.failed:
		return s.unavailable()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// load reads a row by f and waits until what it read is durable.
func (s *core) load(ctx context.Context, f *finder, k actor.Key) (storedRow, error) {
	key := actorKey(k)
	stored, err := readRow(f, key)
	if err != nil {
		return storedRow{}, unavailable(err)
	}
	return stored, s.await(ctx, s.syncs.covering(key))
}
