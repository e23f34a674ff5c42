package routing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/api/invokestream"
	"github.com/greenroom-run/greenroom/api/invokestream/caller"
	"github.com/greenroom-run/greenroom/host"
)

// routed is a call on its way; doc.go has the diagram. It is what its caller began.
type routed struct {
	routes *routes
	ctx    context.Context
	inv    actor.Invocation
	to     host.Receiver
	from   actor.HostID // the host that sent it, if one did; such a call goes to no third host
	// attempts and next belong to the goroutine that moves the call. next lets the next call of
	// the actor's line continue; nil if this call has not waited.
	attempts attempts
	next     func()

	mu      sync.Mutex
	stage   stage
	givenUp bool
	begun   host.Begun // while local, once the host has given it
	begins  int        // how often it was begun here: begun is of the last time
	sent    *sentCall  // while remote
	waiter  *waiter    // while waiting
	grace   *time.Timer
	lost    []copySent // hosts that had it and did not answer: it may have taken effect
}

// copySent is a copy of a call that was sent on a stream which has broken since.
type copySent struct {
	channel *channel
	stream  uint64
}

// mayArrive reports whether the copy may begin at its host yet. It does not once that host has answered the
// hello of a later stream, or is no member of the cluster any more.
func (s *copySent) mayArrive() bool {
	_, _, member := s.channel.p.self.cfg.Placement.Peer(s.channel.p.id)
	return member && s.channel.stream.Load() == s.stream
}

// stage is where a call is.
type stage uint8

const (
	stageMoving stage = iota // between the others
	stageLocal
	stageRemote
	stageWaiting
	stageAnswered
)

// route moves the call to where it belongs now. Only one goroutine at a time calls it.
func (c *routed) route() {
	if c.attempts.byReaders {
		c.attempts.byReaders = false
		if w, ok := c.routes.findReader(&c.inv, c.from != ""); ok && w.here {
			c.beginHere()
			return
		} else if ok {
			c.send(w.host, w.reader)
			return
		}
	}
	switch w := c.routes.find(c.inv.Key); {
	case w.here:
		c.beginHere()
	case w.host != "" && w.host == c.from && !c.attempts.forgot:
		// The host that sent the call does not hold the actor any more, or not yet.
		c.attempts.forgot = true
		c.routes.cfg.Placement.Learned(c.inv.Key, "")
		c.route()
	case w.host != "" && c.from != "":
		c.answer(actor.Reply{}, &NotOwnerError{Owner: w.host})
	case w.host != "":
		c.send(w.host, false)
	case w.away != "":
		c.fail(&actor.HostAwayError{Name: w.away})
	case w.lost && c.from != "":
		c.answer(actor.Reply{}, &NotOwnerError{}) // the sender may by now find the host that has it
	case w.lost:
		c.fail(actor.ErrUnavailable)
	default:
		c.wait(w.wait)
	}
}

// enter puts the call into a stage. If the call has been given up, enter answers it and returns
// false.
func (c *routed) enter(s stage) bool {
	c.mu.Lock()
	if !c.givenUp {
		c.stage = s
		c.mu.Unlock()
		return true
	}
	c.mu.Unlock()
	c.fail(contextError(c.ctx))
	return false
}

// beginHere hands the call to the local host.
func (c *routed) beginHere() {
	if !c.enter(stageLocal) {
		return
	}
	c.mu.Lock()
	c.begins++
	n := c.begins
	c.mu.Unlock()
	begun := c.routes.cfg.Local.Begin(c.ctx, c.inv, (*localReceiver)(c))
	c.mu.Lock()
	if c.stage != stageLocal || c.begins != n {
		c.mu.Unlock()
		return
	}
	c.begun = begun
	givenUp := c.givenUp
	c.mu.Unlock()
	if givenUp { // while it began
		begun.GiveUp()
	}
}

// localReceiver is a call that the local host has.
type localReceiver routed

// Placed implements [host.PlacedReceiver].
func (l *localReceiver) Placed() {
	if l.next != nil {
		l.next()
	}
}

func (l *localReceiver) Answer(reply actor.Reply, err error) {
	c := (*routed)(l)
	if err == nil || !errors.Is(err, actor.ErrNotOwner) {
		c.answer(reply, err)
		return
	}
	c.mu.Lock()
	c.stage, c.begun = stageMoving, nil
	c.mu.Unlock()
	c.attempts.refused(here, "")
	go c.again() // it may run a turn, and must not block the caller of Answer
}

// again routes the call after it was refused, or has waited.
func (c *routed) again() {
	if c.routes.ctx.Err() != nil {
		c.fail(actor.ErrStopping)
		return
	}
	w := c.routes.find(c.inv.Key)
	switch {
	case !w.here && c.attempts.redirects >= maxRedirects:
		c.fail(c.attempts.exhausted())
	case w.wait == nil && !c.attempts.mayTry(w.id()):
		c.wait(nil)
	default:
		c.route()
	}
}

// wait keeps the call until on is closed, or for a pause if on is nil.
func (c *routed) wait(on <-chan struct{}) {
	limit, err := c.attempts.wait(c.routes.cfg.MaxWait, on != nil)
	if err != nil {
		c.fail(err)
		return
	}
	c.mu.Lock()
	if c.givenUp {
		c.mu.Unlock()
		c.fail(contextError(c.ctx))
		return
	}
	// Its wake-up may come before the waiter is noted, and then waits for mu.
	e, err := c.routes.waiting.enter(c.inv.Key, int64(len(c.inv.Payload.Data)), on, limit, c.woken)
	if err == nil {
		c.stage, c.waiter = stageWaiting, e
	}
	c.mu.Unlock()
	if err != nil {
		c.fail(err)
	}
}

func (c *routed) woken(next func()) {
	c.mu.Lock()
	c.stage, c.waiter = stageMoving, nil
	c.mu.Unlock()
	defer next()
	c.next = next
	c.again()
}

// send hands the call to a peer, or to a reader of its actor.
func (c *routed) send(id actor.HostID, reader bool) {
	p := c.routes.peers.get(id)
	if p == nil {
		c.attempts.unreachable(id, "its host is not a member of the cluster any more")
		c.wait(nil)
		return
	}
	s := &sentCall{c: c, peer: p, channel: p.channel(c.inv.Key), reads: reader || c.inv.ReadOnly}
	s.Waiter = s
	s.Deadline, _ = c.ctx.Deadline()
	s.Inv = forwardedInvocation(&c.inv)
	s.Inv.ReadOnly = s.reads // a reader that holds the actor by now may have a newer deployment
	if p.protocol >= protocolCaller {
		s.Inv.Caller, s.Inv.RefusedBy = c.inv.Token, string(c.attempts.refusedBy)
	}
	if p.protocol >= protocolTrace {
		s.Inv.Traceparent, s.Inv.Tracestate = c.inv.Trace.Headers()
	}
	if err := errors.Join(c.addFiring(s, p), s.addOrigin(), s.addTell()); err != nil {
		c.fail(err)
		return
	}
	if full := s.reserve(); full != nil {
		c.attempts.unreachable(id, full.Error())
		c.wait(nil)
		return
	}
	c.mu.Lock()
	if c.givenUp {
		c.mu.Unlock()
		s.release()
		c.fail(contextError(c.ctx))
		return
	}
	c.stage, c.sent = stageRemote, s
	c.mu.Unlock()
	if !s.channel.Push(&s.Call) { // it is closed: nothing was sent
		s.Err = &unsentError{"its host has left the cluster"}
		s.Finished(&s.Call)
	}
}

// addFiring adds the firing of the call, if it has one. A peer that knows no firings would run the
// call without its firing.
func (c *routed) addFiring(s *sentCall, p *peer) (err error) {
	if c.inv.Firing == nil {
		return nil
	}
	if p.protocol < protocolCaller {
		return noOwner("its host speaks a protocol without reminders")
	}
	if (c.inv.Firing.Message != nil || c.inv.Firing.Pull != nil) && p.protocol < protocolMessages {
		return noOwner("its host %s speaks a protocol without messages and events of actors; upgrade it", p.id)
	}
	s.Inv.Firing, err = invokestream.EncodeFiring(c.inv.Firing)
	return err
}

// sentCall is a call that is sent to a peer, or queued for it.
type sentCall struct {
	caller.Call
	c       *routed
	peer    *peer
	channel *channel
	// reads: the peer runs it as read-only, so it may be sent again.
	reads bool

	released atomic.Bool
}

// addOrigin adds the turn that makes the call, if one does. A peer that knows no origins would run
// the called turn without a caller, and actors that call each other in a circle would wait.
func (s *sentCall) addOrigin() (err error) {
	if s.c.inv.Method == actor.MethodAll && s.peer.protocol < protocolOrigin {
		return noOwner("its host %s speaks a protocol without transactions over several actors; upgrade it", s.peer.id)
	}
	if s.c.inv.Origin == nil {
		return nil
	}
	if s.peer.protocol < protocolOrigin {
		return noOwner("its host %s speaks a protocol without calls of actors; upgrade it", s.peer.id)
	}
	s.Inv.Origin, err = invokestream.EncodeOrigin(s.c.inv.Origin)
	return err
}

// addTell adds the volatile message that asks for the call, if one does.
func (s *sentCall) addTell() (err error) {
	if s.c.inv.Message == nil {
		return nil
	}
	if s.peer.protocol < protocolMessages {
		return noOwner("its host %s speaks a protocol without messages; upgrade it", s.peer.id)
	}
	s.Inv.Tell, err = invokestream.EncodeTell(s.c.inv.Message)
	return err
}

// reserve counts the call in the usage of its channel, or returns the bound that it exceeds.
func (s *sentCall) reserve() error {
	return s.channel.usage.take(s.Inv.Key.App, int64(len(s.Inv.Payload.Data)))
}

// release undoes reserve, once.
func (s *sentCall) release() {
	if s.released.CompareAndSwap(false, true) {
		s.channel.usage.give(s.Inv.Key.App, int64(len(s.Inv.Payload.Data)))
	}
}

// Finished implements [caller.Waiter].
func (s *sentCall) Finished(*caller.Call) {
	c, events := s.c, &s.c.routes.cfg.Events
	s.release()
	c.mu.Lock()
	if c.stage != stageRemote || c.sent != s {
		c.mu.Unlock()
		return // answered in the meantime
	}
	c.stage, c.sent = stageMoving, nil
	c.mu.Unlock()
	var unsent *unsentError
	wire := s.Reply.Error
	kind := wire.GetDetail().GetKind()
	switch {
	case errors.As(s.Err, &unsent):
		c.attempts.unreachable(s.peer.id, unsent.Error())
	case s.Err != nil && (s.reads || c.inv.IdempotencyKey != "" || c.inv.Firing != nil): // may be sent twice
		events.Forwarded("lost")
		c.attempts.unreachable(s.peer.id, s.Err.Error())
		c.mu.Lock()
		if c.inv.Firing != nil { // it may have been delivered
			again := *c.inv.Firing
			again.Fresh = false
			c.inv.Firing = &again
		}
		if !s.reads {
			c.lost = append(c.lost, copySent{s.channel, s.channel.stream.Load()})
		}
		c.mu.Unlock()
	case s.Err != nil:
		events.Forwarded("lost")
		c.fail(actor.ErrAmbiguous)
		return
	case wire == nil:
		events.Forwarded("reply")
		reply := actor.Reply{
			Payload: s.Reply.Payload, Version: s.Reply.Version, Fuel: s.Reply.Fuel, Host: s.peer.api(),
			Joined: s.Reply.Joined, Callbacks: s.Reply.Callbacks, Marked: s.Reply.Marked,
		}
		c.answer(reply, nil)
		return
	case kind == string(actor.ErrNotOwner.Kind()):
		events.Forwarded("redirect")
		c.attempts.refused(s.peer.id, actor.HostID(s.Reply.Owner))
		c.routes.cfg.Placement.Learned(c.inv.Key, actor.HostID(s.Reply.Owner))
	case s.reads && !c.inv.ReadOnly && kind == string(actor.ErrNotReadOnly.Kind()): // it has not begun
		events.Forwarded("refused")
		c.attempts.unreachable(s.peer.id, "a reader's newer deployment has a method that may change the actor")
	case hasNotBegun(kind):
		events.Forwarded("refused")
		c.attempts.unreachable(s.peer.id, "its host refused it: "+wire.GetMessage())
	case (kind == string(actor.ErrCanceled.Kind()) || kind == string(actor.ErrDeadline.Kind())) && isOver(c.ctx):
		// The peer knows neither why the call was cancelled nor the caller's whole timeout, so
		// this host words the error.
		events.Forwarded("reply")
		c.fail(contextError(c.ctx))
		return
	default:
		events.Forwarded("reply")
		c.answer(actor.Reply{Host: s.peer.api()}, newRemoteError(wire))
		return
	}
	go c.again() // others wait for their replies
}

// GiveUp implements [host.Begun].
func (c *routed) GiveUp() {
	c.mu.Lock()
	c.givenUp = true
	stage, begun, sent, waiter := c.stage, c.begun, c.sent, c.waiter
	c.mu.Unlock()
	switch stage {
	case stageLocal:
		if begun != nil { // otherwise beginHere gives it up
			begun.GiveUp()
		}
	case stageRemote:
		if sent.channel.Cancel(&sent.Call) {
			sent.release()
			c.fail(contextError(c.ctx))
			return
		}
		c.awaitOutcome()
	case stageWaiting:
		if waiter.leave() {
			c.fail(contextError(c.ctx))
		}
	case stageMoving, stageAnswered: // who moves it finds out
	}
}

// awaitOutcome bounds the wait for the outcome of a call that a peer was asked to end.
func (c *routed) awaitOutcome() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stage != stageRemote || c.grace != nil {
		return
	}
	sent := c.sent
	c.grace = time.AfterFunc(c.routes.cfg.SettleGrace, func() {
		err := error(actor.ErrAmbiguous)
		if sent.reads {
			err = contextError(c.ctx)
		}
		if was, abandoned := sent.channel.Abandon(&sent.Call, false); abandoned && !was {
			err = contextError(c.ctx)
		}
		c.fail(err)
	})
}

// fail answers the call with an error of this host.
func (c *routed) fail(err error) {
	c.answer(actor.Reply{}, &actor.TurnError{Key: c.inv.Key, Method: c.inv.Method, Err: err})
}

// answer answers the call, unless it has an answer.
func (c *routed) answer(reply actor.Reply, err error) {
	c.mu.Lock()
	if c.stage == stageAnswered {
		c.mu.Unlock()
		return
	}
	sent, lost := c.sent, c.lost
	c.stage, c.begun, c.sent, c.waiter = stageAnswered, nil, nil, nil
	if c.grace != nil {
		c.grace.Stop()
	}
	c.mu.Unlock()
	if sent != nil { // its slot stays taken until the peer's reply
		sent.release()
	}
	if len(lost) > 0 {
		err = afterLost(&c.inv, err, slices.ContainsFunc(lost, func(s copySent) bool { return s.mayArrive() }))
	}
	c.to.Answer(reply, err)
}

// afterLost returns the error of a call with an idempotency key whose last attempt ended in err,
// while an earlier attempt may have taken effect. A reply, and an error of the guest, hold for all
// attempts: a reply is the earlier attempt's if that took effect, and an error of the guest comes
// after a commit that excludes it. All other errors hold for the last attempt only. The error "not
// reentrant" is one of them: the chain may hold the actor because of the earlier attempt.
// The error "canceled" of an actor's call ends its caller, whatever happened to the call. If an earlier copy
// may arrive yet, at a host which holds the actor again by then, the guest's error does not exclude it.
func afterLost(inv *actor.Invocation, err error, mayArrive bool) error {
	cond := actor.AsCondition(err)
	var guest *actor.GuestError
	reentrant := errors.As(err, &guest) && guest.Code == abi.CallNotReentrant
	mayArrive = mayArrive && inv.IdempotencyKey != "" // the reminder of a firing has another version after a failure
	if err == nil || cond == nil && !reentrant && !mayArrive || cond == actor.ErrAmbiguous || cond == actor.ErrKeyReused || cond == actor.ErrCanceled && inv.Origin != nil {
		return err
	}
	return &actor.TurnError{Key: inv.Key, Method: inv.Method, Err: fmt.Errorf("%w: the host that had it did not answer, and then: %v", actor.ErrAmbiguous, err)}
}
