package server

import (
	"net/http"
	"strings"

	connectcors "connectrpc.com/cors"
	"connectrpc.com/grpcreflect"
	"github.com/rs/cors"

	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/api/gen/grpc/health/v1/healthv1connect"
)

// route is one thing that the server answers at.
type route struct {
	name string // for metrics and logs: a fixed set
	http.Handler
	metrics *routeMetrics
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
	// (maxMessage, in bytes) and time, since the body has no end.
	longLived  bool
	maxMessage int64
	// rpc says that errors are told in the RPC protocol of the request.
	rpc bool
	// open says that anybody may ask. Others need role; getRole instead, if it is
	// set, for a GET.
	open          bool
	role, getRole Role
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
	// minStreamMessage is what a message of an InvokeStream may have whatever the
	// limit of a payload: actor.proto says so, and clients send batches by it.
	minStreamMessage int64 = 4 << 20
	// smallBody bounds requests without a payload.
	smallBody = 64 << 10
	// settingBody holds the longest value, escaped as JSON.
	settingBody = 512 << 10
)

// base64Size is what n bytes are in the JSON form of a message.
func base64Size(n int64) int64 { return (n + 2) / 3 * 4 }

func (s *Server) newRoutes() *routes {
	rs := &routes{exact: make(map[string]*route)}
	small := route{maxBody: smallBody, bodyErr: errPayloadTooLarge(smallBody)}
	payload := route{
		maxBody: base64Size(s.conf.MaxPayloadBytes) + messageOverhead,
		bodyErr: errPayloadTooLarge(s.conf.MaxPayloadBytes),
	}
	upload := route{
		maxBody:   base64Size(s.conf.MaxModuleBytes) + 1<<20,
		bodyErr:   errModuleTooLarge(s.conf.MaxModuleBytes),
		streaming: true,
		upload:    true,
	}
	stream := small
	stream.streaming = true

	procedure := func(role Role, shape route, h http.Handler, names ...string) {
		for _, name := range names {
			r := shape
			r.name, r.Handler, r.rpc, r.role, r.metrics = name, h, true, role, s.metrics.route(name)
			rs.exact[name] = &r
		}
	}
	opts := s.handlerOptions(payload.maxBody, payload.bodyErr)

	_, h := greenroomv1connect.NewActorServiceHandler(&actorService{s}, opts...)
	procedure(RoleInvoke, payload, h, greenroomv1connect.ActorServiceInvokeProcedure)
	procedure(RoleRead, payload, h, greenroomv1connect.ActorServiceQueryProcedure)
	procedure(RoleRead, small, h,
		greenroomv1connect.ActorServiceGetActorProcedure,
		greenroomv1connect.ActorServiceListActorsProcedure,
		greenroomv1connect.ActorServiceGetStateProcedure)
	procedure(RoleDeploy, small, h, greenroomv1connect.ActorServiceDeleteActorProcedure)

	invocations := route{maxBody: unbounded, longLived: true, maxMessage: max(payload.maxBody, minStreamMessage)}
	_, h = greenroomv1connect.NewActorServiceHandler(&actorService{s}, s.streamOptions(invocations.maxMessage, errPayloadTooLarge(invocations.maxMessage))...)
	// Invocations that are not read-only need more, each for itself.
	procedure(RoleRead, invocations, h, greenroomv1connect.ActorServiceInvokeStreamProcedure)

	_, h = greenroomv1connect.NewModuleServiceHandler(newModuleService(s), s.handlerOptions(upload.maxBody, upload.bodyErr)...)
	procedure(RoleDeploy, upload, h, greenroomv1connect.ModuleServiceUploadProcedure)
	procedure(RoleRead, stream, h, greenroomv1connect.ModuleServiceDownloadProcedure)
	procedure(RoleRead, small, h,
		greenroomv1connect.ModuleServiceGetModuleProcedure,
		greenroomv1connect.ModuleServiceListModulesProcedure,
		greenroomv1connect.ModuleServiceHistoryProcedure,
		greenroomv1connect.ModuleServiceListTypesProcedure)
	procedure(RoleDeploy, small, h,
		greenroomv1connect.ModuleServiceDeleteModuleProcedure,
		greenroomv1connect.ModuleServiceDeployProcedure,
		greenroomv1connect.ModuleServiceRollbackProcedure)

	_, h = greenroomv1connect.NewLogServiceHandler(newLogService(s.conf.Logs), opts...)
	procedure(RoleRead, stream, h, greenroomv1connect.LogServiceTailProcedure)

	if s.conf.Settings != nil {
		settings := route{maxBody: settingBody, bodyErr: errPayloadTooLarge(settingBody)}
		_, h = greenroomv1connect.NewSettingsServiceHandler(settingsService{s.conf.Settings}, s.handlerOptions(settings.maxBody, settings.bodyErr)...)
		procedure(RoleDeploy, settings, h, greenroomv1connect.SettingsServiceGetSettingsProcedure)
		procedure(RoleAdmin, settings, h,
			greenroomv1connect.SettingsServiceSetConfigProcedure,
			greenroomv1connect.SettingsServiceUnsetConfigProcedure,
			greenroomv1connect.SettingsServiceSetSecretProcedure,
			greenroomv1connect.SettingsServiceUnsetSecretProcedure,
			greenroomv1connect.SettingsServiceGrantHTTPProcedure,
			greenroomv1connect.SettingsServiceRevokeHTTPProcedure)
	}

	services := []string{greenroomv1connect.ActorServiceName, greenroomv1connect.ModuleServiceName, greenroomv1connect.LogServiceName, healthv1connect.HealthName}
	if s.conf.Settings != nil {
		services = append(services, greenroomv1connect.SettingsServiceName)
	}
	reflector := grpcreflect.NewStaticReflector(services...)
	reflection := stream
	reflection.appless = true
	path, h := grpcreflect.NewHandlerV1(reflector, opts...)
	procedure(RoleRead, reflection, h, path+"ServerReflectionInfo")
	path, h = grpcreflect.NewHandlerV1Alpha(reflector, opts...)
	procedure(RoleRead, reflection, h, path+"ServerReflectionInfo")

	_, h = healthv1connect.NewHealthHandler(s.health, opts...)
	small.open, stream.open = true, true
	procedure(RoleRead, small, h, healthv1connect.HealthCheckProcedure)
	procedure(RoleRead, stream, h, healthv1connect.HealthWatchProcedure)

	plain := func(name string, open bool, h http.HandlerFunc) *route {
		r := small
		r.name, r.open, r.role, r.Handler, r.metrics = name, open, RoleRead, h, s.metrics.route(name)
		return &r
	}
	rs.exact["/healthz"] = plain("/healthz", true, s.serveAlive)
	rs.exact["/readyz"] = plain("/readyz", true, s.serveReady)
	rs.exact["/metrics"] = plain("/metrics", false, s.serveMetrics)
	rs.nothing = plain("other", false, s.serveNothing)
	rs.actors = plain("/v2.0/actors", false, s.serveActor)
	rs.actors.role, rs.actors.getRole = RoleInvoke, RoleRead
	rs.actors.maxBody, rs.actors.bodyErr = s.conf.MaxPayloadBytes, payload.bodyErr
	return rs
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
	if !route.open {
		if s.cors != nil {
			s.cors.HandlerFunc(w, r)
			if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
				return // answered: a preflight carries no token
			}
		}
		caller, refused := s.admission.admit(r)
		if refused != nil {
			if refused.kind == kindUnauthenticated {
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
		if err := s.room(); err != nil {
			s.refuse(route, w, r, err)
			return
		}
	}
	route.ServeHTTP(w, r)
}

// refuse answers err in the protocol of the request, without a handler.
func (s *Server) refuse(route *route, w http.ResponseWriter, r *http.Request, err error) {
	f := s.fail(r.Context(), requestID(r.Context()), err)
	if route.rpc && s.errorWriter.IsSupported(r) {
		_ = s.errorWriter.Write(w, r, f.rpc()) // fails only with the connection
		return
	}
	writeFailure(w, f, requestID(r.Context()))
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
		AllowedMethods: append(connectcors.AllowedMethods(), http.MethodPut),
		AllowedHeaders: append(connectcors.AllowedHeaders(), "Authorization", headerConsistency, headerIdempotencyKey),
		ExposedHeaders: append(connectcors.ExposedHeaders(), headerVersion, headerFuel, headerRequestID, "Retry-After"),
		// Chrome asks before a public page may call a private address.
		AllowPrivateNetwork: true,
		MaxAge:              7200, // seconds; the longest that browsers keep it
	})
}
