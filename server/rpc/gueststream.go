package rpc

import (
	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/typed"
	"github.com/greenroom-run/greenroom/modules"
	"github.com/greenroom-run/greenroom/server/codec"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/failure"
	"github.com/greenroom-run/greenroom/server/transcode"
)

// guestStream is a stream of a guest's rpc: a subscription to the events of an actor. It is used by
// one goroutine at a time.
type guestStream struct {
	rpc    func(*edge.Exchange) (*typed.Method, modules.ServedType, error) // as it is served now
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
	m, t, err := s.rpc(s.x)
	if err == nil && (!m.Streaming || t.Spec.Name != s.key.Type) {
		err = &failure.Error{Kind: failure.KindPathNotFound, Text: "another version has been deployed, in which the type " + s.key.Type + " does not serve the stream " + s.name}
	}
	return m, err
}
