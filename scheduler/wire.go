package scheduler

import (
	"slices"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/scheduler/placement"
)

// The messages of a session, to and from what the pure parts take.

// stickyBatch is how many IDs one message has at most.
const stickyBatch = 4096

func toRanges(ranges []HeldRange) []*greenroomv1.PlacementRange {
	out := make([]*greenroomv1.PlacementRange, len(ranges))
	for i, r := range ranges {
		out[i] = &greenroomv1.PlacementRange{First: uint64(r.First), Last: uint64(r.Last), Hosts: toIDs(r.Hosts), Readers: toIDs(r.Readers), Clean: r.Clean, Moved: r.Moved}
	}
	return out
}

// fromRanges leaves out what cannot be: ranges that end before they begin, or overlap.
func fromRanges(ranges []*greenroomv1.PlacementRange) []HeldRange {
	out := make([]HeldRange, 0, len(ranges))
	for _, r := range ranges {
		out = append(out, HeldRange{First: placement.Point(r.GetFirst()), Last: placement.Point(r.GetLast()), Hosts: fromIDs(r.GetHosts()), Readers: fromIDs(r.GetReaders()), Clean: r.GetClean(), Moved: r.GetMoved()})
	}
	slices.SortFunc(out, func(a, b HeldRange) int {
		if a.First < b.First {
			return -1
		}
		return 1
	})
	kept := out[:0]
	for _, r := range out {
		if r.First <= r.Last && (len(kept) == 0 || kept[len(kept)-1].Last < r.First) {
			kept = append(kept, r)
		}
	}
	return kept
}

func toIDs(ids []actor.HostID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = string(id)
	}
	return out
}

func fromIDs(ids []string) []actor.HostID {
	if len(ids) == 0 {
		return nil
	}
	out := make([]actor.HostID, len(ids))
	for i, id := range ids {
		out[i] = actor.HostID(id)
	}
	return out
}

// orderKinds are the kinds of orders on the wire.
var orderKinds = map[OrderKind]greenroomv1.PlacementOrder_Kind{
	Lock:   greenroomv1.PlacementOrder_KIND_LOCK,
	Update: greenroomv1.PlacementOrder_KIND_UPDATE,
	Unlock: greenroomv1.PlacementOrder_KIND_UNLOCK,
	Remove: greenroomv1.PlacementOrder_KIND_REMOVE,
}

func toOrder(o Order) *greenroomv1.ReportActorTypesResponse {
	return &greenroomv1.ReportActorTypesResponse{Message: &greenroomv1.ReportActorTypesResponse_Order{Order: &greenroomv1.PlacementOrder{
		App: o.App, Type: o.Type, Version: o.Version, Kind: orderKinds[o.Kind], Placement: o.Policy, Ranges: toRanges(o.Ranges), WithSticky: o.WithSticky,
	}}}
}

// fromOrder returns an order without a kind if it has one that is not known.
func fromOrder(o *greenroomv1.PlacementOrder) Order {
	order := Order{App: o.GetApp(), Type: o.GetType(), Version: o.GetVersion(), Policy: o.GetPlacement(), Ranges: fromRanges(o.GetRanges()), WithSticky: o.GetWithSticky()}
	for kind, on := range orderKinds {
		if on == o.GetKind() {
			order.Kind = kind
		}
	}
	return order
}

// stickyMessages returns keys by type, with stickyBatch of them in a message at most.
func stickyMessages(keys []actor.Key) [][]*greenroomv1.StickyActors {
	var messages [][]*greenroomv1.StickyActors
	for batch := range slices.Chunk(keys, stickyBatch) {
		byType := map[typeName]*greenroomv1.StickyActors{}
		var message []*greenroomv1.StickyActors
		for _, key := range batch {
			name := typeName{key.App, key.Type}
			actors := byType[name]
			if actors == nil {
				actors = &greenroomv1.StickyActors{App: key.App, Type: key.Type}
				byType[name] = actors
				message = append(message, actors)
			}
			actors.Ids = append(actors.Ids, key.ID)
		}
		messages = append(messages, message)
	}
	return messages
}

func fromSticky(actors []*greenroomv1.StickyActors) []actor.Key {
	var keys []actor.Key
	for _, a := range actors {
		for _, id := range a.GetIds() {
			keys = append(keys, actor.Key{App: a.GetApp(), Type: a.GetType(), ID: id})
		}
	}
	return keys
}

func toMember(h actor.Host, draining bool) *greenroomv1.ClusterMember {
	return &greenroomv1.ClusterMember{
		HostId: string(h.ID), Name: h.Name, Address: h.Address, MinProtocol: uint32(h.MinProtocol), MaxProtocol: uint32(h.MaxProtocol), //nolint:gosec // small
		Roles: h.Roles, Version: h.Version, Draining: draining,
	}
}

func fromMember(m *greenroomv1.ClusterMember) actor.Host {
	return actor.Host{
		ID: actor.HostID(m.GetHostId()), Name: m.GetName(), Address: m.GetAddress(), MinProtocol: int(m.GetMinProtocol()), MaxProtocol: int(m.GetMaxProtocol()),
		Roles: m.GetRoles(), Version: m.GetVersion(),
	}
}

func toTypes(types []Type) *greenroomv1.ReportActorTypesRequest {
	report := &greenroomv1.ActorTypesReport{Types: make([]*greenroomv1.HostedType, len(types))}
	for i, t := range types {
		report.Types[i] = &greenroomv1.HostedType{App: t.App, Type: t.Name, Placement: t.Placement, Generation: t.Generation, Readers: true}
	}
	return &greenroomv1.ReportActorTypesRequest{Message: &greenroomv1.ReportActorTypesRequest_Types{Types: report}}
}

func fromTypes(report *greenroomv1.ActorTypesReport) []Type {
	types := make([]Type, len(report.GetTypes()))
	for i, t := range report.GetTypes() {
		types[i] = Type{App: t.GetApp(), Name: t.GetType(), Placement: t.GetPlacement(), Generation: t.GetGeneration(), Readers: t.GetReaders()}
	}
	return types
}
