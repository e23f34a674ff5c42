package edge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/validate"
	"github.com/rs/cors"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/routing"
	"github.com/greenroom-run/greenroom/server/codec"
	"github.com/greenroom-run/greenroom/server/failure"
	"github.com/greenroom-run/greenroom/server/metrics"
	"github.com/greenroom-run/greenroom/server/stream"
)

// Edge takes requests, decides who may make them, bounds them, and gives them to the handlers
// of their routes. Make it with [New]; its methods may be called concurrently, but all routes
// are added before the first request.
type Edge struct {
	Conf         Config
	Log          *slog.Logger
	Metrics      *metrics.Metrics
	admission    admission
	cors         *cors.Cors // nil: no other origin may call
	validator    *validate.Interceptor
	errorWriter  *connect.ErrorWriter
	Routes       routes
	Requests     requestsUse
	StreamMemory *stream.Memory
	unadmitted   unadmitted
	leaving      atomic.Bool // answers end their connections
}

// New checks the configuration. It refuses an address that others can reach unless callers
// are asked for a token or a certificate, or Insecure is set.
func New(conf Config) (*Edge, error) {
	conf = conf.WithDefaults()
	if err := conf.validate(); err != nil {
		return nil, err
	}
	e := &Edge{
		Conf:         conf,
		Log:          conf.Logger,
		Metrics:      conf.Metrics,
		admission:    newAdmission(conf),
		cors:         newCORS(conf),
		validator:    validate.NewInterceptor(),
		errorWriter:  connect.NewErrorWriter(),
		StreamMemory: stream.NewMemory(conf.MaxStreamsBytes),
	}
	e.Requests.init(conf)
	e.unadmitted.init(conf.Logger)
	e.Routes.Exact = make(map[string]*Route)
	e.HandlePlain("/metrics", false, e.serveMetrics)
	e.Routes.nothing = e.plainRoute("other", false, e.serveNothing)
	return e, nil
}

// Handle adds the procedures of services.
func (e *Edge) Handle(services ...Service) {
	for _, sv := range services {
		for _, r := range sv.routes {
			r.metrics = e.Metrics.Route(r.name)
			e.Routes.Exact[r.name] = r
		}
	}
}

// HandlePlain adds a path of plain HTTP that has no payload; open says that anybody may ask.
func (e *Edge) HandlePlain(path string, open bool, h http.HandlerFunc) {
	e.Routes.Exact[path] = e.plainRoute(path, open, h)
}

// HandlePages adds pages at paths, which anybody may load: they hold nothing of the server. A browser
// that asks for / is sent to start.
func (e *Edge) HandlePages(start string, paths []string, pages http.Handler) {
	for _, path := range paths {
		e.Routes.Exact[path] = e.plainRoute(start, true, pages.ServeHTTP)
	}
	e.HandlePlain("/", true, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || !strings.Contains(r.Header.Get("Accept"), "text/html") {
			e.serveNothing(w, r)
			return
		}
		http.Redirect(w, r, start, http.StatusFound)
	})
}

// HandleActors adds everything below a path: calls of actors over plain HTTP, under one name in
// metrics and logs.
func (e *Edge) HandleActors(prefix, name string, h http.HandlerFunc) {
	r := e.plainRoute(name, false, h)
	r.role, r.getRole = RoleInvoke, RoleRead
	r.Calls = true
	r.MaxBody, r.BodyErr = e.Conf.MaxPayloadBytes, ErrPayloadTooLarge(e.Conf.MaxPayloadBytes)
	e.Routes.prefix, e.Routes.below = prefix, r
}

// HandleGuests adds the procedures of the Protobuf services of guests, under one name in metrics and
// logs, and with " stream" behind it for those that answer with a stream; serves reports whether
// some app has a service. The handler asks of callers for the role that each procedure needs.
func (e *Edge) HandleGuests(name string, serves func(service string) bool, h http.Handler) {
	r := e.PayloadRoute()
	r.name, r.Handler, r.rpc, r.role, r.metrics = name, h, true, RoleRead, e.Metrics.Route(name)
	e.Routes.guests, e.Routes.guestServes = &r, serves
	s := StreamRoute()
	s.name, s.Handler, s.rpc, s.role, s.metrics = name+" stream", h, true, RoleRead, e.Metrics.Route(name+" stream")
	e.Routes.guestStreams = &s
}

// HandleEvents adds the streams of events of actors, under one name in metrics and logs. It comes
// after HandleActors.
func (e *Edge) HandleEvents(name string, h http.HandlerFunc) {
	r := e.plainRoute(name, false, h)
	r.Streaming = true
	e.Routes.events = r
}

func (e *Edge) plainRoute(name string, open bool, h http.HandlerFunc) *Route {
	r := SmallRoute()
	r.name, r.Open, r.role, r.Handler, r.metrics = name, open, RoleRead, h, e.Metrics.Route(name)
	return &r
}

// Tokens returns the tokens that the server takes.
func (e *Edge) Tokens() []TokenUse {
	var all []TokenUse
	for _, t := range e.admission.tokens {
		use := TokenUse{Caller: t.Caller}
		if at := t.lastUsed.Load(); at != 0 {
			use.LastUsed = time.Unix(at, 0)
		}
		all = append(all, use)
	}
	return all
}

// EndConnections has each answer from now on end its connection, once that has no other request.
func (e *Edge) EndConnections() { e.leaving.Store(true) }

// BodyDeadline is when a body, or a part of an answer, must have passed.
func (e *Edge) BodyDeadline() time.Time { return time.Now().Add(e.Conf.Bounds.BodyTimeout) }

// ServeHTTP serves one exchange.
func (e *Edge) ServeHTTP(w http.ResponseWriter, r *http.Request) { e.serveHTTP(w, r, false) }

func (e *Edge) serveHTTP(w http.ResponseWriter, r *http.Request, peers bool) {
	began := time.Now()
	x, r := newExchange(e, w, r, peers, began)
	route := x.Route
	ended := false // not cut off
	defer func() { x.served(r, began, ended) }()
	defer x.ReleaseBody()
	defer e.recoverPanic(route, x, r)
	if e.admit(route, x, r) {
		route.ServeHTTP(x, r)
	}
	x.writeRest()
	ended = true
}

// traceOfRequest is the trace that a request belongs to, with a span of its own; nil for
// none. One that is named twice is none. A call that names none may begin a trace.
func (e *Edge) traceOfRequest(route *Route, h http.Header) *actor.Trace {
	var parent *actor.Trace
	if parents := h[headerTraceparent]; len(parents) == 1 {
		parent = actor.ParseTrace(parents[0], h[headerTracestate]...)
	}
	if parent == nil && (!route.Calls || route.LongLived) {
		return nil
	}
	return e.Conf.Spans.Arrived(parent)
}

// recoverPanic answers a panic of a handler, which is a bug of ours, with an
// internal error, or by cutting the connection when an answer has begun.
func (e *Edge) recoverPanic(route *Route, x *Exchange, r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(v) // net/http's own way to cut a connection
	}
	e.Log.LogAttrs(r.Context(), slog.LevelError, "handler panicked", x.Trace.AppendLog([]slog.Attr{
		slog.String("request_id", x.ID), slog.String("path", r.URL.Path),
		slog.String("panic", fmt.Sprint(v)), slog.String("stack", string(debug.Stack())),
	})...)
	if x.status != 0 {
		panic(http.ErrAbortHandler)
	}
	e.refuse(route, x, r, ErrPanicked)
}

// ErrPanicked is not in the map of errors on purpose: it is answered as internal.
var ErrPanicked = errors.New("a handler panicked")

// admit reports whether a request may go to its route. If not, it has answered it.
func (e *Edge) admit(route *Route, w *Exchange, r *http.Request) bool {
	if route.rpc && r.Method == http.MethodPost && !route.Streaming && !route.LongLived {
		switch r.Header.Get("Content-Type") {
		case "", "application/x-www-form-urlencoded": // which curl says of every body
			r.Header.Set("Content-Type", actor.ContentTypeJSON)
		}
	}
	switch {
	case w.peers && !route.Peer && !route.Open, route.Peer && !w.peers && e.Conf.Peers.Addr != "",
		e.isPeer(r) && !route.Peer && !route.Open:
		e.serveNothing(w, r) // the API and what hosts say to each other are apart
		return false
	case route.Peer:
		if refused := e.admitPeer(r); refused != nil {
			e.unadmitted.refused(r.RemoteAddr, refused)
			e.refuse(route, w, r, refused)
			return false
		}
		w.Caller = anyone
		return true
	}
	if !route.Open {
		if e.cors != nil {
			e.cors.HandlerFunc(w, r)
			if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
				return false // answered: a preflight carries no token
			}
		}
		caller, refused := e.admission.admit(r)
		if refused != nil {
			if refused.Kind == failure.KindUnauthenticated {
				w.Header().Set("WWW-Authenticate", "Bearer")
			}
			e.refuse(route, w, r, refused)
			return false
		}
		w.Caller = caller
		if err := caller.Require(route.needs(r)); err != nil {
			e.refuse(route, w, r, err)
			return false
		}
		if caller.app != "" { // of others the app is not known yet
			if err := e.checkAnswers(caller.app); err != nil {
				e.refuse(route, w, r, err)
				return false
			}
		}
	}
	return true
}

// refuse answers err in the protocol of the request, without a handler.
func (e *Edge) refuse(route *Route, w http.ResponseWriter, r *http.Request, err error) {
	f := e.fail(r.Context(), requesterOf(r.Context()), err)
	if route.rpc && e.errorWriter.IsSupported(r) {
		_ = e.errorWriter.Write(w, r, f.RPC()) // fails only with the connection
		return
	}
	failure.WriteHTTP(w, f, RequestID(r.Context()))
}

// serveMetrics serves what is counted, of all apps.
func (e *Edge) serveMetrics(w http.ResponseWriter, r *http.Request) {
	x := ExchangeOf(r.Context())
	if err := x.Caller.RequireEverywhere(); err != nil {
		e.refuse(x.Route, w, r, err)
		return
	}
	e.Metrics.Handler().ServeHTTP(w, r)
}

// serveNothing answers for paths without a route.
func (e *Edge) serveNothing(w http.ResponseWriter, r *http.Request) {
	grpc := &Route{rpc: strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")}
	e.refuse(grpc, w, r, ErrNoPath(r.URL.EscapedPath()))
}

// isPeer reports whether a request came over a connection that only hosts of the
// cluster can open.
func (e *Edge) isPeer(r *http.Request) bool {
	p := e.Conf.Peers
	return p != nil && p.Credentials != nil && r.TLS != nil && r.TLS.ServerName == routing.ServerName(p.Cluster) && len(r.TLS.VerifiedChains) > 0
}

// admitPeer returns why a request is not of a host of the cluster; nil if it is.
func (e *Edge) admitPeer(r *http.Request) *failure.Error {
	if e.isPeer(r) {
		return nil
	}
	if e.Conf.Peers.Credentials != nil {
		return &failure.Error{Kind: failure.KindPermissionDenied, Text: "this is for hosts of the cluster, which prove it with certificates; give all hosts the same --cluster-key-file, or certificates of the same authority"}
	}
	caller, refused := e.admission.admit(r)
	switch {
	case refused != nil:
		return refused
	case caller.Require(RoleAdmin) != nil, caller.RequireEverywhere() != nil:
		return &failure.Error{Kind: failure.KindPermissionDenied, Text: "this is for hosts of the cluster, which without certificates need an admin's token; give all hosts the same --token"}
	}
	return nil
}

// checkAnswers refuses a request of an app of whose answers too much waits for clients. The
// answers of requests that were taken before may pass the limit.
func (e *Edge) checkAnswers(app string) error {
	if full := e.Requests.Answers.Check(app, 1); full != nil {
		return errRequestsFull(full)
	}
	return nil
}

// PayloadRoute is the shape of those that take a payload.
func (e *Edge) PayloadRoute() Route {
	return Route{
		MaxBody: Base64Size(e.Conf.MaxPayloadBytes) + MessageOverhead,
		BodyErr: ErrPayloadTooLarge(e.Conf.MaxPayloadBytes),
		Calls:   true,
	}
}

// HandlerOptions are those of RPC handlers whose largest messages have the shape's
// size.
func (e *Edge) HandlerOptions(shape Route) []connect.HandlerOption {
	return []connect.HandlerOption{
		connect.WithInterceptors(&errorInterceptor{e}, e.validator),
		connect.WithCompressMinBytes(compressAbove),
		connect.WithHandlerOptions(e.codecs(shape.MaxBody, shape.BodyErr)...),
	}
}

// GuestOptions are those of a handler of the Protobuf services of guests, whose largest messages
// have the shape's size: its messages are [codec.Raw].
func (e *Edge) GuestOptions(shape Route) []connect.HandlerOption {
	return []connect.HandlerOption{
		connect.WithInterceptors(&errorInterceptor{e}),
		connect.WithCompressMinBytes(compressAbove),
		connect.WithIdempotency(connect.IdempotencyNoSideEffects), // the handler refuses GETs of others
		connect.WithCodec(codec.RawBinary{}),
		connect.WithCodec(codec.RawJSON("json")),
		connect.WithCodec(codec.RawJSON("json; charset=utf-8")),
		connect.WithCompression("gzip", e.NewBoundedGzip(shape.MaxBody, shape.BodyErr), newGzip),
	}
}

// StreamOptions are those of InvokeStream, which validates by itself, and whose
// replies are not worth compressing: that would cost more than the turns.
func (e *Edge) StreamOptions(maxMessage int64, tooLarge error) []connect.HandlerOption {
	return []connect.HandlerOption{
		connect.WithInterceptors(&errorInterceptor{e}),
		connect.WithReadMaxBytes(int(maxMessage)),
		connect.WithCompressMinBytes(math.MaxInt),
		connect.WithHandlerOptions(e.codecs(maxMessage, tooLarge)...),
	}
}

// codecs are the encodings that every handler reads and writes.
func (e *Edge) codecs(maxMessage int64, tooLarge error) []connect.HandlerOption {
	return []connect.HandlerOption{
		connect.WithCodec(codec.Binary{}),
		connect.WithCodec(codec.JSON("json")),
		connect.WithCodec(codec.JSON("json; charset=utf-8")),
		connect.WithCompression("gzip", e.NewBoundedGzip(maxMessage, tooLarge), newGzip),
	}
}

// NewBoundedGzip returns a source of decompressors that fail with tooLarge beyond limit bytes.
func (e *Edge) NewBoundedGzip(limit int64, tooLarge error) func() connect.Decompressor {
	return func() connect.Decompressor {
		return &boundedGzip{edge: e, limit: limit, remaining: limit, tooLarge: tooLarge}
	}
}

// RPCError is err as the protocols send it.
func (e *Edge) RPCError(ctx context.Context, err error) *connect.Error {
	var wire *connect.Error
	if !errors.As(err, &wire) {
		return e.fail(ctx, requesterOf(ctx), err).RPC()
	}
	if failure.Mapped(wire) {
		return wire
	}
	// From Connect itself, or from protovalidate, whose details stay.
	kind := failure.KindInternal
	switch wire.Code() {
	case connect.CodeInvalidArgument:
		kind = failure.KindInvalidArgument
	case connect.CodeCanceled:
		kind = actor.ErrCanceled.Kind()
	case connect.CodeDeadlineExceeded:
		kind = actor.ErrDeadline.Kind()
	}
	if d, detailErr := connect.NewErrorDetail(&greenroomv1.ErrorDetail{Kind: string(kind)}); detailErr == nil {
		wire.AddDetail(d)
	}
	e.Metrics.Failed(kind)
	return wire
}

// fail is the failure that the caller of the request is answered with. It counts it, and
// logs what the caller is not told.
func (e *Edge) fail(ctx context.Context, r requester, err error) failure.Failure {
	f := failure.Of(err, e.Conf.ShowStacks)
	kind := actor.Kind(f.Detail.GetKind())
	e.Metrics.Failed(kind)
	if f.Hidden == nil {
		return f
	}
	if kind == actor.ErrDeadline.Kind() && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		f.Message = actor.CallersDeadline(ctx).Error()
	}
	level := slog.LevelError
	if kind == actor.ErrDeadline.Kind() || kind == actor.ErrStopping.Kind() || kind == actor.ErrOverloaded.Kind() {
		level = slog.LevelDebug // nothing is broken
	}
	e.Log.LogAttrs(ctx, level, "request failed", r.trace.AppendLog([]slog.Attr{
		slog.String("request_id", r.id), slog.String("token", r.token), slog.String("kind", string(kind)), slog.Any("error", f.Hidden),
		slog.String("app", f.Detail.GetApp()), slog.String("actor_type", f.Detail.GetActorType()),
		slog.String("actor_id", f.Detail.GetActorId()), slog.String("method", f.Detail.GetMethod()),
	})...)
	if kind == failure.KindInternal {
		f.Message = fmt.Sprintf("an internal error; the server's log has the details under %s", r.id)
	}
	return f
}

// FailTurn is fail for an error that may not say whose it is.
func (e *Edge) FailTurn(ctx context.Context, id string, err error, inv *actor.Invocation) failure.Failure {
	f := e.fail(ctx, requester{id, inv.Token, inv.Trace}, err)
	if f.Detail.ActorType == "" {
		f.Detail.App, f.Detail.ActorType, f.Detail.ActorId, f.Detail.Method = inv.Key.App, inv.Key.Type, inv.Key.ID, inv.Method
	}
	return f
}

// peerHandler serves the listener that is for hosts alone.
type peerHandler struct{ e *Edge }

// ServeHTTP implements [http.Handler].
func (h peerHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.e.serveHTTP(w, r, true) }
