package rpc

import (
	"context"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/server/edge"
)

// settingsService is SettingsService over package settings.
type settingsService struct {
	Settings
	stored func(app string) (actor.Stored, bool) // nil: nothing is counted
}

var _ greenroomv1connect.SettingsServiceHandler = settingsService{}

// settingBody holds the longest value, escaped as JSON, in bytes.
const settingBody = 512 << 10

func newSettingsService(s *Services) edge.Service {
	sv := edge.Service{Name: greenroomv1connect.SettingsServiceName}
	settings := edge.Route{MaxBody: settingBody, BodyErr: edge.ErrMessageTooLarge(settingBody)}
	_, h := greenroomv1connect.NewSettingsServiceHandler(settingsService{s.Settings, s.Stored}, s.edge.HandlerOptions(settings)...)
	sv.Serve(edge.RoleDeploy, settings, h,
		greenroomv1connect.SettingsServiceGetSettingsProcedure,
		greenroomv1connect.SettingsServiceSetLimitProcedure,
		greenroomv1connect.SettingsServiceUnsetLimitProcedure,
		greenroomv1connect.SettingsServicePauseTypeProcedure,
		greenroomv1connect.SettingsServiceResumeTypeProcedure)
	sv.Serve(edge.RoleAdmin, settings, h,
		greenroomv1connect.SettingsServiceSetConfigProcedure,
		greenroomv1connect.SettingsServiceUnsetConfigProcedure,
		greenroomv1connect.SettingsServiceSetSecretProcedure,
		greenroomv1connect.SettingsServiceUnsetSecretProcedure,
		greenroomv1connect.SettingsServiceGrantHTTPProcedure,
		greenroomv1connect.SettingsServiceRevokeHTTPProcedure,
		greenroomv1connect.SettingsServiceSetQuotaProcedure,
		greenroomv1connect.SettingsServiceUnsetQuotaProcedure)
	return sv
}

func (s settingsService) GetSettings(ctx context.Context, req *connect.Request[greenroomv1.GetSettingsRequest]) (*connect.Response[greenroomv1.GetSettingsResponse], error) {
	all, err := s.List(ctx, edge.AppOf(req.Msg.GetApp()))
	if err != nil {
		return nil, err
	}
	msg := &greenroomv1.GetSettingsResponse{}
	for _, v := range all.Config {
		msg.Config = append(msg.Config, &greenroomv1.ConfigValue{Name: v.Name, Value: v.Value, UpdatedAt: timestamppb.New(v.UpdatedAt)})
	}
	for _, v := range all.Secrets {
		msg.Secrets = append(msg.Secrets, &greenroomv1.Secret{Name: v.Name, KeyId: string(v.Key), Readable: v.Readable, UpdatedAt: timestamppb.New(v.UpdatedAt)})
	}
	for _, v := range all.HTTP {
		msg.Http = append(msg.Http, &greenroomv1.HTTPGrant{Host: v.Host, Private: v.Private, UpdatedAt: timestamppb.New(v.UpdatedAt)})
	}
	for _, v := range all.Quotas {
		q := &greenroomv1.Quota{Name: string(v.Name), Rate: rateToProto(v.Rate), Most: v.Most, UpdatedAt: timestamppb.New(v.UpdatedAt)}
		if s.stored != nil {
			if stored, known := s.stored(edge.AppOf(req.Msg.GetApp())); known {
				q.Stored = stored.Of(v.Name)
			}
		}
		msg.Quotas = append(msg.Quotas, q)
	}
	for _, v := range all.Limits {
		msg.Limits = append(msg.Limits, &greenroomv1.TypeLimit{
			Type: v.Scope.Type, Method: v.Scope.Method, Rate: rateToProto(v.Rate), Concurrency: int32(v.Concurrency), Per: string(v.Per), Pool: v.Pool, UpdatedAt: timestamppb.New(v.UpdatedAt), //nolint:gosec // it came as one
		})
	}
	for _, v := range all.Pauses {
		msg.Pauses = append(msg.Pauses, &greenroomv1.TypePause{Type: v.Type, Refuse: v.Refuse, UpdatedAt: timestamppb.New(v.UpdatedAt)})
	}
	return uncached(msg), nil
}

func (s settingsService) SetConfig(ctx context.Context, req *connect.Request[greenroomv1.SetConfigRequest]) (*connect.Response[greenroomv1.SetConfigResponse], error) {
	err := s.Settings.SetConfig(ctx, edge.AppOf(req.Msg.GetApp()), req.Msg.GetName(), req.Msg.GetValue())
	return done(&greenroomv1.SetConfigResponse{}, err)
}

func (s settingsService) UnsetConfig(ctx context.Context, req *connect.Request[greenroomv1.UnsetConfigRequest]) (*connect.Response[greenroomv1.UnsetConfigResponse], error) {
	err := s.Settings.UnsetConfig(ctx, edge.AppOf(req.Msg.GetApp()), req.Msg.GetName())
	return done(&greenroomv1.UnsetConfigResponse{}, err)
}

func (s settingsService) SetSecret(ctx context.Context, req *connect.Request[greenroomv1.SetSecretRequest]) (*connect.Response[greenroomv1.SetSecretResponse], error) {
	err := s.Settings.SetSecret(ctx, edge.AppOf(req.Msg.GetApp()), req.Msg.GetName(), req.Msg.GetValue())
	return done(&greenroomv1.SetSecretResponse{}, err)
}

func (s settingsService) UnsetSecret(ctx context.Context, req *connect.Request[greenroomv1.UnsetSecretRequest]) (*connect.Response[greenroomv1.UnsetSecretResponse], error) {
	err := s.Settings.UnsetSecret(ctx, edge.AppOf(req.Msg.GetApp()), req.Msg.GetName())
	return done(&greenroomv1.UnsetSecretResponse{}, err)
}

func (s settingsService) GrantHTTP(ctx context.Context, req *connect.Request[greenroomv1.GrantHTTPRequest]) (*connect.Response[greenroomv1.GrantHTTPResponse], error) {
	host, err := s.Settings.GrantHTTP(ctx, edge.AppOf(req.Msg.GetApp()), actor.HTTPGrant{Host: req.Msg.GetHost(), Private: req.Msg.GetPrivate()})
	return done(&greenroomv1.GrantHTTPResponse{Host: host}, err)
}

func (s settingsService) RevokeHTTP(ctx context.Context, req *connect.Request[greenroomv1.RevokeHTTPRequest]) (*connect.Response[greenroomv1.RevokeHTTPResponse], error) {
	err := s.Settings.RevokeHTTP(ctx, edge.AppOf(req.Msg.GetApp()), req.Msg.GetHost())
	return done(&greenroomv1.RevokeHTTPResponse{}, err)
}

func (s settingsService) SetQuota(ctx context.Context, req *connect.Request[greenroomv1.SetQuotaRequest]) (*connect.Response[greenroomv1.SetQuotaResponse], error) {
	err := s.Settings.SetQuota(ctx, edge.AppOf(req.Msg.GetApp()), actor.Quota(req.Msg.GetName()), rateOf(req.Msg.GetRate()), req.Msg.GetMost())
	return done(&greenroomv1.SetQuotaResponse{}, err)
}

func (s settingsService) UnsetQuota(ctx context.Context, req *connect.Request[greenroomv1.UnsetQuotaRequest]) (*connect.Response[greenroomv1.UnsetQuotaResponse], error) {
	err := s.Settings.UnsetQuota(ctx, edge.AppOf(req.Msg.GetApp()), actor.Quota(req.Msg.GetName()))
	return done(&greenroomv1.UnsetQuotaResponse{}, err)
}

func (s settingsService) SetLimit(ctx context.Context, req *connect.Request[greenroomv1.SetLimitRequest]) (*connect.Response[greenroomv1.SetLimitResponse], error) {
	scope := actor.LimitScope{Type: req.Msg.GetType(), Method: req.Msg.GetMethod()}
	limit := actor.Limit{Rate: rateOf(req.Msg.GetRate()), Concurrency: int(req.Msg.GetConcurrency()), Per: actor.LimitKey(req.Msg.GetPer()), Pool: req.Msg.GetPool()}
	err := s.Settings.SetLimit(ctx, edge.AppOf(req.Msg.GetApp()), scope, limit)
	return done(&greenroomv1.SetLimitResponse{}, err)
}

func (s settingsService) UnsetLimit(ctx context.Context, req *connect.Request[greenroomv1.UnsetLimitRequest]) (*connect.Response[greenroomv1.UnsetLimitResponse], error) {
	scope := actor.LimitScope{Type: req.Msg.GetType(), Method: req.Msg.GetMethod()}
	err := s.Settings.UnsetLimit(ctx, edge.AppOf(req.Msg.GetApp()), scope)
	return done(&greenroomv1.UnsetLimitResponse{}, err)
}

func (s settingsService) PauseType(ctx context.Context, req *connect.Request[greenroomv1.PauseTypeRequest]) (*connect.Response[greenroomv1.PauseTypeResponse], error) {
	err := s.Settings.PauseType(ctx, edge.AppOf(req.Msg.GetApp()), req.Msg.GetType(), actor.Pause{Refuse: req.Msg.GetRefuse()})
	return done(&greenroomv1.PauseTypeResponse{}, err)
}

func (s settingsService) ResumeType(ctx context.Context, req *connect.Request[greenroomv1.ResumeTypeRequest]) (*connect.Response[greenroomv1.ResumeTypeResponse], error) {
	err := s.Settings.ResumeType(ctx, edge.AppOf(req.Msg.GetApp()), req.Msg.GetType())
	return done(&greenroomv1.ResumeTypeResponse{}, err)
}

func rateOf(r *greenroomv1.Rate) actor.Rate {
	return actor.Rate{PerSecond: r.GetPerSecond(), Burst: r.GetBurst()}
}

func rateToProto(r actor.Rate) *greenroomv1.Rate {
	if r == (actor.Rate{}) {
		return nil
	}
	return &greenroomv1.Rate{PerSecond: r.PerSecond, Burst: r.Burst}
}
