package routing

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"github.com/cespare/xxhash/v2"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/api/invokestream"
	"github.com/greenroom-run/greenroom/api/invokestream/caller"
)

// peers are the sessions to other hosts, each opened when there is a call for it.
type peers struct {
	ctx    context.Context //nolint:containedctx // of everything in the background
	cfg    *Config
	client *http.Client
	// process names this process in the hellos of streams, and opened counts the streams.
	process string
	opened  atomic.Uint64

	mu      sync.RWMutex
	all     map[actor.HostID]*peer
	stopped bool
}

const (
	// removeEvery is how often sessions are closed to hosts that are no members any more.
	removeEvery = 500 * time.Millisecond
	// minReopen and maxReopen bound the growing pauses between attempts to open a
	// channel.
	minReopen = 20 * time.Millisecond
	maxReopen = 500 * time.Millisecond
)

// scheme is that of the addresses of peers.
func (ps *peers) scheme() string {
	if ps.cfg.TLS != nil {
		return "https://"
	}
	return "http://"
}

// get returns a peer; nil if it is no member of the cluster, or speaks no protocol that
// this host speaks.
func (ps *peers) get(id actor.HostID) *peer {
	ps.mu.RLock()
	p := ps.all[id]
	ps.mu.RUnlock()
	if p != nil {
		return p
	}
	address, protocol, ok := ps.cfg.Placement.Peer(id)
	if id == "" || !ok {
		return nil
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p := ps.all[id]; p != nil || ps.stopped {
		return p
	}
	p = ps.open(id, address, protocol)
	ps.all[id] = p
	return p
}

// open makes a peer, whose channels are opened when there are calls. Its caller holds
// mu.
func (ps *peers) open(id actor.HostID, address string, protocol int) *peer {
	base, cfg := ps.scheme()+address, ps.cfg
	p := &peer{
		ps: ps, id: id, address: address, protocol: protocol, session: session{broken: make(chan struct{})},
		streams: connect.NewClient[invokestream.Request, invokestream.Response](
			caller.WholeMessages{Client: ps.client}, base+greenroomv1connect.InterconnectServiceExchangeProcedure,
			connect.WithCodec(invokestream.Codec{}), connect.WithAcceptCompression("gzip", nil, nil)),
		unary: greenroomv1connect.NewInterconnectServiceClient(ps.client, base, connect.WithAcceptCompression("gzip", nil, nil)),
	}
	p.ctx, p.end = context.WithCancel(ps.ctx)
	bytes := newAccount("bytes of calls under way to that host", cfg.MaxWaitingBytes)
	for i := range cfg.Channels {
		ch := &channel{Stream: caller.New(cfg.MaxInFlight), p: p, number: uint32(i), usage: usage{newAccount("calls under way to that host", int64(cfg.MaxInFlight)), bytes}} //nolint:gosec // a small number
		p.channels = append(p.channels, ch)
		p.running.Go(ch.run)
	}
	return p
}

// removeGone closes the sessions to hosts that are no members any more: these hosts will not
// answer what was sent to them.
func (ps *peers) removeGone() {
	tick := time.NewTicker(removeEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			for _, p := range ps.list() {
				if _, _, ok := ps.cfg.Placement.Peer(p.id); !ok {
					ps.remove(p)
				}
			}
		case <-ps.ctx.Done():
			return
		}
	}
}

func (ps *peers) list() []*peer {
	ps.mu.RLock()
	defer ps.mu.RUnlock()
	var all []*peer
	for _, p := range ps.all {
		all = append(all, p)
	}
	return all
}

func (ps *peers) remove(p *peer) {
	ps.mu.Lock()
	delete(ps.all, p.id)
	ps.mu.Unlock()
	p.end()
	p.running.Wait()
}

func (ps *peers) stop() {
	ps.mu.Lock()
	ps.stopped = true
	ps.mu.Unlock()
	for _, p := range ps.list() {
		ps.remove(p)
	}
	ps.client.CloseIdleConnections()
}

// peer is another host.
type peer struct {
	ps       *peers
	id       actor.HostID
	address  string
	protocol int
	channels []*channel
	streams  *connect.Client[invokestream.Request, invokestream.Response]
	unary    greenroomv1connect.InterconnectServiceClient
	apiAddr  atomic.Pointer[string]

	ctx     context.Context
	end     context.CancelFunc
	running sync.WaitGroup // the owners of channels

	session
}

// session is the state of the channels to a peer.
type session struct {
	mu      sync.Mutex
	open    int           // channels
	broken  chan struct{} // closed when one breaks, and replaced
	failure string        // why no channel can be opened; empty: one could be
}

// channel returns the channel of an actor.
func (p *peer) channel(key actor.Key) *channel {
	return p.channels[xxhash.Sum64String(key.ID)%uint64(len(p.channels))]
}

// api returns where clients reach the peer; empty if it did not say.
func (p *peer) api() string {
	if a := p.apiAddr.Load(); a != nil {
		return *a
	}
	return ""
}

// authorize adds the token to a request in plain text.
func (p *peer) authorize(h http.Header) {
	if cfg := p.ps.cfg; cfg.Token != "" && cfg.TLS == nil {
		h.Set("Authorization", "Bearer "+cfg.Token)
	}
}

// hello is what this host says first.
func (p *peer) hello() *greenroomv1.ExchangeHello {
	return p.ps.hello(p.id)
}

func (ps *peers) hello(to actor.HostID) *greenroomv1.ExchangeHello {
	return &greenroomv1.ExchangeHello{
		Cluster: ps.cfg.Cluster, From: string(ps.cfg.Placement.Self()), To: string(to),
		MinProtocol: uint32(ps.cfg.MinProtocol), MaxProtocol: uint32(ps.cfg.MaxProtocol), //nolint:gosec // small numbers
		ApiAddress: ps.cfg.APIAddress,
	}
}

// opened notes that a channel is open.
func (p *peer) opened(h *greenroomv1.ExchangeHello) {
	api := h.GetApiAddress()
	p.apiAddr.Store(&api)
	p.mu.Lock()
	p.open++
	first, failure := p.open == 1, p.failure
	p.failure = ""
	p.mu.Unlock()
	if first {
		p.ps.cfg.Events.SessionOpened(p.id)
	}
	if failure != "" {
		p.ps.cfg.Logger.Info("a host of the cluster can be reached again", "host", string(p.id), "address", p.address)
	}
}

// broke notes that a channel has ended that was open.
func (p *peer) broke() {
	p.mu.Lock()
	p.open--
	last := p.open == 0
	close(p.broken)
	p.broken = make(chan struct{})
	p.mu.Unlock()
	if last {
		p.ps.cfg.Events.SessionBroken(p.id)
	}
}

// notOpened notes why a channel could not be opened.
func (p *peer) notOpened(why string) {
	p.mu.Lock()
	news := why != p.failure
	p.failure = why
	p.mu.Unlock()
	if news && p.ctx.Err() == nil {
		p.ps.cfg.Logger.Warn("a host of the cluster cannot be reached", "host", string(p.id), "address", p.address, "error", why)
	}
}

// Unreachable is a host that this one cannot talk to.
type Unreachable struct {
	Host    actor.HostID
	Address string
	Why     string // for people: what to change, if that is known
}

// unsentError is why calls were not sent.
type unsentError struct{ text string }

func (e *unsentError) Error() string { return e.text }

var errGone = &unsentError{"its host is not a member of the cluster any more"}

// lostError explains why the outcome of calls that were sent is unknown.
type lostError struct{ cause error }

func (e *lostError) Error() string {
	return fmt.Sprintf("the connection to its host broke: %v", e.cause)
}
func (e *lostError) Unwrap() error { return e.cause }
