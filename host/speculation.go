package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/speculation"
)

// What package speculation decides is performed here, under the lock of the
// activation's shard; what is left to be done without it is a [followUp].

// hold keeps an answer until the batch f has landed.
func (h *Host) hold(f *flight, c *call, r result, role speculation.Role, since time.Time) {
	c.held = r
	f.Hold(held{Call: c, Home: &c.at.member, Role: role, Since: since})
	f.Payload.countReply(&r.reply)
}

// countReply counts the reply of a call that is held.
func (b *batch) countReply(r *actor.Reply) {
	if cost := replyCost(r); cost > 0 {
		b.heldFor += cost
		b.host.memory.add(cost)
	}
}

// join puts a call into the pending batch, with an answer for when it has landed.
// payload makes a new one, if there is none.
func (a *activation) join(c *call, r result, role speculation.Role, payload func() *batch) *batch {
	c.held = r
	f := speculation.Fold([]*member{&a.member}, held{Call: c, Home: &a.member, Role: role}, payload, nil)
	b := f.Payload
	b.in = f
	b.countReply(&r.reply)
	return b
}

// fold adds a sealed turn to the pending batch. The caller has the shard's lock.
func (a *activation) fold(h *Host, c *call, s *served, done *sealed) {
	b := a.join(c, result{}, speculation.Effect, func() *batch { return h.newBatch(a) })
	if done.changed {
		b.state = done.state
		b.commit.Generation, b.commit.StateSchema = s.deployment.Generation, s.stateSchema
		b.after = a.tip.after(&b.commit, done.state)
		a.tip = b.after
		h.table.weigh(a)
		done.reply.Version = b.commit.NewVersion
	}
	if c.keyed() {
		b.records = append(b.records, c.record(done.reply, s.limits.IdempotencyTTL))
		b.replies += len(done.reply.Payload.Data) + recordCost
		b.most = int(min(maxReplies, MaxStateAndPayload-s.limits.StateBytes-s.limits.PayloadBytes))
	}
	c.held = result{reply: done.reply, stats: c.stats}
	b.countReply(&done.reply)
}

// foldFailure adds the failure of a call with a key to the pending batch: it is
// answered when the version has moved on, so that no earlier attempt of the call
// can be applied any more, and then only if none was. The caller has the shard's
// lock.
func (a *activation) foldFailure(h *Host, c *call, r result) {
	b := a.join(c, r, speculation.Failure, func() *batch { return h.newBatch(a) })
	if b.fence {
		return
	}
	b.fence = true
	if b.state == nil {
		b.after = a.tip.fenced(&b.commit)
		a.tip = b.after
		h.table.weigh(a)
	}
}

// ask puts a call that shows what no commit proves into a check. There is no batch.
// The caller has the shard's lock.
func (a *activation) ask(h *Host, c *call, r result) {
	a.join(c, r, speculation.Question, func() *batch { return h.newCheck(a) })
}

// launch makes the pending batch the flight, if there is one and the last has
// landed. The caller has the shard's lock, and sends the result without it.
func (a *activation) launch(now time.Time) *batch {
	if f := a.member.Launch(now); f != nil {
		return f.Payload
	}
	return nil
}

// landed ends a flight: err is the outcome of its commit, as that of
// [Host.commit]. What rests on it is answered, or goes again.
//
// now is when that was known.
func (h *Host) landed(b *batch, err error, now time.Time) {
	check := b.in.Check()
	if err != nil && !check {
		err = fmt.Errorf("commit turn: %w", err)
	}
	if !check {
		// Before anything that follows from it is done, and told.
		h.events.Commit(CommitEnd{
			Key: b.commit.Key, Lane: LaneWarm, Duration: now.Sub(b.in.Began()), GroupSize: b.in.Effects(), Err: err,
		})
	}
	then := h.land(b, err, now)
	if errors.Is(err, actor.ErrKeyExists) {
		h.repeats.met(&b.a.key, now)
	}
	h.followThrough(b.a.shard, b.a, &then)
}

// land is the part of landed under the shard's lock.
func (h *Host) land(b *batch, err error, now time.Time) (then followUp) {
	a, s := b.a, b.a.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	outcome := speculation.Applied
	switch {
	case refusal(err):
		outcome = speculation.Refused
	case err != nil:
		outcome = speculation.Failed
	case !b.in.Check():
		a.install(b.after)
		h.table.weigh(a)
	}
	if err == nil && !a.outdated() {
		a.confirmed(b.in.Began())
	}
	did := b.in.Landed(outcome, err, now)
	a.perform(h, s, &did, err, now, &then)
	h.release(b, err)
	a.admitted -= then.answered.len + then.doubtful.len
	a.callBytes -= then.answered.bytes + then.doubtful.bytes
	s.work.Add(then.doubtful.len) // before the activation's own is done
	if a.member.Flight() == nil && a.drained != nil {
		close(a.drained)
		a.drained = nil
	}
	h.proceed(s, a, now, &then)
	return then
}

// perform does what was decided, because of err if that is not nil. The caller has
// the shard's lock.
func (a *activation) perform(h *Host, s *shard, did *speculation.Actions[*call, *batch], err error, now time.Time, then *followUp) {
	if len(did.Dropped) > 0 { // a itself
		h.table.forget(s, a)
	}
	for _, f := range did.Lost {
		h.memory.add(-f.Payload.heldFor)
	}
	for _, c := range did.Fail {
		c.held = result{err: cutShort(err), stats: c.stats}
		then.answered.add(c)
	}
	var again callList
	for _, h := range did.Again {
		a.runAgain(h.Call, err, &again, &then.answered)
	}
	a.retries.prepend(&again)
	for _, c := range did.Answer {
		c.held.stats.ended = now
		then.answered.add(c)
	}
	for _, c := range did.Confirm {
		then.doubtful.add(c)
	}
	for _, f := range did.Launch {
		then.launched = f.Payload
	}
	switch next := a.member.Flight(); {
	case len(did.Later) == 0:
	case next == nil && a.outdated():
		a.supersede(h, s, did.Later, now, then)
	case next == nil:
		for _, seen := range did.Later {
			a.ask(h, seen.Call, seen.Call.held)
		}
		then.launched = a.launch(now)
	default:
		role := speculation.Observer
		if next.Check() {
			role = speculation.Question
		}
		for _, seen := range did.Later {
			h.hold(next, seen.Call, seen.Call.held, role, seen.Since)
		}
	}
}

// supersede drops the activation's state, of which the store has a newer one, and
// lets the calls go again that ran on it. There is no batch. The caller has the
// shard's lock.
func (a *activation) supersede(h *Host, s *shard, calls []held, now time.Time, then *followUp) {
	did := speculation.Drop([]*member{&a.member}, calls, actor.ErrStale)
	a.perform(h, s, &did, actor.ErrStale, now, then)
}

// runAgain puts a call that was run for nothing where it goes again, or answers it
// if something left the host with it. The caller has the shard's lock.
func (a *activation) runAgain(c *call, err error, again *callList, answered *answers) {
	if c.stats.sent {
		c.held = result{err: cutShort(err), stats: c.stats}
		answered.add(c)
		return
	}
	c.goAgain(err)
	again.push(c)
}

// settleFlight finds out what became of a commit, beside the lanes. No turn of
// the actor begins meanwhile: it would most likely have to run again.
func (h *Host) settleFlight(b *batch, cause error) {
	s := b.a.shard
	s.mu.Lock()
	b.in.Settle()
	s.mu.Unlock()
	// The flight keeps the activation busy, which Stop waits for.
	go func() {
		err := h.settle(b.commit, cause)
		h.landed(b, err, time.Now())
	}()
}

// cutShort says what the end of the host's context means to the caller of a turn
// that it kept from being applied.
func cutShort(err error) error {
	if isContextError(err) && !errors.Is(err, actor.ErrAmbiguous) {
		return fmt.Errorf("%w: %v", actor.ErrStopping, err)
	}
	return err
}

// awaitCommits waits until all of the activation's state is committed. It reports
// whether the state was dropped instead: then what was to be done on it comes
// after the calls that go again. It is for the worker.
func (h *Host) awaitCommits(ctx context.Context, a *activation) (dropped bool, err error) {
	s := a.shard
	s.mu.Lock()
	if a.member.Flight() != nil && a.drained == nil {
		a.drained = make(chan struct{})
	}
	drained := a.drained
	dropped = a.member.Dropped() != nil
	s.mu.Unlock()
	if drained == nil {
		return dropped, nil
	}
	select {
	case <-drained:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return a.member.Dropped() != nil, nil
}
