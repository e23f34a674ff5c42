package settings_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/greenroom-run/greenroom/actor"
)

// TestQuotasThatCanBe: a quota of what is stored is a number up to 1e15, and others are rates; what is refused sets nothing.
func TestQuotasThatCanBe(t *testing.T) {
	r := newRig(t, openStore(t), nil)
	for _, tt := range []struct {
		name actor.Quota
		rate actor.Rate
		most int64
		ok   bool
	}{
		{actor.QuotaBytes, actor.Rate{}, 1e15, true}, {actor.QuotaMessages, actor.Rate{}, 0, true}, {actor.QuotaFuel, actor.Rate{PerSecond: 1}, 0, true},
		{actor.QuotaBytes, actor.Rate{}, 1e15 + 1, false}, {actor.QuotaActors, actor.Rate{}, -1, false}, {actor.QuotaActors, actor.Rate{PerSecond: 1}, 5, false},
		{actor.QuotaTurns, actor.Rate{PerSecond: 1}, 5, false}, {actor.QuotaTurns, actor.Rate{}, 0, false}, {"moons", actor.Rate{}, 5, false},
	} {
		err := r.SetQuota(t.Context(), app, tt.name, tt.rate, tt.most)
		if wrong := (*actor.ArgumentError)(nil); (err == nil) != tt.ok || err != nil && !errors.As(err, &wrong) {
			t.Errorf("%s, %+v, %d: %v", tt.name, tt.rate, tt.most, err)
		}
	}
	want := &actor.Rules{Quotas: map[actor.Quota]actor.Rate{actor.QuotaFuel: {PerSecond: 1}}, Stored: map[actor.Quota]int64{actor.QuotaBytes: 1e15, actor.QuotaMessages: 0}}
	if got, err := r.Rules(t.Context(), app); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}
