package server

import (
	"net/http"
	"strings"

	connectcors "connectrpc.com/cors"
	"connectrpc.com/grpcreflect"
	"github.com/rs/cors"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/server/failure"
	"github.com/greenroom-run/greenroom/server/metrics"
)

// route is one thing that the server answers at.
type route struct {
	name string // for metrics and logs: a fixed set
	http.Handler
	metrics *metrics.Route
	// maxBody bounds the body of a request, in bytes; bodyErr is what a larger
	// one is told.
	maxBody int64
	bodyErr error
	// streaming says that the body is a sequence of messages, each of which may
	// take its time.
	streaming bool
	// upload says that the body is a module: its bytes have a share of their own,
	// and a deadline for all of them.
	upload bool
	// longLived says that the route's handler bounds its messages in size
	// (MaxMessage, in bytes) and time, since the body has no end.
	longLived  bool
	maxMessage int64
	// rpc says that errors are told in the RPC protocol of the request.
	rpc bool
	// open says that anybody may ask. Others need role; getRole instead, if it is
	// set, for a GET.
	open          bool
	role, getRole Role
	// peer says that only hosts of the cluster may ask.
	peer bool
	// appless says that what is asked for is of no app, and nothing that the
	// callers of one may not know.
	appless bool
}

// routes finds the route of a path. It is immutable.
type routes struct {
	exact   map[string]*route
	actors  *route // everything below /v2.0/
	nothing *route
}

// find takes the path as it was sent: what only decodes to a service's path is not
// that path, so that who filters by path in front of the server and the server
// agree.
func (rs *routes) find(escaped string) *route {
	if r, ok := rs.exact[escaped]; ok {
		return r
	}
	if strings.HasPrefix(escaped, "/v2.0/") {
		return rs.actors
	}
	return rs.nothing
}

const (
	// messageOverhead is what a request may have beside its payload: the longest
	// key, method and content type, and what an encoding adds.
	messageOverhead = 64 << 10
	// smallBody bounds requests without a payload.
	smallBody = 64 << 10
)

// base64Size is what n bytes are in the JSON form of a message.
func base64Size(n int64) int64 { return (n + 2) / 3 * 4 }

// service is what a service's constructor, which stands in the service's file,
// registers.
type service struct {
	name   string // in reflection and health
	routes []*route
}

// serve adds procedures that h answers, all with one role and the limits of shape.
func (sv *service) serve(role Role, shape route, h http.Handler, procedures ...string) {
	for _, name := range procedures {
		r := shape
		r.name, r.Handler, r.rpc, r.role = name, h, true, role
		sv.routes = append(sv.routes, &r)
	}
}

// smallRoute is the shape of procedures without a payload.
func smallRoute() route { return route{maxBody: smallBody, bodyErr: errMessageTooLarge(smallBody)} }

// streamRoute is the shape of those that are asked once and answer with a stream.
func streamRoute() route {
	r := smallRoute()
	r.streaming = true
	return r
}

// payloadRoute is the shape of those that take a payload.
func (s *Server) payloadRoute() route {
	return route{
		maxBody: base64Size(s.conf.MaxPayloadBytes) + messageOverhead,
		bodyErr: errPayloadTooLarge(s.conf.MaxPayloadBytes),
	}
}

func (s *Server) newRoutes() *routes {
	services := []service{s.newActorService(), s.newModuleService(), s.newLogService()}
	if s.conf.Settings != nil {
		services = append(services, s.newSettingsService())
	}
	if s.conf.Reminders != nil {
		services = append(services, s.newReminderService())
	}
	if s.conf.Cluster != nil {
		services = append(services, s.newClusterService())
	}
	for _, sv := range services {
		s.health.services = append(s.health.services, sv.name)
	}
	services = append(services, s.newHealthService())
	var names []string
	for _, sv := range services {
		names = append(names, sv.name)
	}
	services = append(services, s.newReflection(names))
	services = append(services, s.peerServices()...) // nothing for clients to see

	rs := &routes{exact: make(map[string]*route)}
	for _, sv := range services {
		for _, r := range sv.routes {
			r.metrics = s.metrics.Route(r.name)
			rs.exact[r.name] = r
		}
	}
	plain := func(name string, open bool, h http.HandlerFunc) *route {
		r := smallRoute()
		r.name, r.open, r.role, r.Handler, r.metrics = name, open, RoleRead, h, s.metrics.Route(name)
		return &r
	}
	rs.exact["/healthz"] = plain("/healthz", true, s.serveAlive)
	rs.exact["/readyz"] = plain("/readyz", true, s.serveReady)
	rs.exact["/metrics"] = plain("/metrics", false, s.serveMetrics)
	rs.nothing = plain("other", false, s.serveNothing)
	rs.actors = plain("/v2.0/actors", false, s.serveActor)
	rs.actors.role, rs.actors.getRole = RoleInvoke, RoleRead
	rs.actors.maxBody, rs.actors.bodyErr = s.conf.MaxPayloadBytes, errPayloadTooLarge(s.conf.MaxPayloadBytes)
	return rs
}

// newReflection describes the services of these names.
func (s *Server) newReflection(names []string) service {
	var sv service
	shape := streamRoute()
	shape.appless = true
	opts := s.handlerOptions(s.payloadRoute())
	reflector := grpcreflect.NewStaticReflector(names...)
	path, h := grpcreflect.NewHandlerV1(reflector, opts...)
	sv.serve(RoleRead, shape, h, path+"ServerReflectionInfo")
	path, h = grpcreflect.NewHandlerV1Alpha(reflector, opts...)
	sv.serve(RoleRead, shape, h, path+"ServerReflectionInfo")
	return sv
}

// needs is the role that a request of the route needs.
func (rt *route) needs(r *http.Request) Role {
	if rt.getRole != 0 && r.Method == http.MethodGet {
		return rt.getRole
	}
	return rt.role
}

// enter lets a request through to its route, or refuses it.
func (s *Server) enter(route *route, w *exchange, r *http.Request) {
	if route.rpc && r.Method == http.MethodPost && !route.streaming && !route.longLived {
		switch r.Header.Get("Content-Type") {
		case "", "application/x-www-form-urlencoded": // which curl says of every body
			r.Header.Set("Content-Type", actor.ContentTypeJSON)
		}
	}
	switch {
	case w.peers && !route.peer && !route.open, route.peer && !w.peers && s.conf.Peers.Addr != "",
		s.isPeer(r) && !route.peer && !route.open:
		s.serveNothing(w, r) // the API and what hosts say to each other are apart
		return
	case route.peer:
		if refused := s.admitPeer(r); refused != nil {
			s.strangers.refused(r.RemoteAddr, refused)
			s.refuse(route, w, r, refused)
			return
		}
		w.caller = anyone
		route.ServeHTTP(w, r)
		return
	}
	if !route.open {
		if s.cors != nil {
			s.cors.HandlerFunc(w, r)
			if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
				return // answered: a preflight carries no token
			}
		}
		caller, refused := s.admission.admit(r)
		if refused != nil {
			if refused.Kind == failure.KindUnauthenticated {
				w.Header().Set("WWW-Authenticate", "Bearer")
			}
			s.refuse(route, w, r, refused)
			return
		}
		w.caller = caller
		if err := caller.require(route.needs(r)); err != nil {
			s.refuse(route, w, r, err)
			return
		}
		if caller.app != "" { // of others the app is not known yet
			if err := s.checkAnswers(caller.app); err != nil {
				s.refuse(route, w, r, err)
				return
			}
		}
	}
	route.ServeHTTP(w, r)
}

// refuse answers err in the protocol of the request, without a handler.
func (s *Server) refuse(route *route, w http.ResponseWriter, r *http.Request, err error) {
	f := s.fail(r.Context(), requesterOf(r.Context()), err)
	if route.rpc && s.errorWriter.IsSupported(r) {
		_ = s.errorWriter.Write(w, r, f.RPC()) // fails only with the connection
		return
	}
	failure.WriteHTTP(w, f, requestID(r.Context()))
}

// serveMetrics serves what is counted, of all apps.
func (s *Server) serveMetrics(w http.ResponseWriter, r *http.Request) {
	x := exchangeOf(r.Context())
	if err := x.caller.requireEverywhere(); err != nil {
		s.refuse(x.route, w, r, err)
		return
	}
	s.metrics.Handler().ServeHTTP(w, r)
}

// serveNothing answers for paths without a route.
func (s *Server) serveNothing(w http.ResponseWriter, r *http.Request) {
	grpc := &route{rpc: strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")}
	s.refuse(grpc, w, r, errNoPath(r.URL.EscapedPath()))
}

func newCORS(c Config) *cors.Cors {
	if len(c.AllowedOrigins) == 0 {
		return nil // to rs/cors no origin means every origin
	}
	return cors.New(cors.Options{
		AllowedOrigins: c.AllowedOrigins,
		AllowedMethods: append(connectcors.AllowedMethods(), http.MethodPut, http.MethodDelete),
		AllowedHeaders: append(connectcors.AllowedHeaders(), "Authorization", headerConsistency, headerIdempotencyKey, headerTraceparent, headerTracestate),
		ExposedHeaders: append(connectcors.ExposedHeaders(), headerVersion, headerFuel, headerHost, headerRequestID, "Retry-After"),
		// Chrome asks before a public page may call a private address.
		AllowPrivateNetwork: true,
		MaxAge:              7200, // seconds; the longest that browsers keep it
	})
}
