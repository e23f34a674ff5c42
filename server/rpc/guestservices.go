package rpc

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/typed"
	"github.com/greenroom-run/greenroom/modules"
	"github.com/greenroom-run/greenroom/server/codec"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/events"
	"github.com/greenroom-run/greenroom/server/failure"
	"github.com/greenroom-run/greenroom/server/transcode"
)

// guestServices serves the Protobuf services of guests: each rpc is an Invoke of the method of its
// name, or a Query if it is without side effects. Requests in the binary form pass as they are. An
// rpc that answers with a stream is a [guestStream].
type guestServices struct {
	s       *Services
	calls   *connect.Handler
	streams *connect.Handler
}

func newGuestServices(s *Services) *guestServices {
	g := &guestServices{s: s}
	g.calls = connect.NewUnaryHandler("/guest", g.call, s.edge.GuestOptions(s.edge.PayloadRoute())...)
	g.streams = connect.NewServerStreamHandler("/guest", g.stream, s.edge.GuestOptions(edge.StreamRoute())...)
	return g
}

// ServeHTTP implements [http.Handler]. The app is known before the body is read, which counts for it.
func (g *guestServices) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := edge.ExchangeOf(r.Context())
	app, err := appOf(r.Header)
	if err == nil {
		err = x.ForApp(edge.AppOf(app))
	}
	if err != nil {
		x.Refuse(r, err)
		return
	}
	if g.isStream(x, r) {
		x.BecomeStream()
		g.streams.ServeHTTP(w, r)
		return
	}
	g.calls.ServeHTTP(w, r)
}

// appOf returns the app that a header names; empty for none.
func appOf(h http.Header) (string, error) {
	app, err := onlyHeader(h, edge.HeaderApp, "app")
	if err == nil && app != "" {
		err = actor.ValidateName("app", app)
	}
	return app, err
}

// onlyHeader returns the value of a header, which may come once; empty for none.
func onlyHeader(h http.Header, name, what string) (string, error) {
	values := h[name]
	switch {
	case len(values) == 0:
		return "", nil
	case len(values) > 1:
		return "", &actor.ArgumentError{Field: name, Problem: "is given more than once; name one " + what}
	case values[0] == "":
		return "", &actor.ArgumentError{Field: name, Problem: "is empty; name the " + what + ", or leave the header away"}
	}
	return values[0], nil
}

// service returns what serves a service of an app.
func (g *guestServices) service(app, name string) (*typed.Service, modules.ServedType, bool) {
	t, ok := g.s.Modules.ServiceType(app, name)
	if !ok {
		return nil, t, false
	}
	s, ok := g.s.Calls.Services.Of(t.Deployment, t.Spec)
	return s, t, ok
}

// rpc returns the rpc that an exchange asks for, and the type that serves it.
func (g *guestServices) rpc(x *edge.Exchange) (*typed.Method, modules.ServedType, error) {
	name, method, _ := edge.Procedure(x.Path)
	service, t, ok := g.service(x.Owner(), name)
	if !ok {
		return nil, t, edge.ErrNoPath(x.Path)
	}
	m := service.Method(method)
	if m == nil {
		return nil, t, &failure.Error{Kind: failure.KindPathNotFound, Text: fmt.Sprintf("the service %s has no rpc %s; has another version been deployed?", name, method)}
	}
	return m, t, nil
}

// isStream reports whether a request is for a stream. In Connect its content type says so; in gRPC
// the rpc does.
func (g *guestServices) isStream(x *edge.Exchange, r *http.Request) bool {
	contentType := r.Header.Get("Content-Type")
	switch {
	case r.Method != http.MethodPost:
		return false
	case strings.HasPrefix(contentType, "application/connect+"):
		return true
	case !strings.HasPrefix(contentType, "application/grpc"):
		return false
	}
	m, _, err := g.rpc(x)
	return err == nil && m.Streaming
}

// call runs one rpc.
func (g *guestServices) call(ctx context.Context, req *connect.Request[codec.Raw]) (*connect.Response[codec.Raw], error) {
	x := edge.ExchangeOf(ctx)
	m, t, err := g.rpc(x)
	if err != nil {
		return nil, err
	}
	if m.Streaming {
		return nil, &actor.ArgumentError{Field: "Content-Type", Problem: "is that of a call, and the rpc " + m.Name + " answers with a stream; use application/connect+json, application/connect+proto, or gRPC"}
	}
	if !m.NoSideEffects {
		if err := x.Caller.Require(edge.RoleInvoke); err != nil {
			return nil, err
		}
		if req.HTTPMethod() == http.MethodGet {
			return nil, &failure.Error{Kind: failure.KindMethodRefused, Text: "the rpc may have side effects; use POST"}
		}
	}
	request, id, err := requestOf(m, req, x)
	if err != nil {
		return nil, err
	}
	inv := actor.Invocation{
		Key: actor.Key{App: x.Owner(), Type: t.Spec.Name, ID: id}, Method: m.Name,
		Payload: actor.Payload{ContentType: abi.ContentTypeProtobuf, Data: request}, ReadOnly: m.NoSideEffects,
	}
	if !m.NoSideEffects {
		if inv.IdempotencyKey, err = edge.IdempotencyKey(req.Header()); err != nil {
			return nil, err
		}
	}
	if inv.Consistency, err = edge.Consistency(req.Header()); err != nil {
		return nil, err
	}
	reply, err := (&actorService{g.s}).invoke(ctx, inv)
	if err != nil {
		return nil, err
	}
	data, err := response(x, m, req.Msg.JSON, reply)
	if err != nil {
		return nil, &actor.TurnError{Key: inv.Key, Method: m.Name, Err: err}
	}
	res := uncached(&codec.Raw{Data: data})
	edge.SetFuel(res.Header(), reply)
	return res, nil
}

// stream serves one streaming rpc: a subscription to the actor's events that have the rpc's name.
func (g *guestServices) stream(ctx context.Context, req *connect.Request[codec.Raw], to *connect.ServerStream[codec.Raw]) error {
	x := edge.ExchangeOf(ctx)
	m, t, err := g.rpc(x)
	if err != nil {
		return err
	}
	if !m.Streaming {
		return &actor.ArgumentError{Field: "Content-Type", Problem: "is that of a stream, and the rpc " + m.Name + " answers with one message; use application/json or application/proto"}
	}
	_, id, err := requestOf(m, req, x)
	x.ReleaseBody() // the stream needs the ID alone
	if err != nil {
		return err
	}
	s := guestStream{rpc: g.rpc, x: x, to: to, key: actor.Key{App: x.Owner(), Type: t.Spec.Name, ID: id}, name: m.Name, json: req.Msg.JSON}
	if err := s.key.Validate(); err != nil {
		return err
	}
	from, err := onlyHeader(req.Header(), edge.HeaderEvents, "position")
	if err != nil {
		return err
	}
	after, err := events.ParseFrom(edge.HeaderEvents, from)
	if err != nil {
		return err
	}
	err = g.s.Events.Subscribe(ctx, s.key, after, events.Subscription{Began: s.began, Deliver: s.deliver, Idle: s.idle})
	if s.open {
		to.ResponseTrailer().Set(edge.HeaderPosition, s.passed.String())
	}
	if err != nil {
		return &actor.TurnError{Key: s.key, Method: s.name, Err: err}
	}
	return nil
}

// requestOf returns the request in the binary form, and the actor's ID.
func requestOf(m *typed.Method, req *connect.Request[codec.Raw], x *edge.Exchange) (request []byte, id string, err error) {
	request = req.Msg.Data
	if req.Msg.JSON {
		if request, err = transcode.Request(m, request, x.CountBody); err != nil {
			return nil, "", err
		}
	}
	inField, field, err := m.ID(request)
	if err != nil {
		return nil, "", &actor.ArgumentError{Field: "request", Problem: "is not a message of this procedure: " + err.Error()}
	}
	id, err = onlyHeader(req.Header(), edge.HeaderActor, "actor")
	switch {
	case err != nil:
		return nil, "", err
	case id == "" && inField == "" && field == "":
		return nil, "", &actor.ArgumentError{Field: edge.HeaderActor, Problem: "is missing; send the header with the actor's ID"}
	case id == "" && inField == "":
		return nil, "", &actor.ArgumentError{Field: field, Problem: "is empty; give the actor's ID there, or in the header " + edge.HeaderActor}
	case id != "" && inField != "" && id != inField:
		return nil, "", &actor.ArgumentError{Field: edge.HeaderActor, Problem: fmt.Sprintf("is %q, and the field %s is %q; give one of them, or both the same", id, field, inField)}
	case id == "":
		id = inField
	}
	return request, id, nil
}

// response returns a reply as the response of an rpc.
func response(x *edge.Exchange, m *typed.Method, json bool, reply actor.Reply) ([]byte, error) {
	data := reply.Payload.Data
	switch ct := reply.Payload.ContentType; {
	case len(data) > 0 && ct != abi.ContentTypeProtobuf:
		return nil, transcode.BadResponse("its content type is " + ct + ", and that of an rpc's reply is " + abi.ContentTypeProtobuf)
	case !json:
		return data, nil
	}
	return transcode.Response(m, data, x.CountBody)
}
