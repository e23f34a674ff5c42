package children

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// behind is a store whose answers a test sets.
type behind struct {
	Committer
	rows     map[actor.Key]actor.Row
	got      []actor.Commit
	err      error // of commits and of settling
	shared   bool
	versions int // questions for versions
}

func (b *behind) Shared() bool { return b.shared }

func (b *behind) LoadActors(_ context.Context, keys []actor.Key, _ actor.LoadOptions) ([]actor.Row, error) {
	rows := make([]actor.Row, len(keys))
	for i, key := range keys {
		if key.IsAnonymous() {
			panic("the store is asked for a child")
		}
		rows[i] = b.rows[key]
	}
	return rows, nil
}

func (b *behind) Versions(_ context.Context, keys []actor.Key) ([]actor.RowVersion, error) {
	b.versions++
	versions := make([]actor.RowVersion, len(keys))
	for i, key := range keys {
		versions[i].Version = b.rows[key].Version
	}
	return versions, nil
}

func (b *behind) Commit(_ context.Context, commits []actor.Commit) []error {
	errs := make([]error, len(commits))
	for i := range commits {
		b.got, errs[i] = append(b.got, commits[i]), b.err
	}
	return errs
}

func (b *behind) Settle(_ context.Context, c actor.Commit) error {
	b.got = append(b.got, c)
	return b.err
}

// fixture is a store with a family of the parent p.
type fixture struct {
	*Store
	behind *behind
	states *atomic.Int64
	parent actor.Key
}

func newFixture() *fixture {
	f := &fixture{behind: &behind{rows: map[actor.Key]actor.Row{}}, states: new(atomic.Int64), parent: actor.Key{App: "app", Type: "T", ID: "p"}}
	families := new(Families)
	families.Init(f.states)
	f.Store = NewStore(families, f.behind)
	f.behind.rows[f.parent] = actor.Row{Version: 5}
	return f
}

func (f *fixture) child(name string) actor.Key {
	return actor.Key{App: "app", Type: "Kid", ID: f.ID(f.parent, name, false)}
}

// row is a write of an actor from a version to the next, with a state.
func row(key actor.Key, from uint64, state string) actor.RowWrite {
	return actor.RowWrite{Key: key, ReadVersion: from, NewVersion: max(from, 1000) + 1, State: &actor.EncodedState{Format: actor.FormatJSON, Data: []byte(state)}}
}

func (f *fixture) commit(t *testing.T, c actor.Commit) error {
	t.Helper()
	c.ID = actor.NewCommitID()
	return f.Commit(t.Context(), []actor.Commit{c})[0]
}

// want compares the states of actors; that of a child that is gone is -.
func (f *fixture) want(t *testing.T, want string, keys ...actor.Key) {
	t.Helper()
	rows, err := f.LoadActors(t.Context(), keys, actor.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	versions, err := f.Versions(t.Context(), keys)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for i := range rows {
		if versions[i].Version != rows[i].Version || versions[i].Deleted != rows[i].Deleted {
			t.Errorf("%v has the version %+v, and %d", keys[i], versions[i], rows[i].Version)
		}
		state := string(rows[i].State.Data)
		if rows[i].Deleted && rows[i].Spawned {
			state = "-"
		}
		got += fmt.Sprintf("%s ", state)
	}
	if got != want+" " {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestCommitsAreSplit: a commit's children are changed with its rows in the store, or not at all; what has children alone
// reaches no store.
func TestCommitsAreSplit(t *testing.T) {
	f := newFixture()
	a, b := f.child("a"), f.child("b")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(f.commit(t, actor.Commit{Rows: []actor.RowWrite{row(f.parent, 5, "p"), row(a, 0, "a1"), row(b, 0, "b1")}}))
	if len(f.behind.got) != 1 || len(f.behind.got[0].Rows) != 1 || f.behind.got[0].Rows[0].Key != f.parent || f.Count(f.parent) != 2 {
		t.Errorf("the store got %+v, and there are %d children", f.behind.got, f.Count(f.parent))
	}
	f.want(t, "a1 b1", a, b)
	must(f.commit(t, actor.Commit{Rows: []actor.RowWrite{row(a, 1001, "a2")}, Fences: []actor.RowFence{{Key: b, Version: 1001}, {Key: f.parent, Version: 5}}}))
	if f.want(t, "a2 b1  b1", a, b, f.parent, b); len(f.behind.got) != 1 || f.behind.versions != 1 { // the last question
		t.Errorf("the store got %d commits, and was asked for versions %d times", len(f.behind.got), f.behind.versions)
	}
	f.behind.shared = true
	if err := f.commit(t, actor.Commit{Rows: []actor.RowWrite{row(a, 1002, "a3")}, Fences: []actor.RowFence{{Key: f.parent, Version: 4}}}); !errors.Is(err, actor.ErrStale) {
		t.Errorf("a fence of an earlier version: %v", err)
	}
	f.want(t, "a2", a)
	must(f.commit(t, actor.Commit{Rows: []actor.RowWrite{row(a, 1002, "a3")}, Fences: []actor.RowFence{{Key: f.parent, Version: 5}}}))
	before := len(f.behind.got)
	for _, c := range []actor.Commit{
		{Rows: []actor.RowWrite{row(a, 1001, "x"), row(f.parent, 5, "x")}},
		{Rows: []actor.RowWrite{row(f.parent, 5, "x")}, Fences: []actor.RowFence{{Key: a, Version: 1001}}},
		{Rows: []actor.RowWrite{row(a, 0, "x"), row(f.parent, 5, "x")}},
	} {
		if err := f.commit(t, c); !errors.Is(err, actor.ErrStale) || len(f.behind.got) != before {
			t.Errorf("%+v: %v, and the store has %d commits", c, err, len(f.behind.got))
		}
	}
	f.behind.err = actor.ErrUnavailable
	if err := f.commit(t, actor.Commit{Rows: []actor.RowWrite{row(a, 1003, "x"), row(f.parent, 5, "x")}}); !errors.Is(err, actor.ErrUnavailable) {
		t.Error(err)
	}
	f.want(t, "a3 b1", a, b)
}

// TestDoubt: the children of a commit of an unknown outcome are gone until settling decides.
func TestDoubt(t *testing.T) {
	for outcome, want := range map[error]string{nil: "a2", actor.ErrStale: "a1", actor.ErrAmbiguous: "-", actor.ErrUnavailable: "-"} {
		f := newFixture()
		a, b := f.child("a"), f.child("b")
		if err := f.commit(t, actor.Commit{Rows: []actor.RowWrite{row(a, 0, "a1")}}); err != nil {
			t.Fatal(err)
		}
		c := actor.Commit{ID: actor.NewCommitID(), Rows: []actor.RowWrite{row(f.parent, 5, "p"), row(a, 1001, "a2"), row(b, 0, "b1")}}
		f.behind.err = actor.ErrAmbiguous
		if err := f.Commit(t.Context(), []actor.Commit{c})[0]; !errors.Is(err, actor.ErrAmbiguous) {
			t.Error(err)
		}
		f.want(t, "- -", a, b)
		f.behind.err = outcome
		if err := f.Settle(t.Context(), c); !errors.Is(err, outcome) {
			t.Errorf("settled: %v, want %v", err, outcome)
		}
		made := "-"
		if outcome == nil {
			made = "b1"
		}
		if f.want(t, want+" "+made, a, b); len(f.behind.got[len(f.behind.got)-1].Rows) != 1 {
			t.Errorf("settled by %+v", f.behind.got)
		}
	}
}

// TestDoubtOfParents: a commit that deletes a parent has an unknown outcome. The children are gone until settling
// decides, except for those that an earlier commit has put in doubt. None of them counts for the bound.
func TestDoubtOfParents(t *testing.T) {
	for outcome, want := range map[error]string{nil: "- -", actor.ErrStale: "a1 -", actor.ErrAmbiguous: "- -"} {
		f := newFixture()
		a, b := f.child("a"), f.child("b")
		if err := f.commit(t, actor.Commit{Rows: []actor.RowWrite{row(a, 0, "a1"), row(b, 0, "b1")}}); err != nil {
			t.Fatal(err)
		}
		f.behind.err = actor.ErrAmbiguous
		if err := f.commit(t, actor.Commit{Rows: []actor.RowWrite{row(f.parent, 5, "p"), row(b, 1001, "b2")}}); !errors.Is(err, actor.ErrAmbiguous) {
			t.Error(err)
		}
		if n := f.Count(f.parent); n != 1 {
			t.Errorf("%d children count, beside one in doubt", n)
		}
		c := actor.CommitOf(actor.RowWrite{Key: f.parent, ReadVersion: 5, NewVersion: 6, Delete: true})
		if err := f.Commit(t.Context(), []actor.Commit{c})[0]; !errors.Is(err, actor.ErrAmbiguous) {
			t.Error(err)
		}
		f.want(t, "- -", a, b)
		f.behind.err = outcome
		if err := f.Settle(t.Context(), c); !errors.Is(err, outcome) {
			t.Errorf("settled: %v, want %v", err, outcome)
		}
		f.want(t, want, a, b)
		if f.behind.err = nil; outcome == nil {
			if f.states.Load() != 0 {
				t.Errorf("children of a parent that is deleted count for %d bytes", f.states.Load())
			}
			continue
		}
		d := f.child("d")
		if err := f.commit(t, actor.Commit{Rows: []actor.RowWrite{row(d, 0, "d1")}}); err != nil {
			t.Error(err)
		}
		f.want(t, "d1", d)
	}
}

// TestEnd: a family ends with its parent's life and its deletion, and with End; its children have no bytes then, and
// what is committed later makes none.
func TestEnd(t *testing.T) {
	for name, end := range map[string]func(f *fixture) error{
		"end": func(f *fixture) error {
			if gone := f.End(f.parent); len(gone) != 1 {
				return fmt.Errorf("%d children are gone", len(gone))
			}
			return nil
		},
		"delete": func(f *fixture) error {
			return f.Commit(context.Background(), []actor.Commit{actor.CommitOf(actor.RowWrite{Key: f.parent, ReadVersion: 5, NewVersion: 6, Delete: true})})[0]
		},
		"pass away": func(f *fixture) error {
			b := f.child("b")
			return f.Commit(context.Background(), []actor.Commit{actor.CommitOf(row(b, 0, "b1"), actor.RowWrite{Key: f.parent, ReadVersion: 5, NewVersion: 6, Delete: true, NewLife: true})})[0]
		},
	} {
		f := newFixture()
		a := f.child("a")
		if err := f.commit(t, actor.Commit{Rows: []actor.RowWrite{row(a, 0, "a1")}}); err != nil {
			t.Fatal(err)
		}
		if _, lives := f.Parent(a, time.Now()); !lives || f.states.Load() != rowCost+2 || !f.Related(a, f.parent) {
			t.Errorf("%s: it lives: %v, and counts for %d bytes", name, lives, f.states.Load())
		}
		if err := end(f); err != nil {
			t.Fatal(err)
		}
		if _, lives := f.Parent(a, time.Now()); lives || f.states.Load() != 0 || f.Related(a, f.parent) || f.Count(f.parent) != 0 {
			t.Errorf("%s: it lives: %v, and counts for %d bytes", name, lives, f.states.Load())
		}
		f.want(t, "-", a)
		if err := f.commit(t, actor.Commit{Rows: []actor.RowWrite{row(a, 1001, "a2")}}); !errors.Is(err, actor.ErrStale) {
			t.Errorf("%s: a later commit: %v", name, err)
		}
		late := actor.Key{App: "app", Type: "Kid", ID: actor.AnonymousID(a.Family(), "late", false)}
		if err := f.commit(t, actor.Commit{Rows: []actor.RowWrite{row(late, 0, "l")}}); err != nil || f.states.Load() != 0 {
			t.Errorf("%s: a child that was made before: %v, %d bytes", name, err, f.states.Load())
		}
		if f.want(t, "-", late); f.child("a") == a {
			t.Errorf("%s: a later family has the same IDs", name)
		}
	}
}

// TestRelated: families are apart, also of apps.
func TestRelated(t *testing.T) {
	f := newFixture()
	a, b := f.child("a"), f.child("b")
	other := actor.Key{App: "app", Type: "T", ID: "q"}
	alien := actor.Key{App: "app", Type: "Kid", ID: f.ID(other, "a", true)}
	foreign, foreignParent := a, f.parent
	foreign.App, foreignParent.App = "other", "other"
	for _, c := range []struct {
		x, y actor.Key
		want bool
	}{
		{a, a, true}, {a, b, true}, {a, f.parent, true}, {f.parent, b, true}, {a, alien, false}, {a, other, false}, {other, alien, true},
		{foreign, foreign, false}, {foreign, foreignParent, false}, {a, foreignParent, false}, {foreign, f.parent, false}, {a, foreign, false},
		{actor.Key{App: "app", Type: "Kid", ID: "\x01"}, f.parent, false}, {actor.Key{App: "app", Type: "Kid", ID: "\x01."}, f.parent, false},
	} {
		if got := f.Related(c.x, c.y); got != c.want {
			t.Errorf("%q and %q are related: %v", c.x, c.y, got)
		}
	}
}

// TestChangesOfRows: what a commit does to a child is what a store does to a row.
func TestChangesOfRows(t *testing.T) {
	f := newFixture()
	a, set := f.child("a"), "open"
	w := row(a, 0, "a1")
	w.Generation, w.StateSchema, w.MethodSet = 3, 4, &set
	data := w.State.Data
	if err := f.commit(t, actor.Commit{Rows: []actor.RowWrite{w}}); err != nil {
		t.Fatal(err)
	}
	copy(data, "xx") // the buffer is used again
	load := func() actor.Row {
		rows, err := f.LoadActors(t.Context(), []actor.Key{a}, actor.LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return rows[0]
	}
	if r := load(); string(r.State.Data) != "a1" || r.Generation != 3 || r.StateSchema != 4 || r.MethodSet != "open" || !r.Spawned || r.Deleted {
		t.Errorf("%+v", r)
	}
	for _, w := range []actor.RowWrite{{Key: a, ReadVersion: 1001, NewVersion: 1002, Bump: true}, {Key: a, ReadVersion: 1002, NewVersion: 1003, Generation: 3, StateSchema: 4}} {
		if err := f.commit(t, actor.Commit{Rows: []actor.RowWrite{w}}); err != nil {
			t.Fatal(err)
		}
		if r := load(); r.Version != w.NewVersion || string(r.State.Data) != "a1" || r.Generation != 3 || r.StateSchema != 4 || r.MethodSet != "open" {
			t.Errorf("after %+v: %+v", w, r)
		}
	}
	if err := f.commit(t, actor.Commit{Rows: []actor.RowWrite{{Key: a, ReadVersion: 1003, NewVersion: 1004, Delete: true, NewLife: true}}}); err != nil || f.states.Load() != 0 {
		t.Errorf("it passes away: %v, %d bytes", err, f.states.Load())
	}
	f.want(t, "-", a)
	if _, err := f.LockedTurn(t.Context(), a, nil); !errors.Is(err, actor.ErrActorNotFound) {
		t.Errorf("a locked turn: %v", err)
	}
}
