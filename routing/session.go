package routing

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/invokestream"
)

// self is this process, as it introduces itself to other hosts.
type self struct {
	cfg     *Config
	process string        // its name in the hellos of streams
	streams atomic.Uint64 // how many streams it has opened
}

// hello is what this host says first.
func (s *self) hello(to actor.HostID) *greenroomv1.ExchangeHello {
	return &greenroomv1.ExchangeHello{
		Cluster: s.cfg.Cluster, From: string(s.cfg.Placement.Self()), To: string(to),
		MinProtocol: uint32(s.cfg.MinProtocol), MaxProtocol: uint32(s.cfg.MaxProtocol), //nolint:gosec // small numbers
		ApiAddress: s.cfg.APIAddress,
	}
}

// session is the state of the channels to a peer.
type session struct {
	self     *self
	id       actor.HostID
	address  string
	protocol int
	streams  *connect.Client[invokestream.Request, invokestream.Response]
	apiAddr  atomic.Pointer[string]

	ctx context.Context // of everything that the peer has in the background
	end context.CancelFunc

	mu      sync.Mutex
	open    int             // channels
	whole   context.Context // until a channel breaks, or none can be opened; then replaced
	fall    context.CancelFunc
	failure string // why no channel can be opened; empty: one could be
}

// hello is what this host says first to the peer.
func (s *session) hello() *greenroomv1.ExchangeHello { return s.self.hello(s.id) }

// api returns where clients reach the peer; empty if it did not say.
func (s *session) api() string {
	if a := s.apiAddr.Load(); a != nil {
		return *a
	}
	return ""
}

// authorize adds the token to a request in plain text.
func (s *session) authorize(h http.Header) {
	if cfg := s.self.cfg; cfg.Token != "" && cfg.TLS == nil {
		h.Set("Authorization", "Bearer "+cfg.Token)
	}
}

// opened notes that a channel is open.
func (s *session) opened(h *greenroomv1.ExchangeHello) {
	api := h.GetApiAddress()
	s.apiAddr.Store(&api)
	s.mu.Lock()
	s.open++
	first, failure := s.open == 1, s.failure
	s.failure = ""
	s.mu.Unlock()
	if first {
		s.self.cfg.Events.SessionOpened(s.id)
	}
	if failure != "" {
		s.self.cfg.Logger.Info("a host of the cluster can be reached again", "host", string(s.id), "address", s.address)
	}
}

// broke notes that a channel has ended that was open.
func (s *session) broke() {
	s.mu.Lock()
	s.open--
	last := s.open == 0
	s.renew()
	s.mu.Unlock()
	if last {
		s.self.cfg.Events.SessionBroken(s.id)
	}
}

// renew ends whole for all who have it, and replaces it. The caller has mu.
func (s *session) renew() {
	s.fall()
	s.whole, s.fall = context.WithCancel(s.ctx)
}

// notOpened notes that a channel could not be opened, and why.
func (s *session) notOpened(why string) {
	s.mu.Lock()
	news := why != s.failure
	s.failure = why
	if s.open == 0 {
		s.renew()
	}
	s.mu.Unlock()
	if news && s.ctx.Err() == nil {
		s.self.cfg.Logger.Warn("a host of the cluster cannot be reached", "host", string(s.id), "address", s.address, "error", why)
	}
}

// Unreachable is a host to which this one cannot open a session.
type Unreachable struct {
	Host    actor.HostID
	Address string
	Why     string // for people; it names what to change, if that is known
}
