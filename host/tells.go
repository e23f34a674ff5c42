package host

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/children"
	"github.com/greenroom-run/greenroom/host/residency"
	"github.com/greenroom-run/greenroom/host/serving"
	"github.com/greenroom-run/greenroom/host/tell"
	"github.com/greenroom-run/greenroom/host/timer"
)

// tells delivers the volatile messages of turns: to the mailboxes of this host's actors, and
// through Config.Peers to those of others.
type tells struct {
	admission *admission
	peers     Peers // nil: there are none
	logger    *slog.Logger
	failed    func(TellFailed)
	newTrace  func() *actor.Trace // nil: messages have no traces
	told      func(Told)

	mu sync.Mutex
	// away has what goes to other hosts, by app: an app may have to wait for another host.
	away map[string]*awayBox
	work sync.WaitGroup // calls of stateless types, which have no mailbox
}

// TellFailed is a volatile message that was not delivered, or whose turn has failed.
type TellFailed struct {
	From, To actor.Key
	Method   string
	Err      error
}

// Told is the delivery of a volatile message in a sampled trace.
type Told struct {
	To     actor.Key
	Method string
	Trace  *actor.Trace
	Link   actor.SpanLink // of the message
	Began  time.Time
	Err    error
}

// deliver puts a message into its receiver's mailbox. It does not wait for turns.
func (ts *tells) deliver(t *actor.Tell) {
	c := ts.newCall(t)
	r := call.Result{Err: ts.related(t)}
	if r.Err == nil {
		r = ts.admission.admitTold(c, &ts.work)
	}
	switch {
	case errors.Is(r.Err, actor.ErrNotOwner):
		ts.moved(t)
	case !r.Later:
		ts.admission.answering.Respond(c, r)
	}
}

// related says why a message may not be delivered to or from a volatile child.
func (ts *tells) related(t *actor.Tell) error {
	from := cmp.Or(t.Message.By, t.Message.From)
	notice := t.Message.Failed != "" // it outlives the child that it names
	if !t.To.IsAnonymous() && (!from.IsAnonymous() || notice) || ts.admission.table.Children.Related(from, t.To) {
		return nil
	}
	return children.ErrUnrelated
}

// newCall returns the call that delivers a message here.
func (ts *tells) newCall(t *actor.Tell) *call.Call {
	r := &told{by: ts, tell: *t}
	inv := ts.invocation(r)
	c := &call.Call{Request: call.Request{Ctx: context.Background(), Op: call.OpInvoke, Cause: inv.Cause(), Arrived: time.Now(), Inv: inv}}
	c.Receiver = r
	return c
}

// invocation is what delivers the message of r, which it refers to.
func (ts *tells) invocation(r *told) actor.Invocation {
	t := &r.tell
	inv := actor.Invocation{ID: ts.admission.newName(), Key: t.To, Method: t.Method, Payload: t.Payload, Message: &t.Message}
	if ts.newTrace == nil {
		return inv
	}
	if inv.Trace = ts.newTrace(); inv.Trace.IsSampled() {
		r.trace, r.began = inv.Trace, time.Now()
	}
	return inv
}

// told is the receiver of a call that delivers a message.
type told struct {
	by   *tells
	tell actor.Tell
	away bool // the call was given to Peers

	trace *actor.Trace // of the call; nil: it is not sampled
	began time.Time
}

// Answer implements [Receiver].
func (r *told) Answer(_ actor.Reply, err error) {
	if errors.Is(err, actor.ErrNotOwner) && r.tell.To.IsAnonymous() { // its parent has moved, and it is gone
		err = children.ErrUnrelated
	}
	if !r.away && errors.Is(err, actor.ErrNotOwner) { // the actor has moved while it waited
		r.by.moved(&r.tell)
		return
	}
	later := r.tell.Ended != nil && (again(err) || timer.Unserved(err)) // what serves it may be deployed again
	if r.tell.Ended != nil {
		r.tell.Ended(later)
	}
	if r.trace != nil {
		r.by.told(Told{To: r.tell.To, Method: r.tell.Method, Trace: r.trace, Link: r.tell.Link, Began: r.began, Err: err})
	}
	if err != nil && !later {
		r.by.undelivered(&r.tell, err)
	}
}

// moved has a message follow its receiver to another host. A notice with a list stays: its watch asks again.
func (ts *tells) moved(t *actor.Tell) {
	if t.Ended != nil {
		t.Ended(true)
		return
	}
	ts.sendAway(t)
}

// undelivered reports a message that no turn has consumed, and gives it back to its sender, if
// that has asked for it.
func (ts *tells) undelivered(t *actor.Tell, err error) {
	m := &t.Message
	if m.Disconnected && again(err) {
		s := ts.admission.table.Shard(t.To)
		s.Mu.Lock()
		defer s.Mu.Unlock()
		s.Timers.Repeat(*t)
		return
	}
	sender := m.From
	if m.By.ID != "" {
		sender = m.By
	}
	ts.failed(TellFailed{From: sender, To: t.To, Method: t.Method, Err: err})
	ts.logger.Warn("message not delivered", "app", t.To.App, "actor_type", t.To.Type, "actor_id", t.To.ID, "method", t.Method,
		"from_type", sender.Type, "from_id", sender.ID, "error", err)
	if m.Undelivered == "" || errors.Is(err, actor.ErrStopping) {
		return
	}
	back := actor.Tell{To: sender, Method: m.Undelivered, Payload: t.Payload, Message: actor.Message{From: t.To, Cookie: m.Cookie, Failed: codeOf(err)}, Link: t.Link}
	ts.admission.table.Shard(sender).Outbox.Put(back)
}

// again reports whether the turn of a message has not begun, and may later: a notice of a watch is
// not lost for want of room.
func again(err error) bool {
	cond := actor.AsCondition(err)
	return cond != nil && cond.Retryable() && !errors.Is(err, actor.ErrStopping)
}

// hosts says which host holds an actor: it is a [turn.Hosts].
type hosts struct{ peers Peers }

// Session implements [turn.Hosts].
func (h hosts) Session(ctx context.Context, key actor.Key) (context.Context, error) {
	holder, self, err := h.peers.Locate(ctx, key)
	if err != nil || holder == self {
		return nil, err
	}
	return h.peers.Session(holder), nil
}

// codeOf is the word for the failure of a turn.
func codeOf(err error) string {
	var guest *actor.GuestError
	if errors.As(err, &guest) && guest.Code != "" {
		return guest.Code
	}
	if cond := actor.AsCondition(err); cond != nil {
		return string(cond.Kind())
	}
	return "failed"
}

// awayBox has the messages of an app to actors of other hosts. tells.mu guards waiting, which
// counts them.
type awayBox struct {
	tell.Outbox
	waiting int
}

// sendAway has Peers deliver a message, behind others of its app.
func (ts *tells) sendAway(t *actor.Tell) {
	if ts.peers == nil || cmp.Or(t.Message.By, t.Message.From).IsAnonymous() { // whose parent has moved
		ts.undelivered(t, actor.ErrNotOwner)
		return
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	box := ts.away[t.To.App]
	if box == nil {
		box = new(awayBox)
		box.Init(func(t *actor.Tell) { ts.deliverAway(box, t) })
		if ts.away == nil {
			ts.away = map[string]*awayBox{}
		}
		ts.away[t.To.App] = box
	}
	box.waiting++
	box.Put(*t)
}

// deliverAway gives a message of a box to Peers.
func (ts *tells) deliverAway(box *awayBox, t *actor.Tell) {
	r := &told{by: ts, tell: *t, away: true}
	ts.peers.Begin(context.Background(), ts.invocation(r), r)
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if box.waiting--; box.waiting == 0 {
		delete(ts.away, t.To.App)
	}
}

// stop waits until nothing waits to be delivered. No turn is answered any more.
func (ts *tells) stop() {
	for i := range ts.admission.table.Shards {
		ts.admission.table.Shards[i].Outbox.Wait()
	}
	ts.work.Wait()
}

// admitTold is admit for a volatile message. work counts what it leaves to another goroutine.
func (ad *admission) admitTold(c *call.Call, work *sync.WaitGroup) call.Result {
	s, m, err := ad.Find(c)
	if err != nil {
		return call.Result{Err: err}
	}
	// As in admit.
	c.Inv.Key.App, c.Inv.Key.Type, c.Inv.Method = s.Deployment.App, s.Deployment.Type, m.Name
	if c.Inv.Key.IsAnonymous() {
		return ad.admitChild(c, s)
	}
	if s.Lane != serving.LaneStateless {
		return ad.queued(c, s, false)
	}
	work.Go(func() {
		ad.answering.Respond(c, ad.alone(c, s, func(ctx *call.Context, c *call.Call, s *serving.Type, warm *residency.Row) (actor.Reply, error) {
			return ad.stateless.Turn(ctx, c, s, warm)
		}))
	})
	return call.Result{Later: true}
}
