package rpc

import (
	"net/http"
	"slices"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/greenroom-run/greenroom/server/edge"
)

// reflection describes the services of the API, and those of the guests of an app.
type reflection struct {
	names  []string // of the API's services
	guests *guestServices
	opts   []connect.HandlerOption
	serve  func(*grpcreflect.Reflector, ...connect.HandlerOption) (string, http.Handler)
	static http.Handler // for who asks of an app without services
}

// newReflection describes the services of these names, and those of guests.
func newReflection(s *Services, names []string, guests *guestServices) edge.Service {
	var sv edge.Service
	shape := edge.StreamRoute()
	shape.AppLess = true
	for _, serve := range []func(*grpcreflect.Reflector, ...connect.HandlerOption) (string, http.Handler){grpcreflect.NewHandlerV1, grpcreflect.NewHandlerV1Alpha} {
		r := &reflection{names: names, guests: guests, opts: s.edge.HandlerOptions(s.edge.PayloadRoute()), serve: serve}
		var path string
		path, r.static = serve(grpcreflect.NewStaticReflector(names...), r.opts...)
		sv.Serve(edge.RoleRead, shape, r, path+"ServerReflectionInfo")
	}
	return sv
}

// ServeHTTP implements [http.Handler]: for the app that the request names, or else the caller's own.
func (h *reflection) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := edge.ExchangeOf(r.Context())
	app, err := appOf(r.Header)
	if err == nil && app == "" {
		app = x.Caller.App()
	}
	app = edge.AppOf(app)
	if err == nil {
		err = x.ForApp(app)
	}
	if err != nil {
		x.Refuse(r, err)
		return
	}
	services := h.guests.s.Modules.Services(app)
	if len(services) == 0 {
		h.static.ServeHTTP(w, r)
		return
	}
	all := append(slices.Clone(h.names), services...)
	files := guestFiles{h.guests, app, services}
	_, handler := h.serve(grpcreflect.NewReflector(grpcreflect.NamerFunc(func() []string { return all }), grpcreflect.WithDescriptorResolver(files)), h.opts...)
	handler.ServeHTTP(w, r)
}

// guestFiles finds descriptors of the host, and then of the services of an app. Two services may
// have different files or messages of one name: the first by the service's name is found.
type guestFiles struct {
	guests   *guestServices
	app      string
	services []string
}

// FindFileByPath implements protodesc.Resolver.
func (f guestFiles) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	found, err := protoregistry.GlobalFiles.FindFileByPath(path)
	for i := 0; err != nil && i < len(f.services); i++ {
		if s, _, ok := f.guests.service(f.app, f.services[i]); ok {
			found, err = s.Files.FindFileByPath(path)
		}
	}
	return found, err
}

// FindDescriptorByName implements protodesc.Resolver.
func (f guestFiles) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil && slices.Contains(f.services, string(name)) {
		if s, _, ok := f.guests.service(f.app, string(name)); ok {
			return s.Files.FindDescriptorByName(name)
		}
	}
	for i := 0; err != nil && i < len(f.services); i++ {
		if s, _, ok := f.guests.service(f.app, f.services[i]); ok {
			found, err = s.Files.FindDescriptorByName(name)
		}
	}
	return found, err
}
