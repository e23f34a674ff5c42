package settings

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/greenroom-run/greenroom/actor"
)

// Rules returns the rules of an app. They are not changed.
func (s *Service) Rules(ctx context.Context, app string) (*actor.Rules, error) {
	g, err := s.snapshot(ctx, app)
	if err != nil {
		return nil, err
	}
	return &g.rules, nil
}

// maxStored bounds quotas of what is stored.
const maxStored = 1e15

// SetQuota sets a quota of an app: a rate above 0 of turns or fuel, or most, of what is stored.
func (s *Service) SetQuota(ctx context.Context, app string, name actor.Quota, rate actor.Rate, most int64) error {
	ofStored := slices.Contains(actor.StoredQuotas(), name)
	switch {
	case !slices.Contains(actor.Quotas(), name):
		return &actor.ArgumentError{Field: "quota", Problem: fmt.Sprintf("%.64q is not known; the quotas are %v", name, actor.Quotas())}
	case ofStored && rate != (actor.Rate{}):
		return &actor.ArgumentError{Field: "quota " + string(name), Problem: "is of what is stored, and has a rate; give a number alone"}
	case ofStored && (most < 0 || most > maxStored):
		return &actor.ArgumentError{Field: "quota " + string(name), Problem: fmt.Sprintf("is %d; give a number from 0 to 1e15", most)}
	case ofStored:
		return s.putRule(ctx, actor.Setting{App: app, Kind: actor.SettingQuota, Name: string(name)}, actor.StoredLimit{Most: most})
	case most != 0:
		return &actor.ArgumentError{Field: "quota " + string(name), Problem: "is a rate; give it per second"}
	}
	if err := rate.Validate("quota " + string(name)); err != nil {
		return err
	}
	if rate.PerSecond == 0 {
		return &actor.ArgumentError{Field: "quota " + string(name), Problem: "has the rate 0; give a rate above 0, unset the quota, or pause the types"}
	}
	return s.putRule(ctx, actor.Setting{App: app, Kind: actor.SettingQuota, Name: string(name)}, rate)
}

// UnsetQuota removes a quota; [actor.ErrSettingNotFound].
func (s *Service) UnsetQuota(ctx context.Context, app string, name actor.Quota) error {
	return s.remove(ctx, app, actor.SettingQuota, string(name))
}

// SetLimit sets the limit of a type or a method, which need not be deployed.
func (s *Service) SetLimit(ctx context.Context, app string, scope actor.LimitScope, limit actor.Limit) error {
	err := actor.ValidateName("actor type", scope.Type)
	if err == nil && scope.Method != "" {
		err = actor.ValidateName("method", scope.Method)
	}
	if err == nil {
		err = limit.Validate()
	}
	if err != nil {
		return err
	}
	if limit.Pool != "" && s.cfg.Pools != nil && !slices.Contains(s.cfg.Pools(), limit.Pool) {
		return &actor.ArgumentError{Field: "pool", Problem: fmt.Sprintf("%q is not one of this server; its pools are %s, and serve --pool adds others", limit.Pool, strings.Join(s.cfg.Pools(), ", "))}
	}
	if limit == (actor.Limit{}) {
		return &actor.ArgumentError{Field: "limit of " + scope.String(), Problem: "bounds nothing; give a rate, a concurrency or a pool, or unset the limit"}
	}
	return s.putRule(ctx, actor.Setting{App: app, Kind: actor.SettingLimit, Name: scope.String()}, limit)
}

// UnsetLimit removes the limit of a type or a method; [actor.ErrSettingNotFound].
func (s *Service) UnsetLimit(ctx context.Context, app string, scope actor.LimitScope) error {
	return s.remove(ctx, app, actor.SettingLimit, scope.String())
}

// PauseType pauses a type, which need not be deployed.
func (s *Service) PauseType(ctx context.Context, app, typ string, pause actor.Pause) error {
	if err := actor.ValidateName("actor type", typ); err != nil {
		return err
	}
	return s.putRule(ctx, actor.Setting{App: app, Kind: actor.SettingPause, Name: typ}, pause)
}

// ResumeType ends the pause of a type, if it is paused.
func (s *Service) ResumeType(ctx context.Context, app, typ string) error {
	err := s.remove(ctx, app, actor.SettingPause, typ)
	if errors.Is(err, actor.ErrSettingNotFound) {
		return nil
	}
	return err
}

// putRule writes a rule.
func (s *Service) putRule(ctx context.Context, set actor.Setting, value any) error {
	var err error
	if set.Value, err = json.Marshal(value); err != nil {
		return fmt.Errorf("encode %s %s: %w", set.Kind, set.Name, err)
	}
	return s.put(ctx, set)
}
