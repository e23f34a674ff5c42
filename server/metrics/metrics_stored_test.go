package metrics

import (
	"fmt"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/greenroom-run/greenroom/actor"
)

// TestStoredMetrics: each app that was counted has what it stores, by the name of the quota of it.
func TestStoredMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(storedCollector(func(each func(app string, stored actor.Stored)) {
		each("shop", actor.Stored{Actors: 1, Bytes: 2, Reminders: 3, Messages: 4})
		each("zoo", actor.Stored{Bytes: 1 << 40})
	}))
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "greenroom_app_stored" {
		t.Fatal(families, err)
	}
	var got []string
	for _, m := range families[0].GetMetric() {
		got = append(got, fmt.Sprint(m.GetLabel()[0].GetValue(), " ", m.GetLabel()[1].GetValue(), " ", int64(m.GetGauge().GetValue())))
	}
	want := []string{"shop actors 1", "shop bytes 2", "shop messages 4", "shop reminders 3", "zoo actors 0", "zoo bytes 1099511627776", "zoo messages 0", "zoo reminders 0"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
