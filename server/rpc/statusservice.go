package rpc

import (
	"context"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/server/diagnosis"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/failure"
	"github.com/greenroom-run/greenroom/server/recent"
)

// statusService is StatusService: it has nothing of its own but the time of its start.
type statusService struct {
	s       *Services
	cluster *clusterService // nil: the server is alone
	started time.Time
}

var _ greenroomv1connect.StatusServiceHandler = (*statusService)(nil)

func newStatusService(s *Services, cluster *clusterService) edge.Service {
	sv := edge.Service{Name: greenroomv1connect.StatusServiceName}
	_, h := greenroomv1connect.NewStatusServiceHandler(&statusService{s, cluster, time.Now()}, s.edge.HandlerOptions(s.edge.PayloadRoute())...)
	own := edge.SmallRoute()
	own.AppLess = true // each caller is told what it may know
	sv.Serve(edge.RoleRead, own, h, greenroomv1connect.StatusServiceGetServerProcedure, greenroomv1connect.StatusServiceDiagnoseProcedure)
	sv.Serve(edge.RoleRead, edge.SmallRoute(), h, greenroomv1connect.StatusServiceListTurnsProcedure)
	sv.Serve(edge.RoleAdmin, edge.SmallRoute(), h, greenroomv1connect.StatusServiceListTokensProcedure)
	return sv
}

// caller is who asks.
func caller(ctx context.Context) edge.Caller { return edge.ExchangeOf(ctx).Caller }

func (s *statusService) GetServer(ctx context.Context, _ *connect.Request[greenroomv1.GetServerRequest]) (*connect.Response[greenroomv1.GetServerResponse], error) {
	who := caller(ctx)
	return uncached(&greenroomv1.GetServerResponse{
		Version: s.s.Version, Cluster: s.cluster != nil,
		Token: who.Name, Role: roleToProto(who.Role()), App: who.App(), Authenticated: len(s.s.edge.Tokens()) > 0,
		Now: timestamppb.Now(), StartedAt: timestamppb.New(s.started), MaxModuleBytes: s.s.edge.Conf.MaxModuleBytes,
	}), nil
}

func (s *statusService) Diagnose(ctx context.Context, req *connect.Request[greenroomv1.DiagnoseRequest]) (*connect.Response[greenroomv1.DiagnoseResponse], error) {
	who := caller(ctx)
	msg := &greenroomv1.DiagnoseResponse{Findings: []*greenroomv1.Finding{diagnosis.Store(s.s.Health.whyNotReady())}}
	if s.cluster != nil && who.App() == "" {
		reach := req.Msg.GetReach() && who.Require(edge.RoleAdmin) == nil // it makes all servers connect to all
		hosts, err := s.cluster.listHosts(ctx, reach)
		if err != nil {
			msg.Findings = append(msg.Findings, diagnosis.NoCluster(failure.Of(err, false).Message))
		} else {
			msg.Findings = append(msg.Findings, diagnosis.Cluster(hosts)...)
			if req.Msg.GetReach() && !reach && len(hosts.Hosts) > 1 {
				msg.Findings[1].Found += "; which of them reach which is said to the token of an admin"
			}
		}
	}
	chains := s.s.edge.Metrics.Chains.ByType()
	if who.App() != "" {
		for of := range chains {
			if of.App != who.App() {
				delete(chains, of)
			}
		}
	}
	msg.Findings = append(msg.Findings, diagnosis.Calls(chains)...)
	return uncached(msg), nil
}

func (s *statusService) ListTurns(ctx context.Context, req *connect.Request[greenroomv1.ListTurnsRequest]) (*connect.Response[greenroomv1.ListTurnsResponse], error) {
	name := edge.AppOf(req.Msg.GetApp())
	elsewhere, missing := s.turnsElsewhere(ctx, name)
	now := time.Now()
	app := recent.Add(now, append(elsewhere, s.s.edge.Metrics.Recent.Of(name, now))...)
	return uncached(&greenroomv1.ListTurnsResponse{
		StepSeconds: uint32(recent.Step / time.Second), First: timestamppb.New(app.First), Last: timestamppb.New(app.Last), Now: timestamppb.New(now),
		Types: mapped(app.Types, turnsToProto), All: turnsToProto(app.All), Uncounted: app.Uncounted, Missing: missing,
	}), nil
}

// turnsElsewhere asks the other servers of the cluster what they counted of an app, and returns the names
// of those that did not answer.
func (s *statusService) turnsElsewhere(ctx context.Context, app string) (all []recent.Counts, missing []string) {
	if s.cluster == nil || s.s.Interconnect == nil {
		return nil, nil
	}
	others := s.s.Cluster.Others()
	answers := make([]*greenroomv1.ExchangeTurnsResponse, len(others))
	var asking sync.WaitGroup
	for i, h := range others {
		asking.Go(func() {
			if msg, err := s.s.Interconnect.CountTurns(ctx, h.ID, app); err == nil {
				answers[i] = msg
			}
		})
	}
	asking.Wait()
	for i, msg := range answers {
		if msg == nil {
			missing = append(missing, others[i].Name)
			continue
		}
		all = append(all, countsFromProto(msg))
	}
	slices.Sort(missing)
	return all, missing
}

func countsFromProto(msg *greenroomv1.ExchangeTurnsResponse) recent.Counts {
	c := recent.Counts{Types: map[string][]recent.StepCounts{}, Uncounted: msg.GetUncounted()}
	for _, t := range msg.GetTypes() {
		c.Types[t.GetType()] = mapped(t.GetSteps(), func(s *greenroomv1.CountedStep) recent.StepCounts {
			return recent.StepCounts{Number: s.GetNumber(), Errors: s.GetErrors(), Durations: s.GetDurations()}
		})
	}
	return c
}

func turnsToProto(s recent.Series) *greenroomv1.TypeTurns {
	return &greenroomv1.TypeTurns{
		Type: s.Type, Turns: s.Total.Turns, Errors: s.Total.Errors, P50Seconds: s.Total.P50.Seconds(), P99Seconds: s.Total.P99.Seconds(),
		Steps: mapped(s.Steps, func(c recent.Count) *greenroomv1.TurnStep {
			return &greenroomv1.TurnStep{Index: uint32(c.Index), Turns: c.Turns, Errors: c.Errors, P50Seconds: c.P50.Seconds(), P99Seconds: c.P99.Seconds()} //nolint:gosec // below recent.Steps
		}),
	}
}

func (s *statusService) ListTokens(ctx context.Context, _ *connect.Request[greenroomv1.ListTokensRequest]) (*connect.Response[greenroomv1.ListTokensResponse], error) {
	who := caller(ctx)
	return uncached(&greenroomv1.ListTokensResponse{Tokens: mapped(s.s.edge.Tokens(), func(t edge.TokenUse) *greenroomv1.TokenInfo {
		info := &greenroomv1.TokenInfo{Name: t.Name, Role: roleToProto(t.Role()), App: t.App(), Own: t.Name == who.Name}
		if !t.LastUsed.IsZero() {
			info.LastUsedAt = timestamppb.New(t.LastUsed)
		}
		return info
	})}), nil
}

func roleToProto(r edge.Role) greenroomv1.Role { return greenroomv1.Role(r) } // the numbers are the same
