package faultstore

import (
	"context"
	"github.com/greenroom-run/greenroom/store"

	"github.com/greenroom-run/greenroom/actor"
)

// settings is the part of a store that keeps settings, with faults.
type settings struct {
	inner store.Settings
	plan  *plan
}

func (s *settings) PutSetting(ctx context.Context, set actor.Setting) error {
	if s.plan.fires(SettingFails) {
		return SettingFails.unavailable()
	}
	return s.inner.PutSetting(ctx, set)
}

func (s *settings) ReplaceSetting(ctx context.Context, set actor.Setting, was []byte) (bool, error) {
	if s.plan.fires(SettingFails) {
		return false, SettingFails.unavailable()
	}
	return s.inner.ReplaceSetting(ctx, set, was)
}

func (s *settings) DeleteSetting(ctx context.Context, app string, kind actor.SettingKind, name string) error {
	if s.plan.fires(SettingFails) {
		return SettingFails.unavailable()
	}
	return s.inner.DeleteSetting(ctx, app, kind, name)
}

func (s *settings) Settings(ctx context.Context, app string) ([]actor.Setting, error) {
	if s.plan.fires(SettingFails) {
		return nil, SettingFails.unavailable()
	}
	return s.inner.Settings(ctx, app)
}

func (s *settings) SettingApps(ctx context.Context, after string, limit int) ([]string, error) {
	if s.plan.fires(SettingFails) {
		return nil, SettingFails.unavailable()
	}
	return s.inner.SettingApps(ctx, after, limit)
}
