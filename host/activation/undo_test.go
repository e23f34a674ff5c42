package activation

import (
	"testing"

	"github.com/greenroom-run/greenroom/host/overlay"
	"github.com/greenroom-run/greenroom/host/residency"
	"github.com/greenroom-run/greenroom/host/turn"
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

// openTurn counts what is taken back of what called turns have left to it.
type openTurn struct{ replaced int }

func (o *openTurn) Replace(*overlay.State, uint64) { o.replaced++ }
func (*openTurn) SideEffects() turn.SideEffects    { return turn.SideEffects{} }
func (o *openTurn) GoOnFrom(*turn.SideEffects)     {}

// TestTurnThatIsOverIsNotChanged: what called turns have left to a turn is not taken back when that is over,
// since its memory is another turn's by then.
func TestTurnThatIsOverIsNotChanged(t *testing.T) {
	over, open, of := &openTurn{}, &openTurn{}, &Enlisted{}
	ch, row := &Chain{}, &residency.Row{State: residency.NoState}
	for _, o := range []*openTurn{over, open, over} {
		ch.Undo = append(ch.Undo, Undo{Of: of, Open: o, Row: row})
	}
	ch.Ended(over)
	ch.RollBack(Savepoint{}, func() uint64 { return 1 })
	if over.replaced != 0 || open.replaced != 1 {
		t.Errorf("changed %d and %d times", over.replaced, open.replaced)
	}
}
