package protocol

import (
	"maps"
	"slices"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/scheduler/placement"
)

// The messages of a session, to and from what the pure parts take.

// stickyBatch is how many IDs one message has at most.
const stickyBatch = 4096

func toRanges(ranges []Range) []*greenroomv1.PlacementRange {
	out := make([]*greenroomv1.PlacementRange, len(ranges))
	for i, r := range ranges {
		out[i] = &greenroomv1.PlacementRange{First: uint64(r.First), Last: uint64(r.Last), Hosts: ToIDs(r.Hosts), Readers: ToIDs(r.Readers), Clean: r.Clean, Moved: r.Moved}
	}
	return out
}

// FromRanges leaves out what cannot be: ranges that end before they begin, or overlap.
func FromRanges(ranges []*greenroomv1.PlacementRange) []Range {
	out := make([]Range, 0, len(ranges))
	for _, r := range ranges {
		out = append(out, Range{First: placement.Point(r.GetFirst()), Last: placement.Point(r.GetLast()), Hosts: FromIDs(r.GetHosts()), Readers: FromIDs(r.GetReaders()), Clean: r.GetClean(), Moved: r.GetMoved()})
	}
	slices.SortFunc(out, func(a, b Range) int {
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

// ToIDs returns host IDs as messages have them.
func ToIDs(ids []actor.HostID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = string(id)
	}
	return out
}

// FromIDs returns the host IDs of a message; nil if there are none.
func FromIDs(ids []string) []actor.HostID {
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
	Form:   greenroomv1.PlacementOrder_KIND_FORM,
}

// ToOrder names the group of an order, and its types where these make the group; an order
// without a group is about the one type that it names.
func ToOrder(o Order) *greenroomv1.PlacementOrder {
	out := &greenroomv1.PlacementOrder{
		Group: o.Group, Version: o.Version, Kind: orderKinds[o.Kind], Placement: o.Policy, Ranges: toRanges(o.Ranges), WithSticky: o.WithSticky,
	}
	if o.Group == 0 {
		out.App, out.Type = o.Types[0].App, o.Types[0].Type
	} else if o.Kind == Form {
		out.Types = toNames(o.Types)
	}
	return out
}

// FromOrder returns an order without a kind if it has one that is not known.
func FromOrder(o *greenroomv1.PlacementOrder) Order {
	order := Order{Group: o.GetGroup(), Types: fromNames(o.GetTypes()), Version: o.GetVersion(), Policy: o.GetPlacement(), Ranges: FromRanges(o.GetRanges()), WithSticky: o.GetWithSticky()}
	if order.Group == 0 {
		order.Types = []TypeName{{o.GetApp(), o.GetType()}}
	}
	for kind, on := range orderKinds {
		if on == o.GetKind() {
			order.Kind = kind
		}
	}
	return order
}

func toNames(names []TypeName) []*greenroomv1.ActorTypeName {
	out := make([]*greenroomv1.ActorTypeName, len(names))
	for i, name := range names {
		out[i] = &greenroomv1.ActorTypeName{App: name.App, Type: name.Type}
	}
	return out
}

func fromNames(names []*greenroomv1.ActorTypeName) []TypeName {
	out := make([]TypeName, len(names))
	for i, name := range names {
		out[i] = TypeName{name.GetApp(), name.GetType()}
	}
	return out
}

// orderWeight bounds the ranges and types of the orders of one message.
const orderWeight = 1 << 14

// ToOrders returns the messages with orders for one host. A group is formed in the message
// that has the next order about it.
func ToOrders(orders []Order) (messages []*greenroomv1.ReportActorTypesResponse) {
	weight := orderWeight
	var last *greenroomv1.PlacementOrders
	for i, o := range orders {
		if weight >= orderWeight && (i == 0 || orders[i-1].Kind != Form) {
			weight, last = 0, &greenroomv1.PlacementOrders{}
			messages = append(messages, &greenroomv1.ReportActorTypesResponse{Message: &greenroomv1.ReportActorTypesResponse_Orders{Orders: last}})
		}
		weight += 1 + len(o.Ranges)
		if o.Kind == Form {
			weight += len(o.Types)
		}
		last.Orders = append(last.Orders, ToOrder(o))
	}
	return messages
}

// ToReleased answers a LOCK. For a group, the version identifies the order.
func ToReleased(o Order, ranges []Range) *greenroomv1.RangesReleased {
	released := &greenroomv1.RangesReleased{Version: o.Version, Ranges: toRanges(ranges)}
	if o.Group == 0 {
		released.App, released.Type = o.Types[0].App, o.Types[0].Type
	}
	return released
}

// ToUpdated answers an UPDATE.
func ToUpdated(o Order) *greenroomv1.RangesUpdated {
	updated := &greenroomv1.RangesUpdated{Version: o.Version}
	if o.Group == 0 {
		updated.App, updated.Type = o.Types[0].App, o.Types[0].Type
	}
	return updated
}

// ToClaims claims what a table has for a leader: type by type for one that knows no groups.
func ToClaims(c Order, protocol int) []*greenroomv1.RangeClaimsReport {
	all := &greenroomv1.RangeClaimsReport{Placement: c.Policy, Ranges: toRanges(c.Ranges)}
	if protocol >= WithGroups {
		all.Types = toNames(c.Types)
		return []*greenroomv1.RangeClaimsReport{all}
	}
	claims := make([]*greenroomv1.RangeClaimsReport, len(c.Types))
	for i, name := range c.Types {
		claims[i] = &greenroomv1.RangeClaimsReport{App: name.App, Type: name.Type, Placement: all.GetPlacement(), Ranges: all.GetRanges()}
	}
	return claims
}

// ClaimedTypes returns the types that claims are about.
func ClaimedTypes(c *greenroomv1.RangeClaimsReport) []TypeName {
	if len(c.GetTypes()) > 0 {
		return fromNames(c.GetTypes())
	}
	return []TypeName{{c.GetApp(), c.GetType()}}
}

// ToSticky returns keys by type, with stickyBatch of them in a message at most.
func ToSticky(keys []actor.Key) [][]*greenroomv1.StickyActors {
	var messages [][]*greenroomv1.StickyActors
	for batch := range slices.Chunk(keys, stickyBatch) {
		byType := map[TypeName]*greenroomv1.StickyActors{}
		var message []*greenroomv1.StickyActors
		for _, key := range batch {
			name := TypeOf(key)
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

// FromSticky returns the keys of one message of [ToSticky].
func FromSticky(actors []*greenroomv1.StickyActors) []actor.Key {
	var keys []actor.Key
	for _, a := range actors {
		for _, id := range a.GetIds() {
			keys = append(keys, actor.Key{App: a.GetApp(), Type: a.GetType(), ID: id})
		}
	}
	return keys
}

// ToMember returns the entry of a host in the list of members. A host's row does not say
// whether it is draining: the leader's tables do.
func ToMember(h actor.Host, draining bool) *greenroomv1.ClusterMember {
	return &greenroomv1.ClusterMember{
		HostId: string(h.ID), Name: h.Name, Address: h.Address, MinProtocol: uint32(h.MinProtocol), MaxProtocol: uint32(h.MaxProtocol), //nolint:gosec // small
		Roles: h.Roles, Version: h.Version, Draining: draining,
	}
}

// FromMember returns the host of an entry in the list of members, without Cluster, Sticky,
// StartedAt and ExpiresAt, which the entry does not have.
func FromMember(m *greenroomv1.ClusterMember) actor.Host {
	return actor.Host{
		ID: actor.HostID(m.GetHostId()), Name: m.GetName(), Address: m.GetAddress(), MinProtocol: int(m.GetMinProtocol()), MaxProtocol: int(m.GetMaxProtocol()),
		Roles: m.GetRoles(), Version: m.GetVersion(),
	}
}

// ToTypes returns the report of a host's types. It sets readers for each, whatever
// Type.Readers is: a host of this version knows of them.
func ToTypes(types []Type) *greenroomv1.ReportActorTypesRequest {
	report := &greenroomv1.ActorTypesReport{Types: make([]*greenroomv1.HostedType, len(types))}
	for i, t := range types {
		report.Types[i] = &greenroomv1.HostedType{App: t.App, Type: t.Name, Placement: t.Placement, Generation: t.Generation, Readers: true}
	}
	return &greenroomv1.ReportActorTypesRequest{Message: &greenroomv1.ReportActorTypesRequest_Types{Types: report}}
}

// FromTypes returns the types that a host reported.
func FromTypes(report *greenroomv1.ActorTypesReport) []Type {
	types := make([]Type, len(report.GetTypes()))
	for i, t := range report.GetTypes() {
		types[i] = Type{App: t.GetApp(), Name: t.GetType(), Placement: t.GetPlacement(), Generation: t.GetGeneration(), Readers: t.GetReaders()}
	}
	return types
}

// ToHeat returns the rates of a type's calls, total and by cell, in calls per second. id is
// the host in an answer of the leader, and empty in a host's own report.
func ToHeat(name TypeName, id placement.HostID, total float64, cells map[placement.Cell]float64) *greenroomv1.TypeHeat {
	t := &greenroomv1.TypeHeat{App: name.App, Type: name.Type, HostId: string(id), CallsPerSecond: total}
	for _, cell := range slices.Sorted(maps.Keys(cells)) {
		t.Cells = append(t.Cells, uint32(cell))
		t.CellCallsPerSecond = append(t.CellCallsPerSecond, float32(cells[cell]))
	}
	return t
}
