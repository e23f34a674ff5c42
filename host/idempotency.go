package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// keyed reports whether the call's outcome is to be recorded.
func (c *call) keyed() bool { return c.inv.IdempotencyKey != "" }

// record returns what is recorded of a call that was answered with a reply.
func (c *call) record(reply actor.Reply, ttl time.Duration) actor.IdempotencyRecord {
	return actor.IdempotencyRecord{
		Method: c.inv.Method, Key: c.inv.IdempotencyKey, Payload: c.sum,
		Reply: reply.Payload, Version: reply.Version, TTL: ttl,
	}
}

// recorded answers a call from the record of an earlier one with the same key.
func (c *call) recorded(r *actor.IdempotencyRecord) result {
	if r.Payload != c.sum {
		return result{err: fmt.Errorf("%w: call %s with a new key", actor.ErrKeyReused, c.inv.Method)}
	}
	return result{reply: actor.Reply{Payload: r.Reply, Version: r.Version}}
}

// find returns the record of a call in the batch that has the method and key of c.
func (b *batch) find(c *call) *actor.IdempotencyRecord {
	for i := range b.records {
		if r := &b.records[i]; r.Key == c.inv.IdempotencyKey && r.Method == c.inv.Method {
			return r
		}
	}
	return nil
}

// joins looks for an earlier call with the key of c whose commit is not durable
// yet; c is then answered like that one, and when that one is. The caller has
// the shard's lock.
func (a *activation) joins(c *call) (r result, ok bool) {
	for _, f := range []*flight{a.member.Pending(), a.member.Flight()} {
		if f == nil {
			continue
		}
		if record := f.Payload.find(c); record != nil {
			return c.recorded(record), true
		}
	}
	return result{}, false
}

// known looks for an earlier call with the key of c, among those that are not
// committed yet and, if c may have been committed before, in the store.
func (h *Host) known(ctx context.Context, a *activation, c *call) (o outcome, ok bool) {
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
		if err := h.lookUpDoubtful(ctx, a, c); err != nil {
			return failed(err), true
		}
	}
	found := c.looked
	c.looked = nil
	r, ok = h.asRecorded(c, *found, nil)
	return outcome{result: r}, ok
}

// lookUpDoubtful asks the store for c and for the calls that go again after it, at
// once.
func (h *Host) lookUpDoubtful(ctx context.Context, a *activation, c *call) error {
	const most = 64
	calls, s := []*call{c}, a.shard
	s.mu.Lock()
	for other := a.retries.head; other != nil && len(calls) < most; other = other.next {
		if other.doubtful && other.looked == nil {
			calls = append(calls, other)
		}
	}
	s.mu.Unlock()
	asked := make([]actor.KeyedCall, len(calls))
	for i, one := range calls {
		asked[i] = one.keyedCall()
	}
	found, err := h.cfg.Committer.LoadIdempotency(ctx, asked)
	if err != nil {
		return errLookUp(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, one := range calls {
		if one == c || one.home == &a.retries { // or its caller has it back
			one.looked = &found[i]
		}
	}
	return nil
}

func errLookUp(err error) error { return fmt.Errorf("look up idempotency key: %w", err) }

// keyedCall names c for the store.
func (c *call) keyedCall() actor.KeyedCall {
	return actor.KeyedCall{Actor: c.inv.Key, Method: c.inv.Method, Key: c.inv.IdempotencyKey}
}

// lookUp asks the store for a record of an earlier call with the key of c.
func (h *Host) lookUp(ctx context.Context, c *call) (r result, ok bool) {
	var found actor.Recorded
	all, err := h.cfg.Committer.LoadIdempotency(ctx, []actor.KeyedCall{c.keyedCall()})
	if err == nil {
		found = all[0]
	}
	return h.asRecorded(c, found, err)
}

// asRecorded returns the answer to c that a look-up gave: false if there is none.
func (h *Host) asRecorded(c *call, found actor.Recorded, err error) (r result, ok bool) {
	if err == nil {
		err = found.Err
	}
	switch {
	case err != nil:
		return result{err: errLookUp(err), stats: c.stats}, true
	case found.Found:
		h.repeats.met(&c.inv.Key, time.Now())
		h.noteNewer(c.inv.Key, found.Record.Version)
		r = c.recorded(&found.Record)
		r.stats = c.stats
		return r, true
	default:
		return result{}, false
	}
}

// sendDoubtful answers calls whose held failures are behind fences: with the record
// of an earlier attempt, if there is one.
func (h *Host) sendDoubtful(s *shard, l *answers) {
	for next := l.first; next != nil; {
		c := next
		next, c.next = c.next, nil
		h.records.Ask(c.keyedCall(), func(found actor.Recorded, err error) {
			if known, ok := h.asRecorded(c, found, err); ok {
				c.held = known
			}
			c.held.stats.ended = time.Now()
			c.answer()
			s.work.Done()
		})
	}
}

// lookUpFirst looks a call up that its actor was lately sent again, before it is
// admitted: off the actor's worker, so that others pay nothing. If it is not
// recorded, admit is what becomes of it.
func (h *Host) lookUpFirst(c *call, lane Lane, admit func() result) result {
	s := h.table.shard(c.inv.Key)
	if err := h.charge(c); err != nil {
		return result{err: err}
	}
	if err := s.beginLookUp(c); err != nil {
		return result{err: err}
	}
	c.stats.lane = lane
	if c.receiver != nil {
		h.records.Ask(c.keyedCall(), func(found actor.Recorded, err error) {
			defer s.work.Done()
			if !s.endLookUp(c) {
				return // given up, and told so
			}
			r, ok := h.asRecorded(c, found, err)
			if !ok {
				if c.ctx.Err() != nil {
					r = result{err: contextError(c.ctx), stats: c.stats}
				} else if r = admit(); r.later {
					return
				}
			}
			c.respond(r)
		})
		return result{later: true}
	}
	defer s.work.Done()
	type answer struct {
		found actor.Recorded
		err   error
	}
	got := make(chan answer, 1)
	h.records.Ask(c.keyedCall(), func(found actor.Recorded, err error) { got <- answer{found, err} })
	select {
	case a := <-got:
		if r, ok := h.asRecorded(c, a.found, a.err); ok {
			return r
		}
	case <-c.ctx.Done():
		return result{err: contextError(c.ctx), stats: c.stats}
	}
	c.stats = turnStats{}
	return admit()
}

// beginLookUp counts a call that is looked up before it is admitted; one of
// shard.work is its own.
func (s *shard) beginLookUp(c *call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return actor.ErrStopping
	}
	s.work.Add(1)
	c.looking = true
	return nil
}

// endLookUp reports whether a call is still being looked up, and ends that.
func (s *shard) endLookUp(c *call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := c.looking
	c.looking = false
	return was
}

// unrecorded tells of a failure that might not be the answer of a call with a
// key, since the same call may have been committed before: what a guest makes of
// the state that this call itself left, and the store's refusal of the key.
func unrecorded(err error) bool {
	var condition *actor.Condition
	return errors.Is(err, actor.ErrKeyExists) || !errors.As(err, &condition) && !isContextError(err)
}

// orRecorded returns what a call is to be answered that got r in a lane that
// commits at once.
func (h *Host) orRecorded(ctx context.Context, c *call, r result) result {
	if !c.keyed() || r.err == nil || !unrecorded(r.err) {
		return r
	}
	if known, ok := h.lookUp(ctx, c); ok {
		return known
	}
	if errors.Is(r.err, actor.ErrKeyExists) { // and expired meanwhile
		r.err = fmt.Errorf("%w: %w", actor.ErrStale, r.err)
	}
	return r
}

// keyedStateless runs a call with a key of a type that has no state, and commits its
// record alone: under the version that the row, which the actor may have all the
// same, had before the run, so that a fence of a later attempt keeps it out.
func (h *Host) keyedStateless(ctx *turnContext, c *call, s *served) (actor.Reply, error) {
	l, err := h.load(ctx, c.inv.Key, actor.LoadOptions{})
	if err != nil {
		return actor.Reply{}, err
	}
	reply, err := h.statelessTurn(ctx, c, s, nil)
	switch {
	case err == nil:
		commit := newCommit(c.inv.Key, l)
		commit.Generation, commit.StateSchema = s.deployment.Generation, s.stateSchema
		commit.Effects.Idempotency = []actor.IdempotencyRecord{c.record(reply, s.limits.IdempotencyTTL)}
		err = h.commit(commit, LaneStateless)
	case unrecorded(err):
		if other := h.fenceAlone(ctx, c); other != nil {
			err = other
		}
	}
	return reply, err
}

// fenceOf returns the commit that moves the version of l on, and nothing else.
func fenceOf(key actor.Key, l *loaded) actor.Commit {
	c := newCommit(key, l)
	c.Fence = true
	return c
}

// fenceAlone fences out earlier attempts of a call that has no state.
func (h *Host) fenceAlone(ctx context.Context, c *call) error {
	l, err := h.load(ctx, c.inv.Key, actor.LoadOptions{})
	if err != nil {
		return err
	}
	return h.commit(fenceOf(c.inv.Key, l), LaneStateless)
}
