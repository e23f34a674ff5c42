package invokestream

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// EncodeOrigin returns o as [Invocation].Origin.
func EncodeOrigin(o *actor.Origin) ([]byte, error) {
	data, err := proto.Marshal(&greenroomv1.ForwardedOrigin{
		ActorType: o.From.Type, ActorId: o.From.ID, Chain: o.Chain, Depth: uint32(o.Depth), Fuel: o.Fuel, Waits: o.Waits, //nolint:gosec // a small number
	})
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
	return &actor.Origin{From: from, Chain: m.Chain, Depth: int(m.Depth), Fuel: m.Fuel, Waits: m.Waits}, nil
}
