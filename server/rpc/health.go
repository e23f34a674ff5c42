package rpc

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	healthv1 "github.com/greenroom-run/greenroom/api/gen/grpc/health/v1"
	"github.com/greenroom-run/greenroom/api/gen/grpc/health/v1/healthv1connect"
	"github.com/greenroom-run/greenroom/internal/fair"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/failure"
)

// Health knows whether the server is ready, and tells those who watch it. It
// checks on its own schedule, so that however many ask, the store is asked once.
//
//	unknown ── first check ──▶ ready ◀── check ──▶ not ready
//	   └──────────────┬──────────┴─────────────────────┘
//	                 stop ──▶ stopped, for good
type health struct {
	log *slog.Logger

	watchers edge.Places
	services []string // whose health may be asked for; set before any request

	mu      sync.Mutex
	err     error         // nil: ready
	changed chan struct{} // closed and replaced when err changes
	stopped bool
}

// maxWatchers is how many may watch at once; anybody may, without a token.
const maxWatchers = 100

var _ healthv1connect.HealthHandler = (*health)(nil)

func newHealth(log *slog.Logger) *health {
	return &health{
		log: log, err: errNotChecked, changed: make(chan struct{}),
		watchers: edge.NewPlaces(fair.Bounds{Name: "watchers of health", PerApp: maxWatchers}, edge.RetryLater),
	}
}

var errNotChecked = &failure.Error{Kind: actor.ErrUnavailable.Kind(), Text: "the store was not checked yet"}

// NotReady is an error for [Config.Check] whose reason anybody may be shown.
func NotReady(reason string) error {
	return &failure.Error{Kind: actor.ErrUnavailable.Kind(), Text: reason}
}

// Run checks at once and then every interval, more often while the server is not ready,
// until ctx ends.
func (h *health) Run(ctx context.Context, interval time.Duration, check func(context.Context) error) {
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-next.C:
		case <-ctx.Done():
			return
		}
		// A store that does not answer for so long is not ready either.
		checkCtx, cancel := context.WithTimeout(ctx, 5*interval)
		err := check(checkCtx)
		cancel()
		h.set(err, false)
		if err == nil {
			next.Reset(interval)
		} else {
			next.Reset(interval / 8)
		}
	}
}

// Stop makes the server not ready for good.
func (h *health) Stop() { h.set(failure.ErrStopping, true) }

func (h *health) set(err error, stop bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		return
	}
	h.stopped = stop
	news := stop || (err == nil) != (h.err == nil)
	h.err = err
	if news {
		if err != nil && !stop {
			h.log.LogAttrs(context.Background(), slog.LevelWarn, "server is not ready", slog.Any("error", err))
		}
		close(h.changed)
		h.changed = make(chan struct{})
	}
}

// readiness is what health knows at one moment.
type readiness struct {
	err     error           // why the server is not ready; nil if it is
	Changed <-chan struct{} // closed when that is no longer so
	Stopped bool            // it will not change again
}

// Now returns what is known now.
func (h *health) Now() readiness {
	h.mu.Lock()
	defer h.mu.Unlock()
	return readiness{h.err, h.changed, h.stopped}
}

// Check implements the gRPC health protocol.
func (h *health) Check(_ context.Context, req *connect.Request[healthv1.HealthCheckRequest]) (*connect.Response[healthv1.HealthCheckResponse], error) {
	if !h.knows(req.Msg.GetService()) {
		return nil, &failure.Error{Kind: failure.KindServiceNotFound, Text: "this server has no such service"}
	}
	return connect.NewResponse(healthStatus(h.Now().err)), nil
}

// Watch implements the gRPC health protocol. It ends when the server stops.
func (h *health) Watch(ctx context.Context, req *connect.Request[healthv1.HealthCheckRequest], stream *connect.ServerStream[healthv1.HealthCheckResponse]) error {
	if err := h.watchers.Enter(""); err != nil {
		return err
	}
	defer h.watchers.Leave("")
	known := h.knows(req.Msg.GetService())
	for {
		now := h.Now()
		msg := healthStatus(now.err)
		if !known {
			msg.Status = healthv1.HealthCheckResponse_SERVICE_UNKNOWN
		}
		if err := stream.Send(msg); err != nil {
			return err
		}
		if now.Stopped {
			return failure.ErrStopping
		}
		select {
		case <-now.Changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func healthStatus(err error) *healthv1.HealthCheckResponse {
	if err != nil {
		return &healthv1.HealthCheckResponse{Status: healthv1.HealthCheckResponse_NOT_SERVING}
	}
	return &healthv1.HealthCheckResponse{Status: healthv1.HealthCheckResponse_SERVING}
}

// knows reports whether the server has a service; the empty name is the server as a
// whole.
func (h *health) knows(name string) bool { return name == "" || slices.Contains(h.services, name) }

// serveAlive answers as long as the process can.
func (h *health) serveAlive(w http.ResponseWriter, _ *http.Request) {
	writePlain(w, http.StatusOK, "ok\n")
}

// serveReady answers 200 when requests make sense, 503 and why otherwise.
func (h *health) serveReady(w http.ResponseWriter, _ *http.Request) {
	why := h.whyNotReady()
	if why == "" {
		writePlain(w, http.StatusOK, "ok\n")
		return
	}
	writePlain(w, http.StatusServiceUnavailable, why+"\n")
}

// whyNotReady is why requests make no sense now, as far as anybody may be shown it; empty if they do.
func (h *health) whyNotReady() string {
	err := h.Now().err
	if err == nil {
		return ""
	}
	return failure.Of(err, false).Message
}

func writePlain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // fails only with the connection
}
