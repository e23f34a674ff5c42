package host

import (
	"errors"
	"runtime"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/speculation"
	"github.com/greenroom-run/greenroom/host/turn"
)

// sliceTurns is after how many turns in a row a worker lets others have the
// processor: an actor with a full mailbox would keep it for as long as the
// scheduler lets it otherwise, turn after turn.
const sliceTurns = 32

// outcome is what came of one run of a call on its activation's worker.
type outcome struct {
	result
	// sealed is what a turn left that ran on the tip, under is what it ran under;
	// commits tells that there is something to commit.
	sealed  sealed
	under   *served
	commits bool
	// resting tells that the result may show what is not committed yet.
	resting bool
	// ended is when the guest was done; zero: not known.
	ended time.Time
	// since is the moment after which the state must have been the newest that a
	// resting result shows; zero if that does not matter. fails tells that it is the
	// failure of a call with a key.
	since time.Time
	fails bool
	// retry asks for the call to be run once more, after those that were dropped.
	retry bool
}

func failed(err error) outcome { return outcome{result: result{err: err}} }

// followUp is what a change of an activation leaves to be done when the lock of
// the shard is given back.
type followUp struct {
	launched *batch
	bring    bool // who does it only waits for the commit of launched
	answered answers
	doubtful answers // failures that are to be looked up; each has one of shard.work
	idle     bool    // the activation has no work any more
	gone     bool    // and has left the table
}

// answers are calls whose held results are to be sent. They are in no list any
// more, and nobody else has them but their callers, who wait.
type answers struct {
	first, last *call
	len         int
	bytes       int64 // their cost
}

// add takes a call that is in no list. The caller has the shard's lock.
func (l *answers) add(c *call) {
	if l.last != nil {
		l.last.next = c
	} else {
		l.first = c
	}
	l.last = c
	l.len++
	l.bytes += c.cost()
}

func (l *answers) send() {
	for c := l.first; c != nil; {
		next := c.next // the call is its caller's from the next line on
		c.answer()
		c = next
	}
}

// answer gives the call its held answer.
func (c *call) answer() {
	if c.receiver != nil {
		c.respond(c.held)
		return
	}
	c.answered <- struct{}{}
}

// work runs the turns of one actor, one after the other, until none can be run.
// A call is answered when the worker is already on to the next one or gone: who
// has an answer can rely on that.
func (h *Host) work(s *shard, a *activation) {
	var then followUp
	s.mu.Lock()
	c := s.pick(a)
	now := time.Now()
	h.proceed(s, a, now, &then)
	s.mu.Unlock()
	h.followThrough(s, a, &then)
	for turns := 1; c != nil; turns++ {
		o := h.run(a, c, now)
		c, now = h.dispose(s, a, c, &o, true)
		if turns%sliceTurns == 0 {
			runtime.Gosched()
		}
	}
}

// runHere runs a call that was just picked, on its caller's goroutine: an actor
// that was idle needs no other one. Calls that came meanwhile get a worker.
func (h *Host) runHere(a *activation, c *call) {
	o := h.run(a, c, c.arrived)
	h.dispose(a.shard, a, c, &o, false)
}

// run is turn, whose panic is the call's error.
func (h *Host) run(a *activation, c *call, now time.Time) (o outcome) {
	defer func() {
		if v := recover(); v != nil {
			o = failed(turn.Panicked(h.cfg.Logger, c.inv.Key, v))
		}
	}()
	return h.turn(a, c, now)
}

// pick takes out the call that the activation's worker is to run. Without one
// the worker ends. The caller has the lock.
func (s *shard) pick(a *activation) *call {
	var c *call
	if a.member.MayBegin() && !a.full() {
		if c = a.retries.pop(); c == nil {
			c = a.mailbox.pop()
		}
	}
	if c == nil {
		a.working = false
		return nil
	}
	a.member.Begin()
	s.running.push(c)
	if s.killed {
		c.killed.Store(true)
	}
	return c
}

// dispose puts a call that was run where it belongs by its outcome, and takes the
// next one if the worker goes on, which begins now.
func (h *Host) dispose(s *shard, a *activation, c *call, o *outcome, goOn bool) (next *call, now time.Time) {
	if now = o.ended; now.IsZero() {
		now = time.Now()
	}
	o.stats = c.stats
	var then followUp
	then.bring = !goOn && c.receiver == nil && h.cfg.Pipeline.CallersCommit
	s.mu.Lock()
	defer func() {
		s.mu.Unlock()
		h.followThrough(s, a, &then)
	}()
	s.running.remove(c)
	behind, dropped := a.member.End()
	switch {
	case dropped != nil && (o.resting || o.retry):
		// What it ran on, or would have, is gone.
		var again callList
		for _, earlier := range behind {
			a.runAgain(earlier, dropped, &again, &then.answered)
		}
		if o.resting {
			a.runAgain(c, dropped, &again, &then.answered)
		} else {
			again.push(c)
		}
		a.retries.prepend(&again)
		behind = nil
	case o.retry:
		a.retries.pushFront(c)
	case o.commits:
		a.fold(h, c, o.under, &o.sealed)
		then.launched = a.launch(now)
	case o.fails:
		a.foldFailure(h, c, o.result)
		then.launched = a.launch(now)
	case o.resting && !a.member.Quiet():
		h.hold(a.member.Latest(), c, o.result, speculation.Observer, o.since)
	case o.resting && a.outdated():
		a.supersede(h, s, []held{{Call: c, Home: &a.member}}, now, &then)
	case o.resting && !o.since.IsZero() && !h.currentSince(a, o.since):
		a.ask(h, c, o.result)
		then.launched = a.launch(now)
	default:
		c.held = o.result
		c.held.stats.ended = now
		then.answered.add(c)
	}
	var again callList
	for _, earlier := range behind {
		a.runAgain(earlier, dropped, &again, &then.answered)
	}
	a.retries.prepend(&again)
	a.admitted -= then.answered.len
	a.callBytes -= then.answered.bytes
	if goOn {
		next = s.pick(a)
	} else {
		a.working = false
	}
	h.proceed(s, a, now, &then)
	return next, now
}

// proceed sees to it that an activation with calls to run has a worker, and that
// one without any work is idle. The caller has the shard's lock.
func (h *Host) proceed(s *shard, a *activation, now time.Time, then *followUp) {
	if a.working {
		return
	}
	if a.member.MayBegin() && !a.full() && a.retries.len+a.mailbox.len > 0 {
		a.working = true
		go h.work(s, a)
		return
	}
	if !a.member.Quiet() {
		return
	}
	a.busy, a.lastUsed = false, now
	then.idle = true
	if a.empty() {
		then.gone = true
		h.table.remove(s, a)
	}
}

// followThrough does what is left, without the lock.
func (h *Host) followThrough(s *shard, a *activation, then *followUp) {
	if then.launched != nil && then.launched.in.Check() {
		h.sendCheck(then.launched)
		then.launched = nil
	}
	if then.launched != nil && !then.bring {
		h.submitted(then.launched, h.commits.Submit(then.launched))
	}
	if then.gone {
		h.deactivated(a, DeactivateDone)
	}
	then.answered.send()
	h.sendDoubtful(s, &then.doubtful)
	if then.idle {
		s.work.Done()
	}
	if then.launched != nil && then.bring { // last, since it takes as long as a commit
		h.submitted(then.launched, h.commits.Bring(then.launched))
	}
}

// submitted sees to a flight that the pipeline may have refused.
func (h *Host) submitted(b *batch, err error) {
	if err != nil {
		h.landed(b, err, time.Now())
	}
}

// refusal reports whether a commit was refused because another one came first.
func refusal(err error) bool {
	return errors.Is(err, actor.ErrStale) || errors.Is(err, actor.ErrKeyExists)
}

// goAgain readies a call whose run was for nothing, because of err, for the next.
func (c *call) goAgain(err error) {
	c.doubtful, c.looked = c.keyed(), nil
	if refusal(err) {
		c.conflicts++
		return
	}
	c.started = time.Time{} // its time was not lost by its own doing
}
