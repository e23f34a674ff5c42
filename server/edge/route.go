package edge

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/greenroom-run/greenroom/server/failure"
	"github.com/greenroom-run/greenroom/server/metrics"
)

// Route is one thing that the server answers at.
type Route struct {
	name string // for metrics and logs: a fixed set
	http.Handler
	metrics *metrics.Route
	// MaxBody bounds the body of a request, in bytes; BodyErr answers a larger one.
	MaxBody int64
	BodyErr error
	// Calls says that the body is the payload of a call, or has nothing else that is large.
	Calls bool
	// Streaming says that the body is a sequence of messages, each of which may
	// take its time.
	Streaming bool
	// Upload says that the body is a module: its bytes have a share of their own,
	// and a deadline for all of them.
	Upload bool
	// LongLived says that the route's handler bounds its messages in size
	// (MaxMessage, in bytes) and time, since the body has no end.
	LongLived  bool
	MaxMessage int64
	// rpc says that errors are answered in the RPC protocol of the request.
	rpc bool
	// Open says that anybody may ask. Others need role; getRole instead, if it is
	// set, for a GET.
	Open          bool
	role, getRole Role
	// Peer says that only hosts of the cluster may ask.
	Peer bool
	// AppLess says that what is asked for is of no app, and nothing that the
	// callers of one may not know.
	AppLess bool
}

// Routes finds the route of a path. It is immutable once the server has started.
type routes struct {
	Exact   map[string]*Route
	prefix  string
	below   *Route // everything below prefix
	events  *Route // what is below prefix and ends in [EventsSuffix], behind an actor; nil: nothing
	guests  *Route // the procedures of guests' services; nil: nothing
	nothing *Route
	// guestStreams has the procedures of guests that answer with a stream; see [Exchange.BecomeStream].
	guestStreams *Route
	// guestServes reports whether guests serve a service.
	guestServes func(service string) bool
}

// find takes the path as it was sent: what only decodes to a service's path is not
// that path, so that who filters by path in front of the server and the server
// agree.
func (rs *routes) find(escaped string) *Route {
	if r, ok := rs.Exact[escaped]; ok {
		return r
	}
	if rs.events != nil && strings.HasSuffix(escaped, EventsSuffix) && strings.Count(escaped, "/") == strings.Count(EventsShape, "/") {
		return rs.events
	}
	if rs.below != nil && strings.HasPrefix(escaped, rs.prefix) {
		return rs.below
	}
	if rs.guests != nil {
		if service, _, ok := Procedure(escaped); ok && rs.guestServes(service) {
			return rs.guests
		}
	}
	return rs.nothing
}

// Procedure divides the path of a procedure into its service and its method.
func Procedure(path string) (service, method string, ok bool) {
	service, method, ok = strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return service, method, ok && !strings.Contains(method, "/")
}

const (
	// MessageOverhead is what a request may have beside its payload: the longest
	// key, method and content type, and what an encoding adds.
	MessageOverhead = 64 << 10
	// smallBody bounds requests without a payload.
	smallBody = 64 << 10
)

// Base64Size is what n bytes are in the JSON form of a message.
func Base64Size(n int64) int64 { return (n + 2) / 3 * 4 }

// Service is what a service's constructor, which stands in the service's file,
// registers.
type Service struct {
	Name   string // in reflection and health
	routes []*Route
}

// Serve adds procedures that h answers, all with one role and the limits of shape.
func (sv *Service) Serve(role Role, shape Route, h http.Handler, procedures ...string) {
	for _, name := range procedures {
		r := shape
		r.name, r.Handler, r.rpc, r.role = name, h, true, role
		sv.routes = append(sv.routes, &r)
	}
}

// SmallRoute is the shape of procedures without a payload.
func SmallRoute() Route { return Route{MaxBody: smallBody, BodyErr: ErrMessageTooLarge(smallBody)} }

// StreamRoute is the shape of those that are asked once and answer with a stream.
func StreamRoute() Route {
	r := SmallRoute()
	r.Streaming = true
	return r
}

// needs is the role that a request of the route needs.
func (rt *Route) needs(r *http.Request) Role {
	if rt.getRole != 0 && r.Method == http.MethodGet {
		return rt.getRole
	}
	return rt.role
}

// The plain HTTP form of calls.
const (
	ActorsPrefix = "/v2.0/actors/"
	ActorsShape  = ActorsPrefix + "APP/TYPE/ID/method/METHOD"
	EventsSuffix = "/events"
	EventsShape  = ActorsPrefix + "APP/TYPE/ID" + EventsSuffix
)

// ErrNoPath refuses a path that no route has.
func ErrNoPath(path string) error {
	return &failure.Error{Kind: failure.KindPathNotFound, Text: fmt.Sprintf("there is nothing at %q; actors are at %s, and rpcs of deployed services at /PACKAGE.SERVICE/RPC, in the app of the header Greenroom-App", path, ActorsShape)}
}
