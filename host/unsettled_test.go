package host

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/activation"
	"github.com/greenroom-run/greenroom/host/residency"
)

// TestUnsettledAreBounded: of more actors than are remembered whose commits may still land,
// all are taken for such, and none is handed over, for as long as one of those may.
func TestUnsettledAreBounded(t *testing.T) {
	key := func(n int) actor.Key { return actor.Key{App: "app", Type: "T", ID: fmt.Sprint(n)} }
	var s activation.Shard
	now := time.Now()
	for n := range residency.MaxUnsettled {
		s.History.Unsettled.Note(key(n), now)
	}
	other := key(residency.MaxUnsettled + 1)
	if s.History.Unsettled.Has(other, now) || !s.History.Unsettled.Has(key(0), now) {
		t.Error("what is remembered is not what was noted")
	}
	s.History.Unsettled.Note(key(residency.MaxUnsettled), now)
	if len(s.History.Unsettled.Keys()) != residency.MaxUnsettled {
		t.Errorf("%d are remembered", len(s.History.Unsettled.Keys()))
	}
	last := now.Add(residency.UnsettledFor - 1)
	if !s.History.Unsettled.Has(key(residency.MaxUnsettled), last) || !s.History.Unsettled.Has(other, last) {
		t.Error("a commit that may still land is forgotten")
	}
	if after := now.Add(residency.UnsettledFor); s.History.Unsettled.Has(other, after) || !s.History.Unsettled.Has(key(0), after) {
		t.Error("afterwards those count that are remembered, and no others")
	}
	none := func(actor.Key) bool { return false }
	if err := (&Host{}).fenceUnsettled(t.Context(), &s, none); !errors.Is(err, actor.ErrAmbiguous) {
		t.Errorf("actors are handed over, and commits may still land: %v", err)
	}
}
