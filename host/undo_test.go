package host

import (
	"testing"

	"github.com/greenroom-run/greenroom/host/residency"
)

// TestChainKeepsOneStateOfAnActorToTakeBack: however often a turn calls, its chain keeps no more
// states than it needs to take back the turn.
func TestChainKeepsOneStateOfAnActorToTakeBack(t *testing.T) {
	ch, all := &calls{}, []*enlisted{{}, {}, {}}
	version := uint64(0)
	call := func(began int, of *enlisted) { // of a turn that began when undo had so many entries
		before := len(ch.undo)
		ch.undo = append(ch.undo, undo{of: of, row: of.row})
		version++
		of.row = &residency.Row{Version: version}
		ch.pruneUndo(began, before)
	}
	for range 100 {
		call(0, all[0])
		call(0, all[1])
	}
	inner, was := ch.savepoint(), *all[0].row
	for range 100 {
		call(inner.undo, all[0])
		call(inner.undo, all[2])
	}
	if n := len(ch.undo); n != 4 {
		t.Fatalf("there are %d states", n)
	}
	next := func() uint64 { return 1 }
	ch.rollBack(inner, next)
	if all[0].row.Version != was.Version || all[1].row.Version != was.Version+1 || all[2].row != nil {
		t.Errorf("taken back are %v", all)
	}
	ch.rollBack(savepoint{}, next)
	if all[0].row != nil || all[1].row != nil || len(ch.undo) != 0 {
		t.Errorf("taken back are %v", all)
	}
}
