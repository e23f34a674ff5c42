package rpc

import (
	"context"
	"net/http"
	"strings"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/typed"
	"github.com/greenroom-run/greenroom/server/codec"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/events"
	"github.com/greenroom-run/greenroom/server/failure"
	"github.com/greenroom-run/greenroom/server/transcode"
)

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
	s := guestStream{guests: g, x: x, to: to, key: actor.Key{App: x.Owner(), Type: t.Spec.Name, ID: id}, name: m.Name, json: req.Msg.JSON}
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

// guestStream is a stream of a guest's rpc. It is used by one goroutine at a time.
type guestStream struct {
	guests *guestServices
	x      *edge.Exchange
	to     *connect.ServerStream[codec.Raw]
	key    actor.Key
	name   string // of the rpc, and of its events
	json   bool
	open   bool
	passed actor.EventPosition
}

func (s *guestStream) began(at actor.EventPosition) error {
	s.open, s.passed = true, at
	h := s.to.ResponseHeader()
	h.Set(edge.HeaderPosition, at.String())
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
	return s.to.Send(nil)            // the headers alone
}

func (s *guestStream) deliver(list []actor.Event) error {
	m, err := s.served()
	if err != nil {
		return err
	}
	for i := range list {
		if e := &list[i]; e.Name == s.name {
			if err := s.send(m, e); err != nil {
				return err
			}
		}
		s.passed = list[i].Position
	}
	return nil
}

// send sends an event as a message. An event that is no message counts as passed, so that a client
// that continues after the error does not meet it again.
func (s *guestStream) send(m *typed.Method, e *actor.Event) error {
	message, err := transcode.Message(m, e, s.json, s.x.CountBody)
	defer s.x.ReleaseBody()
	if err != nil {
		if transcode.IsBadEvent(err) {
			s.passed = e.Position
		}
		return err
	}
	return s.to.Send(&codec.Raw{Data: message})
}

// idle ends the stream if its rpc is not served any more. It sends nothing, since the client would take
// any message for an event. The pings of HTTP/2 and TCP find broken connections.
func (s *guestStream) idle() error {
	_, err := s.served()
	return err
}

// served returns the rpc as the type serves it now.
func (s *guestStream) served() (*typed.Method, error) {
	m, t, err := s.guests.rpc(s.x)
	if err == nil && (!m.Streaming || t.Spec.Name != s.key.Type) {
		err = &failure.Error{Kind: failure.KindPathNotFound, Text: "another version has been deployed, in which the type " + s.key.Type + " does not serve the stream " + s.name}
	}
	return m, err
}
