package activation

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
	*Table
	*Shard
	*Activation
	since time.Time
}

func at(version uint64) *residency.Row {
	return &residency.Row{Version: version, Exists: true, State: residency.NoState}
}

func newKnown() known {
	k := known{Table: new(Table), since: time.Now()}
	k.Table.Init(10, 1<<20, &Ownership{Shared: true}, Observer{Activated: func(actor.Key) {}}, nil, nil)
	key := actor.Key{App: "app", Type: "T", ID: "a"}
	k.Shard = k.Table.Shard(key)
	k.Activation = k.Table.Activate(k.Shard, key)
	k.Activation.Install(at(5))
	k.Activation.Tip, k.Activation.Current = k.Activation.Loaded, k.since
	return k
}

func (k known) sees(t *testing.T, version uint64) {
	t.Helper()
	switch seen := k.Activation.Committed(); {
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
		forgets := k.Shard.History.Forgets()
		k.Shard.NoteNewer(k.Activation, 7)
		k.sees(t, 0)
		k.Shard.Show(k.Activation, at(5), k.since, forgets)
		k.sees(t, 0)
		k.Shard.Show(k.Activation, at(6), k.since, forgets)
		k.sees(t, 0)
		k.Shard.Show(k.Activation, at(7), k.since, forgets)
		k.sees(t, 7)
	})
	t.Run("not in memory", func(t *testing.T) {
		k := newKnown()
		key := k.Activation.Key
		k.Table.Remove(k.Shard, k.Activation)
		forgets := k.Shard.History.Forgets()
		k.Shard.NoteNewer(nil, 7)
		by := &serving.Type{Lane: serving.LaneWarm, Placement: abi.PlacementRing}
		k.Table.Offer(k.Shard, key, by, at(5), k.since, forgets)
		if a := k.Shard.Actors[key]; a != nil {
			t.Errorf("version %d is kept", a.Loaded.Version)
		}
	})
	t.Run("made anew", func(t *testing.T) { // with a lower version: of the two, only later questions tell
		k := newKnown()
		forgets := k.Shard.History.Forgets()
		k.Shard.noteOther(k.Activation, 3)
		k.sees(t, 0)
		k.Shard.Show(k.Activation, at(9), k.since, forgets)
		k.sees(t, 0)
		k.Shard.Show(k.Activation, at(3), k.since, k.Shard.History.Forgets())
		k.sees(t, 3)
	})
}

// TestCommitOfWhatAReaderFound: what a reader found in the store ahead of this host's
// own commit is nothing newer when that commit has been answered.
func TestCommitOfWhatAReaderFound(t *testing.T) {
	k := newKnown()
	k.Shard.Show(k.Activation, at(6), k.since, k.Shard.History.Forgets())
	if !k.Activation.Outdated() {
		t.Error("what a reader found is not ahead of what turns run on")
	}
	own := at(6)
	k.Activation.Install(own)
	if k.Activation.Outdated() || k.Activation.Committed() != own {
		t.Error("the actor's state would be dropped for its own commit")
	}
	k.Shard.NoteNewer(k.Activation, 8)
	k.Activation.Install(at(7))
	if k.sees(t, 0); !k.Activation.Outdated() {
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
		if !k.Activation.Current.Equal(want) {
			t.Errorf("current as of %s, want %s", k.Activation.Current.Sub(k.since), want.Sub(k.since))
		}
	}
	k.Activation.Confirmed(later(2))
	k.Activation.Confirmed(later(1))
	dated(later(2))
	k.Shard.Show(k.Activation, at(6), later(3), k.Shard.History.Forgets())
	dated(later(3))
	k.Shard.NoteNewer(k.Activation, 9)
	k.Shard.Show(k.Activation, at(5), later(4), k.Shard.History.Forgets()) // it was made anew, and is as it was
	dated(later(4))
	k.sees(t, 5)
}

// TestTipUnderWayCountsOnce: a state that turns run on and that is on its way to the
// store is one state.
func TestTipUnderWayCountsOnce(t *testing.T) {
	k := newKnown()
	a := k.Activation
	large := residency.NewRow(actor.Row{Version: 6, State: actor.EncodedState{
		Format: actor.FormatJSON, Data: []byte(`{"large":"` + strings.Repeat("x", 8<<10) + `"}`),
	}})
	a.Tip = large
	before := a.weight()
	speculation.Fold([]*Member{&a.Member}, Dependent{Call: new(call.Call), Home: &a.Member}, func() *Batch { return &Batch{Parts: []part{{Activation: a, After: large}}} }, nil)
	if f := a.Member.Launch(k.since); f == nil {
		t.Fatal("nothing is under way")
	}
	if large.Cost() == 0 || a.weight() != before {
		t.Errorf("%d bytes count, want %d, with %d of the state", a.weight(), before, large.Cost())
	}
}
