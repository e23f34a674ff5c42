package faultstore

import (
	"context"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// modules is the part of a store that keeps modules and deployments, with faults.
type modules struct {
	inner store.Modules
	plan  *plan
}

func (s *modules) PutModule(ctx context.Context, m actor.Module, wasm actor.Code, most int64) error {
	if s.plan.fires(ModuleWriteFails) {
		return ModuleWriteFails.unavailable()
	}
	return s.inner.PutModule(ctx, m, wasm, most)
}

func (s *modules) Module(ctx context.Context, app string, d actor.Digest) (actor.Module, error) {
	return s.inner.Module(ctx, app, d)
}

func (s *modules) ModuleBytes(ctx context.Context, app string, d actor.Digest) ([]byte, error) {
	return s.inner.ModuleBytes(ctx, app, d)
}

func (s *modules) ListModules(ctx context.Context, app string, after actor.Digest, limit int) ([]actor.Module, error) {
	return s.inner.ListModules(ctx, app, after, limit)
}

func (s *modules) DeleteModule(ctx context.Context, app string, d actor.Digest) error {
	if s.plan.fires(ModuleWriteFails) {
		return ModuleWriteFails.unavailable()
	}
	return s.inner.DeleteModule(ctx, app, d)
}

func (s *modules) Deploy(ctx context.Context, ds []actor.Deployment, revision uint64) error {
	if s.plan.fires(ModuleWriteFails) {
		return ModuleWriteFails.unavailable()
	}
	return s.inner.Deploy(ctx, ds, revision)
}

func (s *modules) Deployments(ctx context.Context, app string) ([]actor.Deployment, error) {
	return s.inner.Deployments(ctx, app)
}

func (s *modules) DeploymentHistory(ctx context.Context, app, typ string, before uint64, limit int) ([]actor.Deployment, error) {
	return s.inner.DeploymentHistory(ctx, app, typ, before, limit)
}

func (s *modules) ListApps(ctx context.Context, after string, limit int) ([]store.AppInfo, error) {
	return s.inner.ListApps(ctx, after, limit)
}
