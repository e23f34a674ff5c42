package host

import (
	"strings"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/residency"
	"github.com/greenroom-run/greenroom/host/serving"
	"github.com/greenroom-run/greenroom/host/speculation"
)

// known is an activation of an actor on a store that others write to, which has
// version 5 since a moment.
type known struct {
	*table
	*shard
	*activation
	since time.Time
}

func at(version uint64) *residency.Row {
	return &residency.Row{Version: version, Exists: true, State: residency.NoState}
}

func newKnown() known {
	k := known{table: new(table), since: time.Now()}
	k.table.init(&Config{MaxActivations: 10, StateMemory: 1 << 20}, &ownership{shared: true}, &Events{Activated: func(actor.Key) {}}, nil)
	key := actor.Key{App: "app", Type: "T", ID: "a"}
	k.shard = k.table.shard(key)
	k.activation = k.table.activate(k.shard, key)
	k.activation.Install(at(5))
	k.activation.Tip, k.activation.Current = k.activation.Loaded, k.since
	return k
}

func (k known) sees(t *testing.T, version uint64) {
	t.Helper()
	switch seen := k.activation.Committed(); {
	case seen == nil && version != 0:
		t.Errorf("readers have to load, want them to see version %d", version)
	case seen != nil && seen.Version != version:
		t.Errorf("readers see version %d, want %d", seen.Version, version)
	}
}

// TestNewsKeepOlderStatesOut: what was asked for before this host heard of a newer
// version is not answered after that, whether the actor is in memory or not.
func TestNewsKeepOlderStatesOut(t *testing.T) {
	t.Run("in memory", func(t *testing.T) {
		k := newKnown()
		forgets := k.shard.history.Forgets()
		k.shard.noteNewer(k.activation, 7)
		k.sees(t, 0)
		k.shard.show(k.activation, at(5), k.since, forgets)
		k.sees(t, 0)
		k.shard.show(k.activation, at(6), k.since, forgets)
		k.sees(t, 0)
		k.shard.show(k.activation, at(7), k.since, forgets)
		k.sees(t, 7)
	})
	t.Run("not in memory", func(t *testing.T) {
		k := newKnown()
		key := k.activation.key
		k.table.remove(k.shard, k.activation)
		forgets := k.shard.history.Forgets()
		k.shard.noteNewer(nil, 7)
		by := &serving.Type{Lane: serving.LaneWarm, Placement: abi.PlacementRing}
		k.table.offer(k.shard, key, by, at(5), k.since, forgets)
		if a := k.shard.actors[key]; a != nil {
			t.Errorf("version %d is kept", a.Loaded.Version)
		}
	})
	t.Run("made anew", func(t *testing.T) { // with a lower version: of the two, only later questions tell
		k := newKnown()
		forgets := k.shard.history.Forgets()
		k.shard.noteOther(k.activation, 3)
		k.sees(t, 0)
		k.shard.show(k.activation, at(9), k.since, forgets)
		k.sees(t, 0)
		k.shard.show(k.activation, at(3), k.since, k.shard.history.Forgets())
		k.sees(t, 3)
	})
}

// TestCommitOfWhatAReaderFound: what a reader found in the store ahead of this host's
// own commit is nothing newer when that commit has been answered.
func TestCommitOfWhatAReaderFound(t *testing.T) {
	k := newKnown()
	k.shard.show(k.activation, at(6), k.since, k.shard.history.Forgets())
	if !k.activation.Outdated() {
		t.Error("what a reader found is not ahead of what turns run on")
	}
	own := at(6)
	k.activation.Install(own)
	if k.activation.Outdated() || k.activation.Committed() != own {
		t.Error("the actor's state would be dropped for its own commit")
	}
	k.shard.noteNewer(k.activation, 8)
	k.activation.Install(at(7))
	if k.sees(t, 0); !k.activation.Outdated() {
		t.Error("a commit hides that the store has something newer than it")
	}
}

// TestWhatReadersSeeIsDated: a state is current as of the moment at which it was asked
// for, and an answer that is late takes nothing back.
func TestWhatReadersSeeIsDated(t *testing.T) {
	k := newKnown()
	later := func(n int) time.Time { return k.since.Add(time.Duration(n) * time.Second) }
	dated := func(want time.Time) {
		t.Helper()
		if !k.activation.Current.Equal(want) {
			t.Errorf("current as of %s, want %s", k.activation.Current.Sub(k.since), want.Sub(k.since))
		}
	}
	k.activation.Confirmed(later(2))
	k.activation.Confirmed(later(1))
	dated(later(2))
	k.shard.show(k.activation, at(6), later(3), k.shard.history.Forgets())
	dated(later(3))
	k.shard.noteNewer(k.activation, 9)
	k.shard.show(k.activation, at(5), later(4), k.shard.history.Forgets()) // it was made anew, and is as it was
	dated(later(4))
	k.sees(t, 5)
}

// TestTipUnderWayCountsOnce: a state that turns run on and that is on its way to the
// store is one state.
func TestTipUnderWayCountsOnce(t *testing.T) {
	k := newKnown()
	a := k.activation
	large := residency.NewRow(actor.Row{Version: 6, State: actor.EncodedState{
		Format: actor.FormatJSON, Data: []byte(`{"large":"` + strings.Repeat("x", 8<<10) + `"}`),
	}})
	a.Tip = large
	before := a.weight()
	speculation.Fold([]*member{&a.member}, dependent{Call: new(call.Call), Home: &a.member}, func() *batch { return &batch{parts: []part{{a: a, after: large}}} }, nil)
	if f := a.member.Launch(k.since); f == nil {
		t.Fatal("nothing is under way")
	}
	if large.Cost() == 0 || a.weight() != before {
		t.Errorf("%d bytes count, want %d, with %d of the state", a.weight(), before, large.Cost())
	}
}
