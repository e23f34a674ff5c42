package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/mailbox"
	"github.com/greenroom-run/greenroom/host/storage"
)

// recordings are the records of calls with idempotency keys.
type recordings struct {
	store   *storage.Store
	table   *table
	repeats *mailbox.Repeats
}

func newRecordings(store *storage.Store, t *table) *recordings {
	return &recordings{store: store, table: t, repeats: mailbox.NewRepeats()}
}

// known looks for an earlier call with the key of c, among those that are not
// committed yet and, if c may have been committed before, in the store.
func (rec *recordings) known(ctx context.Context, a *activation, c *call) (o outcome, ok bool) {
	s := a.shard
	s.mu.Lock()
	r, ok := a.joins(c)
	s.mu.Unlock()
	switch {
	case ok:
		return outcome{result: r, resting: true}, true
	case !c.doubtful:
		return outcome{}, false
	case c.looked == nil:
		if err := rec.lookUpDoubtful(ctx, a, c); err != nil {
			return failed(err), true
		}
	}
	found := c.looked
	c.looked = nil
	r, ok = rec.asRecorded(c, *found, nil)
	return outcome{result: r}, ok
}

// lookUpDoubtful asks the store for c and for the calls that go again after it, at
// once.
func (rec *recordings) lookUpDoubtful(ctx context.Context, a *activation, c *call) error {
	const most = 64
	calls, s := []*call{c}, a.shard
	s.mu.Lock()
	for other := range a.calls.Retries() {
		if len(calls) == most {
			break
		}
		if other.doubtful && other.looked == nil {
			calls = append(calls, other)
		}
	}
	s.mu.Unlock()
	asked := make([]actor.KeyedCall, len(calls))
	for i, one := range calls {
		asked[i] = one.keyedCall()
	}
	found, err := rec.store.Committer.LoadIdempotency(ctx, asked)
	if err != nil {
		return errLookUp(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, one := range calls {
		if one == c || a.calls.IsRetry(&one.place) { // or its caller has it back
			one.looked = &found[i]
		}
	}
	return nil
}

func errLookUp(err error) error { return fmt.Errorf("look up idempotency key: %w", err) }

// lookUp asks the store for a record of an earlier call with the key of c.
func (rec *recordings) lookUp(ctx context.Context, c *call) (r result, ok bool) {
	var found actor.Recorded
	all, err := rec.store.Committer.LoadIdempotency(ctx, []actor.KeyedCall{c.keyedCall()})
	if err == nil {
		found = all[0]
	}
	return rec.asRecorded(c, found, err)
}

// asRecorded returns the answer to c that a look-up gave: false if there is none.
func (rec *recordings) asRecorded(c *call, found actor.Recorded, err error) (r result, ok bool) {
	if err == nil {
		err = found.Err
	}
	switch {
	case err != nil:
		return result{err: errLookUp(err), stats: c.stats}, true
	case found.Found:
		rec.repeats.Note(&c.inv.Key, time.Now())
		rec.table.noteNewer(c.inv.Key, found.Record.Version)
		r = c.recorded(&found.Record)
		r.stats = c.stats
		return r, true
	default:
		return result{}, false
	}
}

// orRecorded returns what a call is to be answered that got r in a lane that
// commits at once.
func (rec *recordings) orRecorded(ctx context.Context, c *call, r result) result {
	if c.cause != actor.CauseKeyedCall || r.err == nil || !unrecorded(r.err) {
		return r
	}
	if known, ok := rec.lookUp(ctx, c); ok {
		return known
	}
	if errors.Is(r.err, actor.ErrKeyExists) { // and expired meanwhile
		r.err = fmt.Errorf("%w: %w", actor.ErrStale, r.err)
	}
	return r
}
