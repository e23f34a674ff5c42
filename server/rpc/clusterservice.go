package rpc

import (
	"cmp"
	"context"
	"slices"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/routing"
	"github.com/greenroom-run/greenroom/scheduler"
	"github.com/greenroom-run/greenroom/server/edge"
)

// clusterService is ClusterService over package scheduler.
type clusterService struct {
	cluster Cluster
	// reach asks hosts which of them they cannot reach.
	reach func(ctx context.Context, hosts []actor.HostID) []routing.Reach
}

var _ greenroomv1connect.ClusterServiceHandler = (*clusterService)(nil)

// newCluster is nil where the server is alone.
func newCluster(s *Services) *clusterService {
	if s.Cluster == nil {
		return nil
	}
	cs := &clusterService{cluster: s.Cluster, reach: func(context.Context, []actor.HostID) []routing.Reach { return nil }}
	if s.Interconnect != nil {
		cs.reach = s.Interconnect.Reach
	}
	return cs
}

func newClusterService(s *Services, cs *clusterService) edge.Service {
	sv := edge.Service{Name: greenroomv1connect.ClusterServiceName}
	requests := edge.Route{MaxBody: settingBody, BodyErr: edge.ErrMessageTooLarge(settingBody)}
	_, h := greenroomv1connect.NewClusterServiceHandler(cs, s.edge.HandlerOptions(requests)...)
	sv.Serve(edge.RoleRead, requests, h,
		greenroomv1connect.ClusterServiceListHostsProcedure,
		greenroomv1connect.ClusterServiceWhereProcedure,
		greenroomv1connect.ClusterServiceListStickyProcedure,
		greenroomv1connect.ClusterServiceGetPlacementProcedure)
	sv.Serve(edge.RoleAdmin, requests, h, greenroomv1connect.ClusterServiceDrainHostProcedure)
	return sv
}

func (s *clusterService) ListHosts(ctx context.Context, req *connect.Request[greenroomv1.ListHostsRequest]) (*connect.Response[greenroomv1.ListHostsResponse], error) {
	if x := edge.ExchangeOf(ctx); req.Msg.GetReach() && x != nil {
		if err := x.Caller.Require(edge.RoleAdmin); err != nil { // it makes all servers connect to all
			return nil, err
		}
	}
	msg, err := s.listHosts(ctx, req.Msg.GetReach())
	if err != nil {
		return nil, err
	}
	return uncached(msg), nil
}

// listHosts is what is known of the servers; with reach, also what each says of the others.
func (s *clusterService) listHosts(ctx context.Context, reach bool) (*greenroomv1.ListHostsResponse, error) {
	list, err := s.cluster.Hosts(ctx)
	if err != nil {
		return nil, err
	}
	msg := &greenroomv1.ListHostsResponse{
		Missing: hostNames(list.Missing), Now: timestamppb.New(list.Now), LeaderEpoch: list.Epoch, LeaderAnswered: list.Answered, ClockAheadMs: list.ClockAhead.Milliseconds(),
	}
	for _, h := range list.Hosts {
		msg.Hosts = append(msg.Hosts, &greenroomv1.ClusterHost{
			HostId: string(h.ID), Name: h.Name, Address: h.Address, Roles: h.Roles, Version: h.Version,
			MinProtocol: uint32(h.MinProtocol), MaxProtocol: uint32(h.MaxProtocol), //nolint:gosec // small
			StartedAt: timestamppb.New(h.StartedAt), ExpiresAt: timestamppb.New(h.ExpiresAt),
			Leader: h.Leader, Answering: h.Self, Draining: h.Draining, Connected: h.Connected,
			Ranges: uint64(h.Ranges), StickyActors: uint64(h.Sticky), Partitions: uint64(h.Partitions), Weight: h.Weight, //nolint:gosec // counts
		})
	}
	if reach {
		msg.Reach = s.mesh(ctx, list)
	}
	return msg, nil
}

// mesh is what hosts say of each other.
func (s *clusterService) mesh(ctx context.Context, list scheduler.HostList) []*greenroomv1.HostReach {
	var ids []actor.HostID
	for _, h := range list.Hosts {
		if list.Now.Before(h.ExpiresAt) { // the others are gone, or about to be
			ids = append(ids, h.ID)
		}
	}
	var all []*greenroomv1.HostReach
	for _, r := range s.reach(ctx, ids) {
		on := &greenroomv1.HostReach{HostId: string(r.Host), Answered: r.Answered, Unreachable: unreachable(r.Unreachable)}
		if r.Answered {
			on.ClockAheadMs = (list.ClockAhead + r.ClockAhead).Milliseconds()
		}
		all = append(all, on)
	}
	return all
}

func (s *clusterService) DrainHost(_ context.Context, req *connect.Request[greenroomv1.DrainHostRequest]) (*connect.Response[greenroomv1.DrainHostResponse], error) {
	id, err := s.cluster.FindHost(req.Msg.GetHost())
	if err != nil {
		return nil, err
	}
	return done(&greenroomv1.DrainHostResponse{HostId: string(id)}, s.cluster.DrainHost(id))
}

func (s *clusterService) Where(ctx context.Context, req *connect.Request[greenroomv1.WhereRequest]) (*connect.Response[greenroomv1.WhereResponse], error) {
	key := actor.Key{App: edge.AppOf(req.Msg.GetApp()), Type: req.Msg.GetType(), ID: req.Msg.GetId()}
	if err := key.Validate(); err != nil {
		return nil, err
	}
	at, err := s.cluster.Where(ctx, key)
	if err != nil {
		return nil, err
	}
	msg := &greenroomv1.WhereResponse{
		Placement: at.Policy, HostId: string(at.Host.ID), Name: at.Host.Name, Address: at.Host.Address, Moving: at.Moving, Point: uint64(at.Point), Group: at.Group, GroupKey: at.GroupKey,
	}
	for _, h := range at.Readers {
		msg.Readers = append(msg.Readers, &greenroomv1.ReaderHost{HostId: string(h.ID), Name: h.Name, Address: h.Address})
	}
	return uncached(msg), nil
}

func (s *clusterService) ListSticky(ctx context.Context, req *connect.Request[greenroomv1.ListStickyRequest]) (*connect.Response[greenroomv1.ListStickyResponse], error) {
	list, size := pageList{greenroomv1connect.ClusterServiceListStickyProcedure, edge.AppOf(req.Msg.GetApp()), req.Msg.GetType()}, pageSize(req.Msg.GetPageSize())
	if err := actor.ValidateName("app", list.app); err != nil {
		return nil, err
	}
	after, err := parsePageToken(list, req.Msg.GetPageToken(), afterSticky)
	if err != nil {
		return nil, err
	}
	after.App = list.app
	entries, err := s.cluster.Sticky(ctx, list.app, list.typ, actor.HostID(req.Msg.GetOwner()), after, size)
	if err != nil {
		return nil, err
	}
	msg := &greenroomv1.ListStickyResponse{}
	for _, e := range entries {
		msg.Actors = append(msg.Actors, &greenroomv1.StickyActor{Type: e.Key.Type, Id: e.Key.ID, Owner: string(e.Owner)})
	}
	if len(entries) == size {
		msg.NextPageToken = pageToken(list, stickyPosition(entries[size-1].Key))
	}
	return uncached(msg), nil
}

func (s *clusterService) GetPlacement(ctx context.Context, req *connect.Request[greenroomv1.GetPlacementRequest]) (*connect.Response[greenroomv1.GetPlacementResponse], error) {
	app, typ := edge.AppOf(req.Msg.GetApp()), req.Msg.GetType()
	if err := (actor.Key{App: app, Type: typ, ID: "any"}).Validate(); err != nil {
		return nil, err
	}
	policy, parts, err := s.cluster.Placement(app, typ)
	if err != nil {
		return nil, err
	}
	msg := &greenroomv1.GetPlacementResponse{Placement: policy}
	for _, r := range parts {
		msg.Ranges = append(msg.Ranges, &greenroomv1.TableRange{
			First: uint64(r.First), Last: uint64(r.Last), Name: r.Name, Away: r.Away, Moved: r.Moved, Hosts: hostNames(r.Hosts), Readers: hostNames(r.Readers),
		})
	}
	heat, err := s.cluster.Heat(ctx, app, typ)
	if err != nil {
		return uncached(msg), nil //nolint:nilerr // the leader does not answer: the table is known all the same
	}
	for _, h := range heat {
		msg.Heat = append(msg.Heat, &greenroomv1.HostHeat{HostId: string(h.Host), CallsPerSecond: h.Total})
		for cell, rate := range h.Cells {
			i, _ := slices.BinarySearchFunc(msg.Ranges, uint64(cell.First()), func(r *greenroomv1.TableRange, p uint64) int { return cmp.Compare(r.GetLast(), p) })
			if i < len(msg.Ranges) {
				msg.Ranges[i].CallsPerSecond += rate
			}
		}
	}
	return uncached(msg), nil
}
