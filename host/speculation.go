package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/overlay"
)

// speculation is what an activation knows of its actor's state: what is
// committed, and what its turns have made of that since. The shard's lock guards
// it. Without batches, tip and loaded are the same.
type speculation struct {
	loaded *loaded // committed; nil: cold
	tip    *loaded // what the next turn runs on
	// shown is what a reader found in the store that is ahead of loaded: what the
	// flight has not been answered for yet, or another writer's. Later readers see
	// no less.
	shown *loaded
	// newest, if not 0, is the version of shown, or a later one of which nothing
	// else is known; then readers load. Nothing older is answered any more.
	newest uint64
	// current is a moment after which what readers see was the newest, as far as
	// is known; confirmation is the question whether it still is, nil if none is
	// under way.
	current      time.Time
	confirmation *confirmation
	// flight is the batch whose commit is under way; pending is what turns sealed
	// since. There is a pending batch only behind a flight.
	flight, pending *batch
	// settling tells that the flight's outcome is not known yet, and no turn is
	// begun until it is.
	settling bool
	// refused is why the state was dropped under the turn that runs; dropped are
	// the calls that go again before that one.
	refused error
	dropped callList
	// quiet, if not nil, is closed when there is no batch any more.
	quiet chan struct{}
}

// batch is the turns of one actor that are folded into one commit, and the calls
// whose answers rest on it. It is a [pipeline.Work].
type batch struct {
	host  *Host
	a     *activation
	calls callList // guarded by the shard's lock

	// These do not change once the batch is a flight.
	commit  actor.Commit
	state   *overlay.State // what the commit carries, encoded when it is sent; nil: records alone
	encoded actor.EncodedState
	buffer  *[]byte // of Host.buffers, that encoded is in; nil: none
	records []actor.IdempotencyRecord
	replies int   // bytes of the records
	most    int   // how many of them there may be before the commit has to go
	held    int64 // what the replies of calls count for in Host.memory
	after   *loaded
	turns   int  // that have something to commit; 0: see check
	fence   bool // of a call with a key that has failed
	began   time.Time
}

func (h *Host) newBatch(a *activation) *batch {
	return &batch{host: h, a: a, commit: newCommit(a.key, a.tip), after: a.tip}
}

// newCheck returns a batch that commits nothing and confirms the tip.
func (h *Host) newCheck(a *activation) *batch {
	return &batch{host: h, a: a, commit: actor.Commit{Key: a.key, ReadVersion: a.tip.version}, after: a.tip}
}

// release gives back the memory of a batch that has landed with err. Whether
// somebody still reads what a commit of an unknown outcome carried is not known
// either: then its buffer is not used again.
func (h *Host) release(b *batch, err error) {
	h.memory.add(-b.held)
	if b.buffer != nil && (err == nil || refusal(err)) {
		h.buffers.Put(b.buffer)
	}
	b.buffer = nil
}

// maxReplies is how many bytes of recorded replies a batch gathers at most before
// its actor waits for the flight. Where large states and payloads are allowed it
// is less: with one more reply and the state, a commit stays within
// actor.MaxCommitBytes.
const maxReplies = 2 << 20

// full reports whether no further turn may be folded for now. There is a flight
// then, whose landing sends the pending batch off. The caller has the shard's
// lock.
func (p *speculation) full() bool {
	b := p.pending
	return b != nil && (b.replies > 0 && b.replies >= b.most || b.held >= maxHeld)
}

// maxHeld bounds the replies that wait for one commit, recorded or not, in the
// same way.
const maxHeld = 8 << 20

// recordCost is what a record takes beside its reply, roughly.
const recordCost = 256

// Size implements [pipeline.Work].
func (b *batch) Size() int64 {
	size := b.replies
	if b.state != nil {
		size += b.state.Size()
	}
	return int64(size)
}

// Commit implements [pipeline.Work].
func (b *batch) Commit() actor.Commit {
	if b.state != nil {
		b.buffer = b.host.buffers.Get().(*[]byte)
		*b.buffer = b.state.AppendEncoded((*b.buffer)[:0])
		b.encoded = actor.EncodedState{Format: b.state.Format(), Data: *b.buffer}
		b.commit.Effects.State = &b.encoded
	}
	b.commit.Fence = b.fence && b.state == nil
	b.commit.Effects.Idempotency = b.records
	return b.commit
}

// Done implements [pipeline.Work].
func (b *batch) Done(err error, now time.Time) {
	if errors.Is(err, actor.ErrAmbiguous) {
		b.host.settleFlight(b, err)
		return
	}
	b.host.landed(b, err, now)
}

// settleFlight finds out what became of a commit, beside the lanes. No turn of
// the actor begins meanwhile: it would most likely have to run again.
func (h *Host) settleFlight(b *batch, cause error) {
	s := b.a.shard
	s.mu.Lock()
	b.a.settling = true
	s.mu.Unlock()
	// The flight keeps the activation busy, which Stop waits for.
	go func() {
		err := h.settle(b.commit, cause)
		h.landed(b, err, time.Now())
	}()
}

// rest tells on what the outcome of a turn rests that ran on the tip: the batch
// whose commit it has to wait for, nil when all of it is committed. The caller
// has the shard's lock.
func (p *speculation) rest() *batch {
	if p.pending != nil {
		return p.pending
	}
	return p.flight
}

// hold keeps an answer until the batch has landed.
func (b *batch) hold(c *call, r result, wrote bool) {
	c.held, c.wrote = r, wrote
	b.calls.push(c)
	if cost := replyCost(&r.reply); cost > 0 {
		b.held += cost
		b.host.memory.add(cost)
	}
}

// fold adds a sealed turn to the pending batch. The caller has the shard's lock.
func (a *activation) fold(h *Host, c *call, s *served, done *sealed) {
	if a.pending == nil {
		a.pending = h.newBatch(a)
	}
	b := a.pending
	b.turns++
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
	b.hold(c, result{reply: done.reply, stats: c.stats}, true)
}

// foldFailure adds the failure of a call with a key to the pending batch: it is
// answered when the version has moved on, so that no earlier attempt of the call
// can be applied any more, and then only if none was. The caller has the shard's
// lock.
func (a *activation) foldFailure(h *Host, c *call, r result) {
	if a.pending == nil {
		a.pending = h.newBatch(a)
	}
	b := a.pending
	b.turns++
	if !b.fence {
		b.fence = true
		if b.state == nil {
			b.after = a.tip.fenced(&b.commit)
			a.tip = b.after
			h.table.weigh(a)
		}
	}
	c.fenced = true
	b.hold(c, r, true)
}

// launch makes the pending batch the flight, if there is one and the last has
// landed. The caller has the shard's lock, and submits the result without it.
func (a *activation) launch(now time.Time) *batch {
	if a.flight != nil || a.pending == nil {
		return nil
	}
	a.flight, a.pending = a.pending, nil
	a.flight.began = now
	return a.flight
}

// landed ends a flight: err is the outcome of its commit, as that of
// [Host.commit]. What rests on it is answered, or goes again.
//
// now is when that was known.
func (h *Host) landed(b *batch, err error, now time.Time) {
	if err != nil {
		err = fmt.Errorf("commit turn: %w", err)
	}
	a, s := b.a, b.a.shard
	left := h.land(b, err, now)
	if errors.Is(err, actor.ErrKeyExists) {
		h.repeats.met(&a.key, now)
	}
	if !b.check() {
		h.events.Commit(CommitEnd{Key: b.commit.Key, Lane: LaneWarm, Duration: now.Sub(b.began), GroupSize: b.turns, Err: err})
	}
	h.finishOff(s, a, &left)
}

// land is the part of landed under the shard's lock.
func (h *Host) land(b *batch, err error, now time.Time) (left leftover) {
	a, s := b.a, b.a.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	a.flight, a.settling = nil, false
	if err == nil {
		a.settled(h, s, b, now, &left)
	} else {
		a.refuse(h, s, b, err, &left.answered)
	}
	h.release(b, err)
	a.admitted -= left.answered.len + left.doubtful.len
	a.callBytes -= left.answered.bytes + left.doubtful.bytes
	s.work.Add(left.doubtful.len) // before the activation's own is done
	if a.flight == nil && a.quiet != nil {
		close(a.quiet)
		a.quiet = nil
	}
	h.proceed(s, a, now, &left)
	return left
}

// settled takes over that the flight b was applied, or is a check that has held,
// and sends off the next one. The caller has the shard's lock.
func (a *activation) settled(h *Host, s *shard, b *batch, now time.Time, left *leftover) {
	if !b.check() {
		a.install(b.after)
		h.table.weigh(a)
	}
	if !a.outdated() {
		a.confirmed(b.began)
	}
	var later callList // what was seen after b took off, which proves nothing of it
	for c := b.calls.pop(); c != nil; c = b.calls.pop() {
		switch {
		case !c.wrote && !c.since.IsZero() && !b.began.After(c.since):
			later.push(c)
		case c.fenced:
			left.doubtful.add(c)
		default:
			c.held.stats.ended = now
			left.answered.add(c)
		}
	}
	left.launched = a.launch(now)
	if later.len == 0 {
		return
	}
	if a.flight == nil && a.outdated() {
		a.supersede(h, s, &later, &left.answered)
		return
	}
	if a.flight == nil {
		a.pending = h.newCheck(a)
		left.launched = a.launch(now)
	}
	for c := later.pop(); c != nil; c = later.pop() {
		a.flight.hold(c, c.held, a.flight.check())
	}
}

// supersede drops the activation's state, of which the store has a newer one, and
// lets the calls go again that ran on it. There is no batch. The caller has the
// shard's lock.
func (a *activation) supersede(h *Host, s *shard, calls *callList, answered *answers) {
	var again callList
	for c := calls.pop(); c != nil; c = calls.pop() {
		a.runAgain(c, actor.ErrStale, &again, answered)
	}
	h.table.forget(s, a)
	if !a.working {
		a.again.prepend(&again)
		return
	}
	a.refused = actor.ErrStale
	a.dropped.prepend(&again)
}

// refuse drops the activation's state after its flight b failed with err, and
// all that was built on it. Turns that b would have committed are answered,
// unless the store is sure that another commit came first; all others go again,
// in their order. The caller has the shard's lock.
func (a *activation) refuse(h *Host, s *shard, b *batch, err error, answered *answers) {
	var again callList
	refused := refusal(err)
	for c := b.calls.pop(); c != nil; c = b.calls.pop() {
		if c.wrote && !refused {
			c.held = result{err: cutShort(err), stats: c.stats}
			answered.add(c)
			continue
		}
		a.runAgain(c, err, &again, answered)
	}
	if a.pending != nil {
		for c := a.pending.calls.pop(); c != nil; c = a.pending.calls.pop() {
			a.runAgain(c, err, &again, answered)
		}
		h.memory.add(-a.pending.held)
		a.pending = nil
	}
	h.table.forget(s, a)
	if !a.working {
		a.again.prepend(&again)
		return
	}
	a.refused = err
	a.dropped.prepend(&again)
}

// runAgain puts a call that was run for nothing where it goes again, or answers it
// if something left the host with it. The caller has the shard's lock.
func (a *activation) runAgain(c *call, err error, again *callList, answered *answers) {
	if c.stats.left {
		c.held = result{err: cutShort(err), stats: c.stats}
		answered.add(c)
		return
	}
	c.goAgain(err)
	again.push(c)
}

// install makes l what is committed. The caller has the shard's lock.
func (p *speculation) install(l *loaded) {
	p.loaded = l
	if p.newest <= l.version {
		p.shown, p.newest = nil, 0
	}
}

// committed returns what readers see, nil if nothing is loaded that they may. The
// caller has the shard's lock.
func (p *speculation) committed() *loaded {
	if p.newest != 0 {
		return p.shown
	}
	return p.loaded
}

// takeDropped puts the calls that were dropped under a turn, or under a worker that
// had not begun one yet, where they go again. The caller has the shard's lock.
func (a *activation) takeDropped() {
	if a.refused != nil {
		a.refused = nil
		a.again.prepend(&a.dropped)
	}
}

// wasRefused tells that the state was dropped since the worker took its call. The
// caller has the shard's lock.
func (p *speculation) wasRefused() bool { return p.refused != nil }

// cutShort says what the end of the host's context means to the caller of a turn
// that it kept from being applied.
func cutShort(err error) error {
	if isContextError(err) && !errors.Is(err, actor.ErrAmbiguous) {
		return fmt.Errorf("%w: %v", actor.ErrStopping, err)
	}
	return err
}

// forget drops the state of an activation. The caller has the lock.
func (t *table) forget(s *shard, a *activation) {
	a.loaded, a.tip, a.shown, a.newest = nil, nil, nil, 0
	s.forgets++
	t.weigh(a)
}

// calmDown waits until all of the activation's state is committed. It reports
// whether the state was dropped instead: then what was to be done on it comes
// after the calls that go again. It is for the worker.
func (h *Host) calmDown(ctx context.Context, a *activation) (dropped bool, err error) {
	s := a.shard
	s.mu.Lock()
	if a.flight != nil && a.quiet == nil {
		a.quiet = make(chan struct{})
	}
	quiet := a.quiet
	dropped = a.wasRefused()
	s.mu.Unlock()
	if quiet == nil {
		return dropped, nil
	}
	select {
	case <-quiet:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return a.wasRefused(), nil
}
