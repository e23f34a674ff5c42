package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// base is a store, and an app that nobody else uses.
type base struct {
	*testing.T
	s   store.Store
	app string
}

func (f *base) ctx() context.Context { return f.Context() }

func (f *base) key(id string) actor.Key {
	return actor.Key{App: f.app, Type: "Cart", ID: id}
}

// commit sends one commit.
func (f *base) commit(c actor.Commit) error {
	f.Helper()
	errs := f.s.Commit(f.ctx(), []actor.Commit{c})
	if len(errs) != 1 {
		f.Fatalf("Commit of one answered %d errors", len(errs))
	}
	return errs[0]
}

// apply sends one commit that must be applied, and returns the row after it.
func (f *base) apply(c actor.Commit) actor.Row {
	f.Helper()
	if err := f.commit(c); err != nil {
		f.Fatalf("commit %s at version %d: %v", c.Anchor().Key, c.Anchor().Version, err)
	}
	return f.load(c.Anchor().Key)
}

// refuse sends one commit that must be refused with want, and checks that the
// row is as it was.
func (f *base) refuse(c actor.Commit, want error) {
	f.Helper()
	before := f.load(c.Anchor().Key)
	f.is(f.commit(c), want)
	f.same(f.load(c.Anchor().Key), before)
}

// load reads one row.
func (f *base) load(k actor.Key) actor.Row {
	f.Helper()
	rows, err := f.s.LoadActors(f.ctx(), []actor.Key{k}, actor.LoadOptions{})
	if err != nil {
		f.Fatalf("load %s: %v", k, err)
	}
	if len(rows) != 1 {
		f.Fatalf("load of one key gave %d rows", len(rows))
	}
	return rows[0]
}

// is checks that err matches want; nil matches nil alone.
func (f *base) is(err, want error) {
	f.Helper()
	if !errors.Is(err, want) {
		f.Fatalf("error is %v, want %v", err, want)
	}
}

// ok checks that err is nil.
func (f *base) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// argument checks that err says the caller broke the contract.
func (f *base) argument(err error) {
	f.Helper()
	if want := (*actor.ArgumentError)(nil); !errors.As(err, &want) {
		f.Fatalf("error is %v, want an *actor.ArgumentError", err)
	}
}

// same checks that two rows are equal.
func (f *base) same(got, want actor.Row) {
	f.Helper()
	if !sameRow(got, want) {
		f.Fatalf("row is\n  %s, want\n  %s", describe(got), describe(want))
	}
}

// wrote checks that row is what a commit of one row leaves on a store, with the given
// state.
func (f *base) wrote(row actor.Row, c actor.Commit, text string) {
	f.Helper()
	f.wroteRow(row, c.ID, &c.Rows[0], text)
}

// wroteRow is wrote for one of the rows of a commit.
func (f *base) wroteRow(row actor.Row, id actor.CommitID, w *actor.RowWrite, text string) {
	f.Helper()
	want := actor.Row{
		Version: w.NewVersion, CommitID: id, Deleted: w.Delete, Generation: w.Generation,
		StateSchema: w.StateSchema, UpdatedAt: row.UpdatedAt,
	}
	if text != "" {
		want.State = *jsonState(text)
	}
	f.same(row, want)
	if row.UpdatedAt.IsZero() {
		f.Fatal("UpdatedAt is not set")
	}
}

func (f *base) now() time.Time {
	f.Helper()
	now, err := f.s.Now(f.ctx())
	f.ok(err)
	return now
}

// inParallel runs fn in n goroutines that start together, and fails the test
// with the first error.
func (f *base) inParallel(n int, fn func(i int) error) {
	f.Helper()
	var wg sync.WaitGroup
	start := make(chan struct{})
	errs := make([]error, n)
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = fn(i)
		})
	}
	close(start)
	wg.Wait()
	f.ok(errors.Join(errs...))
}

// together runs functions at the same time.
func (f *base) together(fns ...func()) {
	f.Helper()
	f.inParallel(len(fns), func(i int) error {
		fns[i]()
		return nil
	})
}

// jsonState is an encoded state for tests.
func jsonState(text string) *actor.EncodedState {
	return &actor.EncodedState{Format: actor.FormatJSON, Data: []byte(text)}
}

// write is a commit that gives the actor a state on top of row, the zero Row
// for an insert.
func write(k actor.Key, row actor.Row, text string) actor.Commit {
	c := touch(k, row)
	c.Rows[0].State = jsonState(text)
	return c
}

// touch is a commit that only moves the version.
func touch(k actor.Key, row actor.Row) actor.Commit {
	w := actor.RowWrite{Key: k, ReadVersion: row.Version, NewVersion: row.Version + 1, Generation: 3, StateSchema: 7}
	if row.Version == 0 {
		w.NewVersion = actor.FirstVersion()
	}
	return actor.CommitOf(w)
}

// bump is a commit that moves the version on and leaves all else as it is.
func bump(k actor.Key, row actor.Row) actor.Commit {
	c := touch(k, row)
	c.Rows[0].Bump = true
	return c
}

// remove is a commit that deletes the actor.
func remove(k actor.Key, row actor.Row) actor.Commit {
	c := touch(k, row)
	c.Rows[0].Delete = true
	return c
}

func sameRow(a, b actor.Row) bool {
	return a.Version == b.Version && a.CommitID == b.CommitID && a.Life == b.Life &&
		a.Deleted == b.Deleted && a.Generation == b.Generation && a.StateSchema == b.StateSchema &&
		a.State.Format == b.State.Format && string(a.State.Data) == string(b.State.Data) &&
		a.UpdatedAt.Equal(b.UpdatedAt) && a.Spawned == b.Spawned && a.MethodSet == b.MethodSet &&
		(a.Life > 0 || a.Born.Equal(b.Born))
}

func describe(r actor.Row) string {
	data := string(r.State.Data)
	if len(data) > 60 {
		data = fmt.Sprintf("%s… (%d bytes)", data[:60], len(data))
	}
	return fmt.Sprintf("version %d commit %s life %d deleted %t generation %d schema %d format %d state %q at %s spawned %t set %q",
		r.Version, r.CommitID, r.Life, r.Deleted, r.Generation, r.StateSchema, r.State.Format, data, r.UpdatedAt.Format(time.RFC3339Nano), r.Spawned, r.MethodSet)
}
