package invokestream

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// EncodeOrigin returns o as [Invocation].Origin.
func EncodeOrigin(o *actor.Origin) ([]byte, error) {
	m := &greenroomv1.ForwardedOrigin{
		ActorType: o.From.Type, ActorId: o.From.ID, Chain: o.Chain, Depth: uint32(o.Depth), Fuel: o.Fuel, Waits: o.Waits, //nolint:gosec // a small number
	}
	for i := range o.Marks {
		r := &o.Marks[i]
		m.Marks = append(m.Marks, &greenroomv1.ForwardedMark{
			ActorType: r.Actor.Type, ActorId: r.Actor.ID, Method: r.Method, Key: r.Key, PayloadSum: r.Payload[:], Ttl: durationpb.New(r.TTL),
			CalledType: r.Mark.Actor.Type, CalledId: r.Mark.Actor.ID, CalledMethod: r.Mark.Method, CalledKey: r.Mark.Key,
		})
	}
	data, err := proto.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode origin: %w", err)
	}
	return data, nil
}

// DecodeOrigin returns the turn that an invocation is called by; nil if none does.
func DecodeOrigin(i *Invocation) (*actor.Origin, error) {
	if len(i.Origin) == 0 {
		return nil, nil //nolint:nilnil // no turn calls
	}
	var m greenroomv1.ForwardedOrigin
	if err := proto.Unmarshal(i.Origin, &m); err != nil {
		return nil, fmt.Errorf("decode origin: %w", err)
	}
	from := actor.Key{App: i.Key.App, Type: m.ActorType, ID: m.ActorId}
	if err := from.Validate(); err != nil {
		return nil, err
	}
	switch {
	case m.Chain == "":
		return nil, &actor.ArgumentError{Field: "origin", Problem: "names no chain"}
	case m.Depth == 0:
		return nil, &actor.ArgumentError{Field: "origin", Problem: "is nested in no turn"}
	case len(m.Waits) > actor.MaxWaits:
		return nil, &actor.ArgumentError{Field: "origin", Problem: fmt.Sprintf("names %d waits; at most %d are allowed", len(m.Waits), actor.MaxWaits)}
	}
	for _, w := range m.Waits {
		if len(w) > actor.MaxWaitLen {
			return nil, &actor.ArgumentError{Field: "origin", Problem: fmt.Sprintf("names a wait of %d bytes; at most %d are allowed", len(w), actor.MaxWaitLen)}
		}
	}
	marks, err := decodeMarks(i.Key.App, m.Marks)
	if err != nil {
		return nil, err
	}
	return &actor.Origin{From: from, Chain: m.Chain, Depth: int(m.Depth), Fuel: m.Fuel, Waits: m.Waits, Marks: marks}, nil
}

// decodeMarks returns marks of calls of one app.
func decodeMarks(app string, all []*greenroomv1.ForwardedMark) (marks []actor.IdempotencyRecord, err error) {
	bad := func(problem string) error { return &actor.ArgumentError{Field: "origin", Problem: problem} }
	if len(all) > actor.MaxWaits {
		return nil, bad(fmt.Sprintf("has %d marks; at most %d are allowed", len(all), actor.MaxWaits))
	}
	for _, m := range all {
		of := actor.KeyedCall{Actor: actor.Key{App: app, Type: m.ActorType, ID: m.ActorId}, Method: m.Method, Key: m.Key}
		called := actor.KeyedCall{Actor: actor.Key{App: app, Type: m.CalledType, ID: m.CalledId}, Method: m.CalledMethod, Key: m.CalledKey}
		if err := errors.Join(of.Validate(), called.Validate(), m.Ttl.CheckValid()); err != nil {
			return nil, bad("has a mark that is none: " + err.Error())
		}
		r := actor.IdempotencyRecord{Actor: of.Actor, Method: of.Method, Key: of.Key, TTL: m.Ttl.AsDuration(), Mark: &called}
		if len(m.PayloadSum) != len(r.Payload) || r.TTL < time.Second {
			return nil, bad(fmt.Sprintf("has a mark with a sum of %d bytes, for %v; a sum has %d, and a mark is for a second at least", len(m.PayloadSum), r.TTL, len(r.Payload)))
		}
		copy(r.Payload[:], m.PayloadSum)
		marks = append(marks, r)
	}
	return marks, nil
}
