package settings_test

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/settings"
)

// TestRules: rules are what was set, in the store and after another service has read them, and each change of them is
// announced when it can be read.
func TestRules(t *testing.T) {
	ctx, s := t.Context(), openStore(t)
	var r *rig
	announced := 0
	r = newRig(t, s, nil)
	var err error
	r.Service, err = settings.New(settings.Config{Store: s, Clock: r.clock, Logger: slog.New(slog.NewTextHandler(&r.log, nil)), Changed: func(ctx context.Context, of string) {
		announced++
		if rules, err := r.Rules(ctx, of); err != nil || of != app || announced == 1 && len(rules.Quotas) != 1 {
			t.Errorf("announced %s: %v, %v", of, rules, err)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	limit := actor.Limit{Rate: actor.Rate{PerSecond: 3, Burst: 9}, Concurrency: 2, Per: actor.PerActor}
	for _, err := range []error{
		r.SetQuota(ctx, app, actor.QuotaTurns, actor.Rate{PerSecond: 10}, 0),
		r.SetQuota(ctx, app, actor.QuotaActors, actor.Rate{}, 7),
		r.SetLimit(ctx, app, actor.LimitScope{Type: "Cart", Method: "Pay"}, limit),
		r.SetLimit(ctx, app, actor.LimitScope{Type: "Cart.Pay"}, actor.Limit{Concurrency: 1}),
		r.PauseType(ctx, app, "Cart", actor.Pause{Refuse: true}),
		r.SetConfig(ctx, app, "region", "eu"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := &actor.Rules{
		Paused: map[string]actor.Pause{"Cart": {Refuse: true}},
		Quotas: map[actor.Quota]actor.Rate{actor.QuotaTurns: {PerSecond: 10}},
		Stored: map[actor.Quota]int64{actor.QuotaActors: 7},
		Limits: map[actor.LimitScope]actor.Limit{{Type: "Cart", Method: "Pay"}: limit, {Type: "Cart.Pay"}: {Concurrency: 1}},
	}
	for _, service := range []*settings.Service{r.Service, newRig(t, s, nil).Service} {
		if got, err := service.Rules(ctx, app); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if list, err := r.List(ctx, app); err != nil || len(list.Quotas) != 2 || list.Quotas[0].Name != actor.QuotaActors || list.Quotas[0].Most != 7 {
		t.Errorf("listed %+v, %v", list.Quotas, err)
	}
	if announced != 5 {
		t.Errorf("announced %d times", announced)
	}
	for _, err := range []error{
		r.UnsetQuota(ctx, app, actor.QuotaTurns), r.UnsetQuota(ctx, app, actor.QuotaActors), r.UnsetLimit(ctx, app, actor.LimitScope{Type: "Cart", Method: "Pay"}),
		r.UnsetLimit(ctx, app, actor.LimitScope{Type: "Cart.Pay"}), r.ResumeType(ctx, app, "Cart"), r.ResumeType(ctx, app, "Cart"),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	if got, err := r.Rules(ctx, app); err != nil || !reflect.DeepEqual(got, &actor.Rules{}) {
		t.Errorf("%+v, %v", got, err)
	}
	if err := r.UnsetQuota(ctx, app, actor.QuotaTurns); !errors.Is(err, actor.ErrSettingNotFound) {
		t.Error(err)
	}
}

// A rule of a newer version, or a damaged one, has no effect, and others have.
func TestRuleThatCannotBeRead(t *testing.T) {
	ctx, s := t.Context(), openStore(t)
	for _, set := range []actor.Setting{
		{App: app, Kind: actor.SettingLimit, Name: "Cart", Value: []byte("{")}, {App: app, Kind: "moon", Name: "x", Value: []byte("y")},
		{App: app, Kind: actor.SettingPause, Name: "Cart", Value: []byte(`{"refuse":true,"until":"noon"}`)},
	} {
		if err := s.PutSetting(ctx, set); err != nil {
			t.Fatal(err)
		}
	}
	r := newRig(t, s, nil)
	got, err := r.Rules(ctx, app)
	if want := (&actor.Rules{Paused: map[string]actor.Pause{"Cart": {Refuse: true}}}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if list, err := r.List(ctx, app); err != nil || len(list.Pauses) != 1 || len(list.Limits) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	if !strings.Contains(r.log.String(), "a rule cannot be read") {
		t.Errorf("log: %s", r.log.String())
	}
}
