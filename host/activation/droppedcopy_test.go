package activation

import (
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/residency"
)

// TestDroppedCopyIsNotCounted: what is read for a copy that was dropped meanwhile, and made
// anew, is not kept, and takes none of the memory for states.
func TestDroppedCopyIsNotCounted(t *testing.T) {
	var tab Table
	s := &Shard{states: &tab.States}
	key := actor.Key{App: "app", Type: "T", ID: "a"}
	dropped := tab.CopyOf(s, key)
	s.copies.Remove(key)
	if used, n := tab.States.Load(), tab.copied.Load(); used != 0 || n != 0 {
		t.Errorf("without a copy %d bytes are in use, of %d", used, n)
	}
	anew := tab.CopyOf(s, key)
	before := tab.States.Load()
	tab.KeepCopy(s, key, dropped, residency.NewRow(actor.Row{Version: 1}), time.Now())
	if after := tab.States.Load(); after != before || dropped.State != nil {
		t.Errorf("%d bytes are in use after a copy was read that was dropped, %d before", after, before)
	}
	tab.KeepCopy(s, key, anew, residency.NewRow(actor.Row{Version: 1}), time.Now())
	if anew.State == nil {
		t.Error("the copy that is there is not kept")
	}
}
