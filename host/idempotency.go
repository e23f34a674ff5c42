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
	if b == nil {
		return nil
	}
	for i := range b.records {
		if r := &b.records[i]; r.Key == c.inv.IdempotencyKey && r.Method == c.inv.Method {
			return r
		}
	}
	return nil
}

// join looks for an earlier call with the key of c whose commit is not durable
// yet; c is then answered like that one, and when that one is. The caller has
// the shard's lock.
func (p *speculation) join(c *call) (r result, ok bool) {
	record := p.pending.find(c)
	if record == nil {
		record = p.flight.find(c)
	}
	if record == nil {
		return result{}, false
	}
	return c.recorded(record), true
}

// known looks for an earlier call with the key of c, among those that are not
// committed yet and, if there is reason to, in the store.
func (h *Host) known(ctx context.Context, a *activation, c *call) (o outcome, ok bool) {
	s := a.shard
	s.mu.Lock()
	r, ok := a.join(c)
	s.mu.Unlock()
	if ok {
		return outcome{result: r, resting: true}, true
	}
	if c.doubtful {
		r, ok = h.lookUp(ctx, c)
	}
	return outcome{result: r}, ok
}

// lookUp asks the store for a record of an earlier call with the key of c.
func (h *Host) lookUp(ctx context.Context, c *call) (r result, ok bool) {
	var found actor.Recorded
	all, err := h.cfg.Committer.LoadIdempotency(ctx, []actor.KeyedCall{{Actor: c.inv.Key, Method: c.inv.Method, Key: c.inv.IdempotencyKey}})
	if err == nil {
		found = all[0]
		err = found.Err
	}
	switch {
	case err != nil:
		return result{err: fmt.Errorf("look up idempotency key: %w", err)}, true
	case found.Found:
		return c.recorded(&found.Record), true
	default:
		return result{}, false
	}
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

// recordAlone commits the record of a call that has no other effects and no
// state: under the version of the row that the actor may have all the same.
func (h *Host) recordAlone(ctx context.Context, c *call, s *served, reply actor.Reply) error {
	l, err := h.load(ctx, c.inv.Key, actor.LoadOptions{})
	if err != nil {
		return err
	}
	commit := newCommit(c.inv.Key, l)
	commit.Generation, commit.StateSchema = s.deployment.Generation, s.stateSchema
	commit.Effects.Idempotency = []actor.IdempotencyRecord{c.record(reply, s.limits.IdempotencyTTL)}
	return h.commit(commit, LaneStateless)
}
