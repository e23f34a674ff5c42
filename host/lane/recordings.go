package lane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/activation"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/mailbox"
	"github.com/greenroom-run/greenroom/host/storage"
)

// Recordings are the records of calls with idempotency keys.
type Recordings struct {
	store   *storage.Store
	table   *activation.Table
	Repeats *mailbox.Repeats
}

// NewRecordings returns the records of a store.
func NewRecordings(store *storage.Store, t *activation.Table) *Recordings {
	return &Recordings{store: store, table: t, Repeats: mailbox.NewRepeats()}
}

// Known looks for an earlier call with the key of c, among those that are not
// committed yet and, if c may have been committed before, in the store.
func (rec *Recordings) Known(ctx context.Context, a *activation.Activation, c *call.Call) (o call.Outcome, ok bool) {
	s := a.Shard
	s.Mu.Lock()
	r, ok := a.Joins(c)
	s.Mu.Unlock()
	switch {
	case ok:
		return call.Outcome{Result: r, Resting: true}, true
	case !c.Doubtful:
		return call.Outcome{}, false
	case c.Looked == nil:
		if err := rec.lookUpDoubtful(ctx, a, c); err != nil {
			return call.Failed(err), true
		}
	}
	found := c.Looked
	c.Looked = nil
	r, ok = rec.AsRecorded(c, *found, nil)
	return call.Outcome{Result: r}, ok
}

// lookUpDoubtful asks the store for c and for the calls that go again after it, at
// once.
func (rec *Recordings) lookUpDoubtful(ctx context.Context, a *activation.Activation, c *call.Call) error {
	const most = 64
	calls, s := []*call.Call{c}, a.Shard
	s.Mu.Lock()
	for other := range a.Calls.Retries() {
		if len(calls) == most {
			break
		}
		if other.Doubtful && other.Looked == nil {
			calls = append(calls, other)
		}
	}
	s.Mu.Unlock()
	asked := make([]actor.KeyedCall, len(calls))
	for i, one := range calls {
		asked[i] = one.KeyedCall()
	}
	found, err := rec.store.LoadIdempotency(ctx, asked)
	if err != nil {
		return errLookUp(err)
	}
	s.Mu.Lock()
	defer s.Mu.Unlock()
	for i, one := range calls {
		if one == c || a.Calls.IsRetry(&one.Place) { // or its caller has it back
			one.Looked = &found[i]
		}
	}
	return nil
}

func errLookUp(err error) error { return fmt.Errorf("look up idempotency key: %w", err) }

// LookUp asks the store for a record of an earlier call with the key of c.
func (rec *Recordings) LookUp(ctx context.Context, c *call.Call) (r call.Result, ok bool) {
	var found actor.Recorded
	all, err := rec.store.LoadIdempotency(ctx, []actor.KeyedCall{c.KeyedCall()})
	if err == nil {
		found = all[0]
	}
	return rec.AsRecorded(c, found, err)
}

// Committed asks the store whether all of some calls are recorded.
func (rec *Recordings) Committed(ctx context.Context, calls []actor.KeyedCall) (all bool, err error) {
	found, err := rec.store.LoadIdempotency(ctx, calls)
	if err != nil {
		return false, errLookUp(err)
	}
	for i := range found {
		if found[i].Err != nil {
			return false, errLookUp(found[i].Err)
		}
		if !found[i].Found || found[i].Record.Mark != nil {
			return false, nil
		}
	}
	return true, nil
}

// LookUpMarks finds out which marks of the origin of c the store lacks. [actor.ErrCanceled]: one of the calls that
// c is nested in is over, and nothing waits for c.
func (rec *Recordings) LookUpMarks(ctx context.Context, c *call.Call) error {
	marks, _ := c.MarksToWrite()
	if len(marks) == 0 {
		return nil
	}
	calls := make([]actor.KeyedCall, len(marks))
	for i := range marks {
		calls[i] = marks[i].Call()
	}
	found, err := rec.store.LoadIdempotency(ctx, calls)
	if err != nil {
		return errLookUp(err)
	}
	var missing []actor.IdempotencyRecord
	for i := range found {
		switch r := &found[i]; {
		case r.Err != nil:
			return errLookUp(r.Err)
		case !r.Found:
			missing = append(missing, marks[i])
		case r.Record.Mark == nil:
			return fmt.Errorf("%w: %s, which it is nested in, is over", actor.ErrCanceled, calls[i])
		}
	}
	c.MarksMissing(missing)
	return nil
}

// Callbacks asks the store for the callbacks of a recorded call.
func (rec *Recordings) Callbacks(ctx context.Context, c *call.Call) ([]call.Callback, error) {
	all, err := rec.store.LoadIdempotency(ctx, []actor.KeyedCall{c.Callbacks()})
	if err == nil {
		err = all[0].Err
	}
	if err != nil {
		return nil, errLookUp(err)
	}
	if !all[0].Found {
		return nil, nil
	}
	return call.DecodeCallbacks(&all[0].Record)
}

// AsRecorded returns the answer to c that a look-up gave: false if there is none.
func (rec *Recordings) AsRecorded(c *call.Call, found actor.Recorded, err error) (r call.Result, ok bool) {
	if err == nil {
		err = found.Err
	}
	switch {
	case err != nil:
		return call.Result{Err: errLookUp(err), Stats: c.Stats}, true
	case found.Found && found.Record.Mark != nil && found.Record.Payload == c.Sum: // or the key is of another call
		c.Mark = found.Record.Mark
		return call.Result{}, false
	case found.Found:
		rec.Repeats.Note(&c.Inv.Key, time.Now())
		rec.table.NoteNewer(c.Inv.Key, found.Record.Version)
		r = c.Recorded(&found.Record)
		r.Stats = c.Stats
		return r, true
	default:
		return call.Result{}, false
	}
}

// orRecorded returns what a call is to be answered that got r in a lane that
// commits at once.
func (rec *Recordings) orRecorded(ctx context.Context, c *call.Call, r call.Result) call.Result {
	if c.Cause != actor.CauseKeyedCall || r.Err == nil || !call.Unrecorded(r.Err) {
		return r
	}
	if known, ok := rec.LookUp(ctx, c); ok {
		return known
	}
	check := call.CheckFailure(c, r.Err)
	if errors.Is(r.Err, actor.ErrKeyExists) { // of a mark, or expired meanwhile
		check = c.CheckMark()
		r.Err = fmt.Errorf("%w: %w", actor.ErrStale, r.Err)
	}
	if check != nil {
		return call.Result{Err: check, Stats: c.Stats}
	}
	return r
}
