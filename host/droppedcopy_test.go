package host

import (
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/residency"
)

// TestDroppedCopyIsNotCounted: what is read for a copy that was dropped meanwhile, and made
// anew, is not kept, and takes none of the memory for states.
func TestDroppedCopyIsNotCounted(t *testing.T) {
	var tab table
	s := &shard{states: &tab.states}
	key := actor.Key{App: "app", Type: "T", ID: "a"}
	dropped := tab.copyOf(s, key)
	s.copies.Remove(key)
	if used, n := tab.states.Load(), tab.copied.Load(); used != 0 || n != 0 {
		t.Errorf("without a copy %d bytes are in use, of %d", used, n)
	}
	anew := tab.copyOf(s, key)
	before := tab.states.Load()
	tab.keepCopy(s, key, dropped, residency.NewRow(actor.Row{Version: 1}), time.Now())
	if after := tab.states.Load(); after != before || dropped.state != nil {
		t.Errorf("%d bytes are in use after a copy was read that was dropped, %d before", after, before)
	}
	tab.keepCopy(s, key, anew, residency.NewRow(actor.Row{Version: 1}), time.Now())
	if anew.state == nil {
		t.Error("the copy that is there is not kept")
	}
}
