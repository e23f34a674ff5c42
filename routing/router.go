package routing

import (
	"context"
	cryptorand "crypto/rand"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/scheduler/clock"
)

// Router brings calls to the hosts that hold their actors. It looks like a host to the
// server. Its methods may be called concurrently.
type Router struct {
	routes
	inbound inbound
	end     context.CancelFunc // of everything in the background

	mu      sync.Mutex
	started bool
	stopped bool
	running sync.WaitGroup // the janitor
}

var _ Host = (*Router)(nil)

// New returns a router that is not started. An error names the field of cfg and the
// remedy.
func New(cfg Config) (*Router, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	r := &Router{
		routes:  routes{cfg: cfg, waiting: newWaiting(cfg.MaxWaiting, cfg.MaxWaitingBytes)},
		inbound: inbound{open: map[inboundChannel]*inboundStream{}},
	}
	r.ctx, r.end = context.WithCancel(context.Background())
	r.peers = &peers{ctx: r.ctx, client: r.cfg.HTTPClient, all: map[actor.HostID]*peer{}}
	r.peers.cfg, r.peers.process = &r.cfg, cryptorand.Text()
	return r, nil
}

// Start begins to look after sessions, in the background.
func (r *Router) Start(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.started || r.stopped {
		return errors.New("routing: Start was called before, or Stop; make a new Router")
	}
	r.started = true
	r.running.Go(r.peers.removeGone)
	return nil
}

// Drain ends all waits for an owner: calls without an owner get actor.ErrStopping, and calls with
// an owner are forwarded as before. It is for a process that has handed its actors over and is
// about to stop. It is safe twice.
func (r *Router) Drain() { r.waiting.close() }

// Stop answers calls that wait for an owner with actor.ErrStopping, waits for the answers of peers for half of
// the time that ctx has left, and ends all sessions. Peers cancel the calls that they have not answered by then,
// and these end as if the session had broken. Stop is safe twice and before Start.
func (r *Router) Stop(ctx context.Context) error {
	r.mu.Lock()
	r.stopped = true
	r.mu.Unlock()
	r.waiting.close()
	r.awaitPeers(ctx)
	r.end()
	r.peers.stop()
	r.running.Wait()
	return nil
}

// awaitPeers waits until peers have answered what they were sent, for half of the time that ctx has left: what
// stops after the router needs some, too. Most of these calls bring messages that actors sent as they left. No
// channel counts a call for the moment in which it goes on to another peer, so two looks in a row must find none.
func (r *Router) awaitPeers(ctx context.Context) {
	ctx, cancel := half(ctx)
	defer cancel()
	for quiet := 0; quiet < 2; quiet++ {
		if r.peers.underWay() {
			quiet = -1
		}
		if !clock.Pause(ctx, stopPause) {
			return
		}
	}
}

// half returns a context that ends after half of the time that ctx has left.
func half(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(end)/2)
}

// stopPause is how often Stop looks whether peers have answered.
const stopPause = 5 * time.Millisecond

// Invoke implements the server's Host: see [host.Host.Invoke]. It may also return
// actor.ErrNoOwner and a [*RemoteError].
func (r *Router) Invoke(ctx context.Context, inv actor.Invocation) (actor.Reply, error) {
	if inv.ID == "" {
		inv.ID = cryptorand.Text()
	}
	here, asReader := r.find(inv.Key).here, false
	if !here {
		asReader = r.reads(inv)
	}
	if here || asReader { // the hot path: nothing is allocated for what is held here
		reply, err := r.cfg.Local.Invoke(ctx, inv)
		if err == nil || !errors.Is(err, actor.ErrNotOwner) {
			return reply, err
		}
	}
	to := awaited{make(chan answer, 1)}
	b := r.begin(ctx, inv, to, "", !asReader)
	select {
	case a := <-to.answered:
		return a.reply, a.err
	case <-ctx.Done():
		b.GiveUp()
		a := <-to.answered // within Config.SettleGrace
		return a.reply, a.err
	}
}

// answer is what a [host.Receiver] gets.
type answer struct {
	reply actor.Reply
	err   error
}

// awaited is a receiver whose caller waits.
type awaited struct{ answered chan answer } // of capacity 1

// Answer implements [host.Receiver].
func (a awaited) Answer(reply actor.Reply, err error) { a.answered <- answer{reply, err} }

// Begin implements the server's Host: see [host.Host.Begin]. It blocks only as the local host
// does.
func (r *Router) Begin(ctx context.Context, inv actor.Invocation, to host.Receiver) host.Begun {
	if inv.ID == "" {
		inv.ID = cryptorand.Text()
	}
	return r.begin(ctx, inv, to, "", true)
}

// begin begins a call; readers may answer it if that is allowed.
func (r *Router) begin(ctx context.Context, inv actor.Invocation, to host.Receiver, from actor.HostID, byReaders bool) host.Begun {
	c := &routed{routes: &r.routes, ctx: ctx, inv: inv, to: to, from: from, attempts: attempts{byReaders: byReaders}}
	c.route()
	return c
}

// Locate returns the host that holds an actor, once that is known, and this host. If this
// host does not know better than another one, the answer may be old. It waits as calls do:
// [actor.ErrNoOwner] if that takes too long.
func (r *Router) Locate(ctx context.Context, key actor.Key) (holder, self actor.HostID, err error) {
	self = r.cfg.Placement.Self()
	for t := (attempts{}); ; {
		w := r.find(key)
		switch {
		case w.here:
			return self, self, nil
		case w.host != "":
			return w.host, self, nil
		case w.away != "":
			return "", self, &actor.HostAwayError{Name: w.away}
		case w.lost:
			return "", self, actor.ErrUnavailable
		}
		if err := r.awaitChange(ctx, key, &t, w.wait); err != nil {
			return "", self, err
		}
	}
}

// Delete implements the server's Host: see [host.Host.Delete].
func (r *Router) Delete(ctx context.Context, key actor.Key) error {
	return r.bring(ctx, key, "", func(ctx context.Context) error { return r.cfg.Local.Delete(ctx, key) },
		func(ctx context.Context, p *peer, refusedBy actor.HostID) error { return p.delete(ctx, key, refusedBy) })
}

// View implements the server's Host: see [host.Host.View]. If the actor's host cannot answer, this
// host answers from the store, which all hosts share; it does not know whether the actor is in
// memory.
func (r *Router) View(ctx context.Context, key actor.Key) (host.View, error) {
	var v host.View
	local := func(ctx context.Context) (err error) {
		v, err = r.cfg.Local.View(ctx, key)
		return err
	}
	w := r.find(key)
	p := r.peers.get(w.host)
	if w.here || p == nil {
		err := local(ctx)
		return v, err
	}
	var err error
	if v, err = p.view(ctx, key); err != nil && ctx.Err() == nil && !isAnswer(err) {
		err = local(ctx)
	}
	return v, err
}

// isAnswer reports whether an error is a peer's answer about the actor.
func isAnswer(err error) bool {
	var remote *RemoteError
	return errors.As(err, &remote) && !errors.Is(err, actor.ErrNotOwner) && !errors.Is(err, actor.ErrStopping)
}

// bring brings an operation that belongs to no stream to the host of its actor. from is the
// host that sent the operation; empty if none did. there receives, as refusedBy, the host
// that refused the operation last; empty if none did.
func (r *Router) bring(ctx context.Context, key actor.Key, from actor.HostID, local func(context.Context) error, there func(ctx context.Context, p *peer, refusedBy actor.HostID) error) error {
	var t attempts
	for {
		w := r.find(key)
		switch {
		case w.away != "":
			return &actor.TurnError{Key: key, Err: &actor.HostAwayError{Name: w.away}}
		case w.lost && from != "":
			return &NotOwnerError{}
		case w.lost:
			return &actor.TurnError{Key: key, Err: actor.ErrUnavailable}
		case !w.here && t.redirects >= maxRedirects:
			return &actor.TurnError{Key: key, Err: t.exhausted()}
		case w.wait == nil && !t.mayTry(w.id()):
		case w.here:
			if err := local(ctx); !errors.Is(err, actor.ErrNotOwner) {
				return err
			}
			t.refused(here, "")
			continue
		case w.host != "" && w.host == from && !t.forgot: // see routed.route
			t.forgot = true
			r.cfg.Placement.Learned(key, "")
			continue
		case w.host != "" && from != "":
			return &NotOwnerError{Owner: w.host}
		case w.host != "":
			p := r.peers.get(w.host)
			if p == nil {
				t.unreachable(w.host, errGone.Error())
			} else if err := there(ctx, p, t.refusedBy); !t.mayRetry(r.cfg.Placement, key, w.host, err) {
				return err
			}
			continue
		}
		if err := r.awaitChange(ctx, key, &t, w.wait); err != nil {
			return &actor.TurnError{Key: key, Err: err}
		}
	}
}

// awaitChange waits until on is closed, or for a pause, before the next attempt.
func (r *Router) awaitChange(ctx context.Context, key actor.Key, t *attempts, on <-chan struct{}) error {
	limit, err := t.wait(r.cfg.MaxWait, on != nil)
	if err != nil {
		return err
	}
	woken := make(chan struct{})
	e, err := r.waiting.enter(key, 0, on, limit, func(next func()) {
		close(woken)
		next()
	})
	if err != nil {
		return err
	}
	select {
	case <-woken:
	case <-ctx.Done():
		e.leave()
		return contextError(ctx)
	}
	if r.ctx.Err() != nil {
		return actor.ErrStopping
	}
	return nil
}

// Waiting returns how many calls wait for an owner, and the bytes of their payloads.
func (r *Router) Waiting() (calls int, bytes int64) { return r.waiting.count() }

// Unreachable returns the hosts that this one had calls for and could not open a session to, in
// order of their addresses.
func (r *Router) Unreachable() []Unreachable {
	var all []Unreachable
	for _, p := range r.peers.list() {
		p.mu.Lock()
		if p.failure != "" {
			all = append(all, Unreachable{p.id, p.address, p.failure})
		}
		p.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b Unreachable) int { return strings.Compare(a.Address, b.Address) })
	return all
}

// Session implements [host.Peers]: it returns a context that ends when the present session to a
// host breaks. If none is open, it has one opened, and the context also ends if that fails. If the
// host is no member, the context has ended already.
func (r *Router) Session(id actor.HostID) context.Context {
	p := r.peers.get(id)
	if p == nil {
		ended, end := context.WithCancel(r.ctx)
		end()
		return ended
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == 0 {
		p.channels[0].Connect()
	}
	return p.whole
}
