package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/console"
	"github.com/greenroom-run/greenroom/server/dapr"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/rpc"
	"github.com/greenroom-run/greenroom/server/standstill"
)

// Server serves the API. Make it with [New]; its methods may be called
// concurrently.
type Server struct {
	http.Handler // the edge: it serves one request of a client

	conf      Config
	edge      *edge.Edge
	listeners *edge.Listeners
	guard     *standstill.Guard
	rpc       *rpc.Services
	// draining ends when Stop begins: long-lived streams end by themselves then.
	draining context.Context
	drain    context.CancelFunc
}

// ConsolePath is where the server has its pages for browsers.
const ConsolePath = console.Path

// New checks the configuration and reads the certificates. It refuses an address
// that others can reach unless callers are asked for a token or a certificate,
// or Insecure is set.
func New(conf Config) (*Server, error) {
	conf = conf.WithDefaults()
	if err := conf.validate(); err != nil {
		return nil, err
	}
	guard := standstill.NewGuard(conf.Standstill, conf.Logger)
	conf.Host = standstill.Host{Host: conf.Host, Guard: guard}
	if conf.Messages != nil {
		conf.Messages = standstill.Messages{Messages: conf.Messages, Guard: guard}
	}
	s := &Server{conf: conf, guard: guard}
	s.draining, s.drain = context.WithCancel(context.Background())
	var err error
	if s.edge, err = edge.New(conf.Config); err != nil {
		return nil, err
	}
	s.Handler = s.edge
	s.rpc = rpc.New(s.draining, s.edge, conf.Backends)
	if s.listeners, err = edge.NewListeners(s.edge, s.watch, s.notReady); err != nil {
		return nil, err
	}
	dapr.New(s.edge, dapr.Config{Host: s.rpc.Calls, Timers: conf.Timers, Reminders: conf.Reminders, Messages: conf.Messages, Events: s.rpc.Events, Setter: s.rpc.Setter()})
	pages := console.New()
	s.edge.HandlePages(ConsolePath, pages.Paths(), pages)
	if err := conf.registerGauges(); err != nil {
		return nil, fmt.Errorf("server: register gauges: %w", err)
	}
	return s, nil
}

// watch follows the health of the store and of the process until ctx ends.
func (s *Server) watch(ctx context.Context) {
	var guarding sync.WaitGroup
	guarding.Go(func() { s.guard.Run(ctx) })
	s.rpc.Health.Run(ctx, s.conf.Bounds.HealthInterval, s.conf.Check)
	guarding.Wait()
}

// notReady tells those who watch health, and ends the readers of logs, for good.
func (s *Server) notReady() {
	s.rpc.Health.Stop()
	s.conf.Logs.Close()
}

// Start listens and serves until Stop. It returns once the address is taken; ctx
// bounds only that.
func (s *Server) Start(ctx context.Context) error { return s.listeners.Start(ctx) }

// Addr returns the address that the server listens on; nil before Start.
func (s *Server) Addr() net.Addr { return s.listeners.Addr() }

// ConsoleURL returns where browsers of this machine find the console; empty before Start.
func (s *Server) ConsoleURL() string {
	addr := s.Addr()
	if addr == nil {
		return ""
	}
	scheme := "http://"
	if s.conf.TLS.CertFile != "" {
		scheme = "https://"
	}
	return scheme + addr.String() + ConsolePath
}

// Drain tells those who ask for or watch health that the server is about to stop, and
// returns after [Config.DrainDelay], or when ctx ends. The server keeps serving: new
// connections as well, until Stop. From the half of that time on, each answer ends its
// connection, once that has no other request, so that clients do not meet one that Stop
// closes.
func (s *Server) Drain(ctx context.Context) {
	s.rpc.Health.Stop()
	for range 2 {
		select {
		case <-time.After(s.conf.DrainDelay / 2):
		case <-ctx.Done():
		}
		s.edge.EndConnections()
	}
}

// Stop refuses new connections, tells those who watch health, and waits for the
// requests in flight. When ctx ends first it cancels them, cuts their
// connections and returns ctx's error. It is safe twice, and before Start.
func (s *Server) Stop(ctx context.Context) error {
	s.notReady()
	return s.listeners.Stop(ctx, s.drain)
}
