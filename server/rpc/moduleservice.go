package rpc

import (
	"cmp"
	"context"
	"errors"
	"io"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/abi/manifest"
	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/internal/typed"
	"github.com/greenroom-run/greenroom/modules"
	"github.com/greenroom-run/greenroom/server/edge"
)

// moduleService is ModuleService over the module service of package modules.
type moduleService struct {
	s *Services
	// spools are the uploads on their way.
	spools *spools
}

// maxUploadMessage bounds what a compressed message of an upload becomes: the validator
// takes chunks of 1 MiB.
const maxUploadMessage = 2 << 20

var _ greenroomv1connect.ModuleServiceHandler = (*moduleService)(nil)

func newModuleService(s *Services) edge.Service {
	sv := edge.Service{Name: greenroomv1connect.ModuleServiceName}
	upload := edge.Route{
		MaxBody:   edge.Base64Size(s.edge.Conf.MaxModuleBytes) + 1<<20,
		BodyErr:   edge.ErrModuleTooLarge(s.edge.Conf.MaxModuleBytes),
		Streaming: true,
		Upload:    true,
	}
	message := upload
	message.MaxBody = maxUploadMessage
	message.BodyErr = &actor.ArgumentError{Field: "upload", Problem: "has a message of more than 2 MiB; send chunks of at most 1 MiB"}
	_, h := greenroomv1connect.NewModuleServiceHandler(&moduleService{s: s, spools: newSpools(s.edge.Conf.TempFile, s.edge.Conf.Bounds.UploadsBytes)}, s.edge.HandlerOptions(message)...)
	sv.Serve(edge.RoleDeploy, upload, h, greenroomv1connect.ModuleServiceUploadProcedure, greenroomv1connect.ModuleServiceUploadModuleProcedure)
	sv.Serve(edge.RoleRead, edge.StreamRoute(), h, greenroomv1connect.ModuleServiceDownloadProcedure)
	sv.Serve(edge.RoleRead, edge.SmallRoute(), h,
		greenroomv1connect.ModuleServiceGetModuleProcedure,
		greenroomv1connect.ModuleServiceListModulesProcedure,
		greenroomv1connect.ModuleServiceHistoryProcedure,
		greenroomv1connect.ModuleServiceListTypesProcedure,
		greenroomv1connect.ModuleServiceListAppsProcedure)
	sv.Serve(edge.RoleDeploy, edge.SmallRoute(), h,
		greenroomv1connect.ModuleServiceDeleteModuleProcedure,
		greenroomv1connect.ModuleServiceDeployProcedure,
		greenroomv1connect.ModuleServiceRollbackProcedure,
		greenroomv1connect.ModuleServiceUndeployProcedure)
	return sv
}

// Upload implements ModuleService.
func (m *moduleService) Upload(ctx context.Context, stream *connect.BidiStream[greenroomv1.UploadRequest, greenroomv1.UploadResponse]) error {
	mod, err := m.upload(ctx, &upload{
		next: func() (uploadMessage, error) { return stream.Receive() },
		report: func(p *greenroomv1.UploadProgress) error {
			return stream.Send(&greenroomv1.UploadResponse{Event: &greenroomv1.UploadResponse_Progress{Progress: p}})
		},
	})
	if err != nil {
		return err
	}
	return stream.Send(&greenroomv1.UploadResponse{Event: &greenroomv1.UploadResponse_Module{Module: mod}})
}

// UploadModule implements ModuleService.
func (m *moduleService) UploadModule(ctx context.Context, stream *connect.ClientStream[greenroomv1.UploadModuleRequest]) (*connect.Response[greenroomv1.UploadModuleResponse], error) {
	mod, err := m.upload(ctx, &upload{
		next: func() (uploadMessage, error) {
			if !stream.Receive() {
				return nil, cmp.Or(stream.Err(), io.EOF)
			}
			return stream.Msg(), nil
		},
		report: func(*greenroomv1.UploadProgress) error { return nil },
	})
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&greenroomv1.UploadModuleResponse{Module: mod}), nil
}

// upload takes a module. Nothing is stored before the whole module has arrived, is what
// the header says, and is valid.
func (m *moduleService) upload(ctx context.Context, up *upload) (*greenroomv1.Module, error) {
	up.limit, up.exchange = m.s.edge.Conf.MaxModuleBytes, edge.ExchangeOf(ctx)
	if err := up.begin(m.spools); err != nil {
		return nil, err
	}
	defer up.spool.close()
	if err := up.receive(); err != nil {
		return nil, err
	}
	mod, err := m.s.Modules.Upload(ctx, edge.AppOf(up.header.GetApp()), up.spool.code(), up.stage)
	if err != nil {
		return nil, err
	}
	return moduleToProto(mod), nil
}

// downloadChunk is small enough to keep memory and head-of-line waiting low, in bytes.
const downloadChunk = 256 << 10

func (m *moduleService) Download(ctx context.Context, req *connect.Request[greenroomv1.DownloadRequest], stream *connect.ServerStream[greenroomv1.DownloadResponse]) error {
	wasm, err := m.s.Modules.Bytes(ctx, edge.AppOf(req.Msg.GetApp()), actor.Digest(req.Msg.GetDigest()))
	if err != nil {
		return err
	}
	msg := &greenroomv1.DownloadResponse{Size: int64(len(wasm))}
	for {
		n := min(len(wasm), downloadChunk)
		msg.Chunk, wasm = wasm[:n], wasm[n:]
		if err := stream.Send(msg); err != nil {
			return err
		}
		if len(wasm) == 0 {
			return nil
		}
		msg = &greenroomv1.DownloadResponse{}
	}
}

func (m *moduleService) GetModule(ctx context.Context, req *connect.Request[greenroomv1.GetModuleRequest]) (*connect.Response[greenroomv1.GetModuleResponse], error) {
	app := edge.AppOf(req.Msg.GetApp())
	mod, err := m.s.Modules.Module(ctx, app, actor.Digest(req.Msg.GetDigest()))
	if err != nil {
		return nil, err
	}
	types, err := m.s.Modules.Types(ctx, app)
	if err != nil {
		return nil, err
	}
	msg := &greenroomv1.GetModuleResponse{Module: moduleToProto(mod)}
	for _, t := range types {
		if t.Deployment.Digest == mod.Digest {
			msg.Serving = append(msg.Serving, deploymentToProto(t.Deployment))
		}
	}
	return uncached(msg), nil
}

func (m *moduleService) ListModules(ctx context.Context, req *connect.Request[greenroomv1.ListModulesRequest]) (*connect.Response[greenroomv1.ListModulesResponse], error) {
	list := pageList{procedure: greenroomv1connect.ModuleServiceListModulesProcedure, app: edge.AppOf(req.Msg.GetApp())}
	after, err := parsePageToken(list, req.Msg.GetPageToken(), afterModule)
	if err != nil {
		return nil, err
	}
	size := pageSize(req.Msg.GetPageSize())
	mods, err := m.s.Modules.List(ctx, list.app, after, size)
	if err != nil {
		return nil, err
	}
	msg := &greenroomv1.ListModulesResponse{Modules: mapped(mods, moduleToProto)}
	if len(mods) == size {
		msg.NextPageToken = pageToken(list, string(mods[size-1].Digest))
	}
	return uncached(msg), nil
}

func (m *moduleService) DeleteModule(ctx context.Context, req *connect.Request[greenroomv1.DeleteModuleRequest]) (*connect.Response[greenroomv1.DeleteModuleResponse], error) {
	err := m.s.Modules.Delete(ctx, edge.AppOf(req.Msg.GetApp()), actor.Digest(req.Msg.GetDigest()))
	return done(&greenroomv1.DeleteModuleResponse{}, err)
}

func (m *moduleService) Deploy(ctx context.Context, req *connect.Request[greenroomv1.DeployRequest]) (*connect.Response[greenroomv1.DeployResponse], error) {
	placements := make(map[string]string, len(req.Msg.GetPlacements()))
	for _, p := range req.Msg.GetPlacements() {
		if _, twice := placements[p.GetType()]; twice {
			return nil, &actor.ArgumentError{Field: "placement of " + p.GetType(), Problem: "is given twice; give one"}
		}
		placements[p.GetType()] = p.GetPlacement()
	}
	ds, warnings, err := m.s.Modules.Deploy(ctx, modules.DeployRequest{
		App: edge.AppOf(req.Msg.GetApp()), Digest: actor.Digest(req.Msg.GetDigest()),
		Types: req.Msg.GetTypes(), Placements: placements, Force: req.Msg.GetForce(), Message: req.Msg.GetMessage(),
	})
	if err != nil {
		return nil, err
	}
	msg := &greenroomv1.DeployResponse{Warnings: warnings, Deployments: mapped(ds, deploymentToProto)}
	m.addCapabilities(ctx, msg.Deployments)
	return connect.NewResponse(msg), nil
}

func (m *moduleService) Rollback(ctx context.Context, req *connect.Request[greenroomv1.RollbackRequest]) (*connect.Response[greenroomv1.RollbackResponse], error) {
	d, warnings, err := m.s.Modules.Rollback(ctx, modules.RollbackRequest{
		App: edge.AppOf(req.Msg.GetApp()), Type: req.Msg.GetType(),
		Generation: req.Msg.GetGeneration(), Force: req.Msg.GetForce(), Message: req.Msg.GetMessage(),
	})
	if err != nil {
		return nil, err
	}
	deployment := deploymentToProto(d)
	m.addCapabilities(ctx, []*greenroomv1.Deployment{deployment})
	return connect.NewResponse(&greenroomv1.RollbackResponse{Deployment: deployment, Warnings: warnings}), nil
}

func (m *moduleService) Undeploy(ctx context.Context, req *connect.Request[greenroomv1.UndeployRequest]) (*connect.Response[greenroomv1.UndeployResponse], error) {
	ds, warnings, err := m.s.Modules.Undeploy(ctx, modules.UndeployRequest{
		App: edge.AppOf(req.Msg.GetApp()), Types: req.Msg.GetTypes(), Message: req.Msg.GetMessage(),
	})
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&greenroomv1.UndeployResponse{Warnings: warnings, Deployments: mapped(ds, deploymentToProto)}), nil
}

func (m *moduleService) History(ctx context.Context, req *connect.Request[greenroomv1.HistoryRequest]) (*connect.Response[greenroomv1.HistoryResponse], error) {
	list := pageList{greenroomv1connect.ModuleServiceHistoryProcedure, edge.AppOf(req.Msg.GetApp()), req.Msg.GetType()}
	before, err := parsePageToken(list, req.Msg.GetPageToken(), afterGeneration)
	if err != nil {
		return nil, err
	}
	size := pageSize(req.Msg.GetPageSize())
	ds, err := m.s.Modules.History(ctx, list.app, list.typ, before, size)
	if err != nil {
		return nil, err
	}
	msg := &greenroomv1.HistoryResponse{Deployments: make([]*greenroomv1.Deployment, len(ds))}
	there := make(map[actor.Digest]bool)
	for i, d := range ds {
		msg.Deployments[i] = deploymentToProto(d)
		if d.Undeployed() {
			continue
		}
		known, asked := there[d.Digest]
		if !asked {
			_, err := m.s.Modules.Module(ctx, list.app, d.Digest)
			known = !errors.Is(err, actor.ErrModuleNotFound)
			there[d.Digest] = known
		}
		msg.Deployments[i].ModuleDeleted = !known
	}
	// Generations count from 1, without gaps.
	if len(ds) == size && ds[size-1].Generation > 1 {
		msg.NextPageToken = pageToken(list, generationPosition(ds[size-1].Generation))
	}
	return uncached(msg), nil
}

func (m *moduleService) ListTypes(ctx context.Context, req *connect.Request[greenroomv1.ListTypesRequest]) (*connect.Response[greenroomv1.ListTypesResponse], error) {
	types, err := m.s.Modules.Types(ctx, edge.AppOf(req.Msg.GetApp()))
	if err != nil {
		return nil, err
	}
	msg := &greenroomv1.ListTypesResponse{}
	for _, t := range types {
		deployment := deploymentToProto(t.Deployment)
		m.describeUse(ctx, deployment, t.Spec.Capabilities)
		msg.Types = append(msg.Types, &greenroomv1.ServedType{Type: typeToProto(t.Spec), Deployment: deployment})
	}
	return uncached(msg), nil
}

func (m *moduleService) ListApps(ctx context.Context, req *connect.Request[greenroomv1.ListAppsRequest]) (*connect.Response[greenroomv1.ListAppsResponse], error) {
	list := pageList{procedure: greenroomv1connect.ModuleServiceListAppsProcedure}
	after, err := parsePageToken(list, req.Msg.GetPageToken(), afterApp)
	if err != nil {
		return nil, err
	}
	size := pageSize(req.Msg.GetPageSize())
	apps, err := m.s.Modules.Apps(ctx, after, size)
	if err != nil {
		return nil, err
	}
	msg := &greenroomv1.ListAppsResponse{Apps: make([]*greenroomv1.App, len(apps))}
	for i, a := range apps {
		msg.Apps[i] = &greenroomv1.App{Name: a.App, Types: int64(a.Types), Modules: int64(a.Modules)}
		if !a.DeployedAt.IsZero() {
			msg.Apps[i].DeployedAt = timestamppb.New(a.DeployedAt)
		}
	}
	if len(apps) == size {
		msg.NextPageToken = pageToken(list, apps[size-1].App)
	}
	return uncached(msg), nil
}

// addCapabilities says of deployments that were just made what they use. They serve
// already, so what cannot be read is left out.
func (m *moduleService) addCapabilities(ctx context.Context, ds []*greenroomv1.Deployment) {
	if len(ds) == 0 {
		return
	}
	types, err := m.s.Modules.Types(ctx, ds[0].GetApp())
	if err != nil {
		m.s.edge.Log.WarnContext(ctx, "cannot read the types of a deployment", "app", ds[0].GetApp(), "error", err)
		return
	}
	for _, d := range ds {
		for _, t := range types {
			if t.Spec.Name == d.GetType() && t.Deployment.Generation == d.GetGeneration() {
				m.describeUse(ctx, d, t.Spec.Capabilities)
			}
		}
	}
}

// describeUse says what a deployment uses, and which of it its app has no settings for.
func (m *moduleService) describeUse(ctx context.Context, d *greenroomv1.Deployment, uses abi.Capabilities) {
	if uses.IsZero() {
		return
	}
	d.Capabilities = capabilitiesToProto(uses)
	if m.s.Settings == nil {
		return
	}
	missing, err := m.s.Settings.Missing(ctx, d.GetApp(), uses)
	if err != nil {
		m.s.edge.Log.WarnContext(ctx, "cannot read the settings of an app", "app", d.GetApp(), "error", err)
		return
	}
	d.Missing = capabilitiesToProto(missing)
}

func moduleToProto(m actor.Module) *greenroomv1.Module {
	msg := &greenroomv1.Module{
		App: m.App, Digest: string(m.Digest), Size: m.Size, CreatedAt: timestamppb.New(m.CreatedAt),
	}
	// Faults mean a manifest of another time, since uploading checked it: the
	// module is described without its types rather than not at all.
	if man, faults := manifest.Parse(m.Manifest); len(faults) == 0 {
		msg.Sdk = man.SDK
		for i := range man.Types {
			msg.Types = append(msg.Types, typeToProto(&man.Types[i]))
		}
	}
	return msg
}

func typeToProto(t *abi.TypeSpec) *greenroomv1.ActorType {
	msg := &greenroomv1.ActorType{
		Name: t.Name, Placement: t.Placement, Instance: t.Instance, Pool: t.Pool,
		StateSchema: t.StateSchema, Migrate: t.Migrate, Capabilities: capabilitiesToProto(t.Capabilities),
	}
	if c := t.CoLocate; c.Group != "" {
		msg.CoLocate = &greenroomv1.CoLocate{Group: c.Group, Separator: c.Separator, Parts: uint32(c.Parts)} //nolint:gosec // 16 at most
	}
	if p := t.Protobuf; !p.IsZero() {
		msg.Protobuf = &greenroomv1.ProtobufService{Name: p.Service, IdField: p.IDField, Streams: typed.Streams(t)}
	}
	for _, m := range t.Methods {
		msg.Methods = append(msg.Methods, &greenroomv1.Method{
			Name: m.Name, ReadOnly: m.ReadOnly, Idempotent: m.Idempotent, Reentrant: m.Reentrant, Private: m.Private,
			Atomic: m.Atomic == abi.AtomicRequired,
		})
	}
	return msg
}

func deploymentToProto(d actor.Deployment) *greenroomv1.Deployment {
	return &greenroomv1.Deployment{
		App: d.App, Type: d.Type, Generation: d.Generation, Digest: string(d.Digest),
		StateSchema: d.StateSchema, RolledBackFrom: d.RolledBackFrom, CreatedAt: timestamppb.New(d.CreatedAt),
		Undeployed: d.Undeployed(), Message: d.Message, Placement: d.Placement,
	}
}
