// Package storetest is the executable form of the contract in package store.
// Every guarantee written there is a named subtest here, and every driver runs
// all of them:
//
//   - [Run]: what a store does while it is open.
//   - [RunReopen]: what is still there after Close and after a crash.
//   - [RunDamage]: what happens to damaged rows and modules, for drivers whose
//     data a test can damage.
//   - [RunLap]: what happens to tokens when their range is spent.
//   - [RunCopy] and [UnfinishedCopy]: copies of a store into another one, whole and cut off.
//   - [RunModel] and [RunReopenModel]: random operations, compared with a model
//     in memory.
//
// The tests of one Run share a store and have an app of their own each, so that
// they would notice apps that are not kept apart.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// Run checks a store against the contract. open opens an empty store and
// arranges that it is closed when the test ends; it is called twice.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	t.Helper()
	t.Run("Open", func(t *testing.T) {
		s := open(t)
		apps := 0
		for _, suite := range []suite{
			fences, versions, tombstones, groups, sets, records, loads, lists, sweeps, settles,
			lockedTurns, contexts, concurrency, modules, deployments, settings, hosts, leases,
			reminders, buckets, health,
		} {
			t.Run(suite.name, func(t *testing.T) {
				for _, c := range suite.cases {
					apps++
					app := fmt.Sprintf("app-%d", apps)
					t.Run(c.name, func(t *testing.T) {
						c.run(&fixture{T: t, s: s, app: app})
					})
				}
			})
		}
	})
	t.Run("Closed", func(t *testing.T) { closed(t, open(t)) })
}

// suite is a part of the contract.
type suite struct {
	name  string
	cases []testCase
}

type testCase struct {
	name string
	run  func(f *fixture)
}

// fixture is what one test works with: a store, and an app that nobody else uses.
type fixture struct {
	*testing.T
	s   store.Store
	app string
}

func (f *fixture) ctx() context.Context { return f.Context() }

func (f *fixture) key(id string) actor.Key {
	return actor.Key{App: f.app, Type: "Cart", ID: id}
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

// commit sends one commit.
func (f *fixture) commit(c actor.Commit) error {
	f.Helper()
	errs := f.s.Commit(f.ctx(), []actor.Commit{c})
	if len(errs) != 1 {
		f.Fatalf("Commit of one answered %d errors", len(errs))
	}
	return errs[0]
}

// apply sends one commit that must be applied, and returns the row after it.
func (f *fixture) apply(c actor.Commit) actor.Row {
	f.Helper()
	if err := f.commit(c); err != nil {
		f.Fatalf("commit %s at version %d: %v", c.Anchor().Key, c.Anchor().Version, err)
	}
	return f.load(c.Anchor().Key)
}

// refuse sends one commit that must be refused with want, and checks that the
// row is as it was.
func (f *fixture) refuse(c actor.Commit, want error) {
	f.Helper()
	before := f.load(c.Anchor().Key)
	f.is(f.commit(c), want)
	f.same(f.load(c.Anchor().Key), before)
}

// load reads one row.
func (f *fixture) load(k actor.Key) actor.Row {
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
func (f *fixture) is(err, want error) {
	f.Helper()
	if !errors.Is(err, want) {
		f.Fatalf("error is %v, want %v", err, want)
	}
}

// ok checks that err is nil.
func (f *fixture) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// argument checks that err says the caller broke the contract.
func (f *fixture) argument(err error) {
	f.Helper()
	if want := (*actor.ArgumentError)(nil); !errors.As(err, &want) {
		f.Fatalf("error is %v, want an *actor.ArgumentError", err)
	}
}

// same checks that two rows are equal.
func (f *fixture) same(got, want actor.Row) {
	f.Helper()
	if !sameRow(got, want) {
		f.Fatalf("row is\n  %s, want\n  %s", describe(got), describe(want))
	}
}

func sameRow(a, b actor.Row) bool {
	return a.Version == b.Version && a.CommitID == b.CommitID && a.Life == b.Life &&
		a.Deleted == b.Deleted && a.Generation == b.Generation && a.StateSchema == b.StateSchema &&
		a.State.Format == b.State.Format && string(a.State.Data) == string(b.State.Data) &&
		a.UpdatedAt.Equal(b.UpdatedAt)
}

func describe(r actor.Row) string {
	data := string(r.State.Data)
	if len(data) > 60 {
		data = fmt.Sprintf("%s… (%d bytes)", data[:60], len(data))
	}
	return fmt.Sprintf("version %d commit %s life %d deleted %t generation %d schema %d format %d state %q at %s",
		r.Version, r.CommitID, r.Life, r.Deleted, r.Generation, r.StateSchema, r.State.Format, data, r.UpdatedAt.Format(time.RFC3339Nano))
}

// wrote checks that row is what a commit of one row leaves on a store, with the given
// state.
func (f *fixture) wrote(row actor.Row, c actor.Commit, text string) {
	f.Helper()
	f.wroteRow(row, c.ID, &c.Rows[0], text)
}

// wroteRow is wrote for one of the rows of a commit.
func (f *fixture) wroteRow(row actor.Row, id actor.CommitID, w *actor.RowWrite, text string) {
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

func (f *fixture) now() time.Time {
	f.Helper()
	now, err := f.s.Now(f.ctx())
	f.ok(err)
	return now
}
