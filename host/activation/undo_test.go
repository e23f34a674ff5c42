package activation

import (
	"testing"

	"github.com/greenroom-run/greenroom/host/residency"
)

// TestChainKeepsOneStateOfAnActorToTakeBack: however often a turn calls, its chain keeps no more
// states than it needs to take back the turn.
func TestChainKeepsOneStateOfAnActorToTakeBack(t *testing.T) {
	ch, all := &Chain{}, []*Enlisted{{}, {}, {}}
	version := uint64(0)
	call := func(began int, of *Enlisted) { // of a turn that began when undo had so many entries
		before := len(ch.Undo)
		ch.Undo = append(ch.Undo, Undo{Of: of, Row: of.Row})
		version++
		of.Row = &residency.Row{Version: version}
		ch.PruneUndo(began, before)
	}
	for range 100 {
		call(0, all[0])
		call(0, all[1])
	}
	inner, was := ch.Savepoint(), *all[0].Row
	for range 100 {
		call(inner.Undo, all[0])
		call(inner.Undo, all[2])
	}
	if n := len(ch.Undo); n != 4 {
		t.Fatalf("there are %d states", n)
	}
	next := func() uint64 { return 1 }
	ch.RollBack(inner, next)
	if all[0].Row.Version != was.Version || all[1].Row.Version != was.Version+1 || all[2].Row != nil {
		t.Errorf("taken back are %v", all)
	}
	ch.RollBack(Savepoint{}, next)
	if all[0].Row != nil || all[1].Row != nil || len(ch.Undo) != 0 {
		t.Errorf("taken back are %v", all)
	}
}
