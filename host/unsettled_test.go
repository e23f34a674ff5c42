package host

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// TestUnsettledAreBounded: of more actors than are remembered whose commits may still land,
// all are taken for such, and none is handed over, for as long as one of those may.
func TestUnsettledAreBounded(t *testing.T) {
	key := func(n int) actor.Key { return actor.Key{App: "app", Type: "T", ID: fmt.Sprint(n)} }
	var s shard
	now := time.Now()
	for n := range maxUnsettled {
		s.unsettled.note(key(n), now)
	}
	other := key(maxUnsettled + 1)
	if s.unsettled.has(other, now) || !s.unsettled.has(key(0), now) {
		t.Error("what is remembered is not what was noted")
	}
	s.unsettled.note(key(maxUnsettled), now)
	if len(s.unsettled.keys) != maxUnsettled {
		t.Errorf("%d are remembered", len(s.unsettled.keys))
	}
	last := now.Add(unsettledFor - 1)
	if !s.unsettled.has(key(maxUnsettled), last) || !s.unsettled.has(other, last) {
		t.Error("a commit that may still land is forgotten")
	}
	if after := now.Add(unsettledFor); s.unsettled.has(other, after) || !s.unsettled.has(key(0), after) {
		t.Error("afterwards those count that are remembered, and no others")
	}
	none := func(actor.Key) bool { return false }
	if err := (&Host{}).settle(t.Context(), &s, none); !errors.Is(err, actor.ErrAmbiguous) {
		t.Errorf("actors are handed over, and commits may still land: %v", err)
	}
}
