package routing

import (
	"context"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/cespare/xxhash/v2"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/api/invokestream"
	"github.com/greenroom-run/greenroom/api/invokestream/caller"
)

// peers holds the sessions to other hosts. A session is opened for its first call.
type peers struct {
	self
	ctx    context.Context // of all sessions
	client *http.Client

	mu      sync.RWMutex
	all     map[actor.HostID]*peer
	stopped bool
}

// removeEvery is how often the sessions to hosts that are no longer members are closed.
const removeEvery = 500 * time.Millisecond

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
		session: session{
			self: &ps.self, id: id, address: address, protocol: protocol,
			streams: connect.NewClient[invokestream.Request, invokestream.Response](
				caller.WholeMessages{Client: ps.client}, base+greenroomv1connect.InterconnectServiceExchangeProcedure,
				connect.WithCodec(invokestream.Codec{}), connect.WithAcceptCompression("gzip", nil, nil)),
		},
		unary: greenroomv1connect.NewInterconnectServiceClient(ps.client, base, connect.WithAcceptCompression("gzip", nil, nil)),
	}
	p.ctx, p.end = context.WithCancel(ps.ctx)
	p.whole, p.fall = context.WithCancel(p.ctx)
	bytes := newAccount("bytes of calls under way to that host", cfg.MaxWaitingBytes)
	for i := range cfg.Channels {
		ch := &channel{Stream: caller.New(cfg.MaxInFlight), p: &p.session, number: uint32(i), usage: usage{newAccount("calls under way to that host", int64(cfg.MaxInFlight)), bytes}} //nolint:gosec // a small number
		p.channels = append(p.channels, ch)
		p.running.Go(ch.run)
	}
	return p
}

// removeGone closes the sessions to hosts that are no longer members: these hosts will not answer
// the calls that were sent to them.
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

// underWay reports whether a call is queued for a peer, or sent to one and not answered.
func (ps *peers) underWay() bool {
	for _, p := range ps.list() {
		for _, ch := range p.channels {
			if calls, _ := ch.usage.count(); calls > 0 {
				return true
			}
		}
	}
	return false
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
	session
	channels []*channel
	unary    greenroomv1connect.InterconnectServiceClient
	running  sync.WaitGroup // the owners of channels
}

// channel returns the channel of an actor.
func (p *peer) channel(key actor.Key) *channel {
	return p.channels[xxhash.Sum64String(key.ID)%uint64(len(p.channels))]
}
