package storetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// rowFixture tests rows of actors.
type rowFixture struct{ *base }

// bumped applies a bump on top of row.
func (f *rowFixture) bumped(c actor.Commit, row actor.Row) {
	f.Helper()
	f.moved(f.apply(c), c, row)
}

// moved checks that got is row with the version and the ID of a bump.
func (f *rowFixture) moved(got actor.Row, c actor.Commit, row actor.Row) {
	f.Helper()
	row.Version, row.CommitID, row.UpdatedAt = c.Rows[0].NewVersion, c.ID, got.UpdatedAt
	f.same(got, row)
}

func manyID(i int) string { return fmt.Sprintf("many-%04d", i) }

// insertMany makes n actors in one group and returns their rows.
func (f *rowFixture) insertMany(n int) []actor.Row {
	f.Helper()
	commits := make([]actor.Commit, n)
	for i := range commits {
		commits[i] = write(f.key(manyID(i)), actor.Row{}, fmt.Sprintf(`{"first":%d}`, i))
	}
	for _, err := range f.s.Commit(f.ctx(), commits) {
		f.ok(err)
	}
	rows := f.loadMany(n)
	for i, row := range rows {
		f.wrote(row, commits[i], fmt.Sprintf(`{"first":%d}`, i))
	}
	return rows
}

func (f *rowFixture) loadMany(n int) []actor.Row {
	f.Helper()
	keys := make([]actor.Key, n)
	for i := range keys {
		keys[i] = f.key(manyID(i))
	}
	rows, err := f.s.LoadActors(f.ctx(), keys, actor.LoadOptions{})
	f.ok(err)
	if len(rows) != n {
		f.Fatalf("load of %d keys gave %d rows", n, len(rows))
	}
	return rows
}

func (f *rowFixture) insertIDs(typ string, ids []string) {
	f.Helper()
	commits := make([]actor.Commit, len(ids))
	for i, id := range ids {
		commits[i] = write(actor.Key{App: f.app, Type: typ, ID: id}, actor.Row{}, `{}`)
	}
	for i, err := range f.s.Commit(f.ctx(), commits) {
		if err != nil {
			f.Fatalf("insert %q: %v", ids[i], err)
		}
	}
}

// lists checks the IDs of one page of Carts.
func (f *rowFixture) lists(want []string, after string, limit int) {
	f.Helper()
	infos, _, err := f.s.ListActors(f.ctx(), store.ActorQuery{App: f.app, Type: "Cart", After: after, Limit: limit})
	f.ok(err)
	var got []string
	for _, info := range infos {
		got = append(got, info.Key.ID)
	}
	if !slices.Equal(got, want) {
		f.Fatalf("the page after %q is %q, want %q", after, got, want)
	}
}

// scanned reads one scan, and returns the rows with copies of their states.
func (f *rowFixture) scanned(q store.ActorScan) (rows []store.ScannedActor, examined int, next string) {
	f.Helper()
	q.App, q.Type = f.app, "Cart"
	if q.Limit == 0 {
		q.Limit = store.MaxExamined
	}
	examined, next, err := f.s.ScanActors(f.ctx(), q, func(row *store.ScannedActor) bool {
		kept := *row
		kept.State.Data = slices.Clone(row.State.Data)
		rows = append(rows, kept)
		return true
	})
	f.ok(err)
	return rows, examined, next
}

// sweepAll removes every tombstone of the store.
func (f *rowFixture) sweepAll() {
	f.Helper()
	for {
		n, err := f.s.SweepTombstones(f.ctx(), f.now().Add(time.Minute), store.MaxList)
		f.ok(err)
		if n < store.MaxList {
			return
		}
	}
}

// untilAfter returns when database time has passed past. It polls: no store
// tells when its time moves, and a microsecond is enough.
func (f *rowFixture) untilAfter(past time.Time) {
	f.Helper()
	for range 1_000_000 {
		if f.now().After(past) {
			return
		}
	}
	f.Fatalf("database time does not pass %v", past)
}

// counted is a commit that stores a count on top of row.
func counted(k actor.Key, row actor.Row, n int) actor.Commit {
	return write(k, row, fmt.Sprintf(`{"count":%d}`, n))
}

// count reads what counted wrote; a row without state counts 0.
func count(row actor.Row) int {
	var n int
	if _, err := fmt.Sscanf(string(row.State.Data), `{"count":%d}`, &n); err != nil {
		return 0
	}
	return n
}

// increment adds one to the count of k, by a plain commit.
func (f *rowFixture) increment(k actor.Key) error {
	rows, err := f.s.LoadActors(f.ctx(), []actor.Key{k}, actor.LoadOptions{})
	if err != nil {
		return err
	}
	return f.s.Commit(f.ctx(), []actor.Commit{counted(k, rows[0], count(rows[0])+1)})[0]
}

// counts checks the count of k.
func (f *rowFixture) counts(k actor.Key, want int) {
	f.Helper()
	if got := count(f.load(k)); got != want {
		f.Fatalf("the count is %d after %d increments", got, want)
	}
}

// read is a member of a set that was only read.
func read(k actor.Key, row actor.Row) actor.Commit { return actor.Commit{Fences: fenceOf(k, row)} }

func fenceOf(k actor.Key, row actor.Row) []actor.RowFence {
	return []actor.RowFence{{Key: k, Version: row.Version}}
}

// setOf makes one commit of the rows and the fences of several, with the records of
// the first.
func setOf(members ...actor.Commit) actor.Commit {
	c := actor.Commit{ID: actor.NewCommitID(), Records: members[0].Records}
	for _, m := range members {
		c.Rows = append(c.Rows, m.Rows...)
		c.Fences = append(c.Fences, m.Fences...)
	}
	return c
}

// changed checks the rows that a set has written, against the state of each; those
// that only moved on are left to the caller.
func (f *rowFixture) changed(c actor.Commit, texts ...string) {
	f.Helper()
	for i := range c.Rows {
		if w := &c.Rows[i]; !w.Bump {
			f.wroteRow(f.load(w.Key), c.ID, w, texts[i])
		}
	}
}

// never settles a commit that was not sent, and checks that it cannot apply
// any more, and that settling again says the same.
func (f *rowFixture) never(c actor.Commit) {
	f.Helper()
	f.is(f.s.Settle(f.ctx(), c), actor.ErrStale)
	f.refuse(c, actor.ErrStale)
	row := f.load(c.Anchor().Key)
	f.is(f.s.Settle(f.ctx(), c), actor.ErrStale)
	f.same(f.load(c.Anchor().Key), row)
}

// movedByOne checks that the row of "a" is as it was, one version on.
func (f *rowFixture) movedByOne(row actor.Row) {
	f.Helper()
	got := f.load(f.key("a"))
	row.Version++
	row.UpdatedAt = got.UpdatedAt
	f.same(got, row)
}

// versions checks that the versions of keys are those of rows.
func (f *rowFixture) versions(keys []actor.Key, rows ...actor.Row) {
	f.Helper()
	got, err := f.s.Versions(f.ctx(), keys)
	f.ok(err)
	if len(got) != len(keys) {
		f.Fatalf("%d versions for %d keys", len(got), len(keys))
	}
	for i, row := range rows {
		if want := (actor.RowVersion{Version: row.Version, Life: row.Life, Deleted: row.Deleted}); got[i] != want {
			f.Fatalf("the version of %s is %+v, want %+v", keys[i], got[i], want)
		}
	}
}

// damaged loads a row that must be damaged.
func (f *rowFixture) damaged(k actor.Key) store.DamagedRow {
	f.Helper()
	_, err := f.s.LoadActors(f.ctx(), []actor.Key{k}, actor.LoadOptions{})
	f.is(err, actor.ErrStateDamaged)
	damage := (*store.DamagedError)(nil)
	if !errors.As(err, &damage) || len(damage.Rows) != 1 || damage.Rows[0].Key != k || damage.Rows[0].Detail == "" {
		f.Fatalf("error is %#v, want one damaged row of %s", err, k)
	}
	return damage.Rows[0]
}

// lives checks what a row says of the life of its actor.
func (f *rowFixture) lives(row actor.Row, life uint64, spawned bool, set string) {
	f.Helper()
	if row.Life != life || row.Spawned != spawned || row.MethodSet != set {
		f.Fatalf("row is\n  %s, want life %d, spawned %t, set %q", describe(row), life, spawned, set)
	}
}

// become makes a commit change the method set of its row.
func become(c actor.Commit, set string) actor.Commit {
	c.Rows[0].MethodSet = &set
	return c
}

// passAway is a commit with which the actor passes away.
func passAway(k actor.Key, row actor.Row) actor.Commit {
	c := remove(k, row)
	c.Rows[0].NewLife = true
	return c
}

// spawn is a commit that inserts the row of a spawned actor.
func spawn(k actor.Key) actor.Commit {
	c := touch(k, actor.Row{})
	c.Rows[0].Spawned = true
	return c
}

// claiming makes a commit claim services for the actor of its row, and releasing release them.
func claiming(c actor.Commit, names ...string) actor.Commit {
	for _, name := range names {
		c.Services = append(c.Services, actor.ServiceChange{Name: name, Actor: c.Rows[0].Key})
	}
	return c
}

func releasing(c actor.Commit, names ...string) actor.Commit {
	c = claiming(c, names...)
	for i := range c.Services {
		c.Services[i].Release = true
	}
	return c
}

// stands checks who stands for a service; nobody, if id is empty.
func (f *rowFixture) stands(name, id string) actor.Service {
	f.Helper()
	found, err := f.s.FindService(f.ctx(), f.app, name)
	f.ok(err)
	switch {
	case id == "" && found != (actor.Service{}), id != "" && (found.Name != name || found.Actor != f.key(id)):
		f.Fatalf("the service %q is %+v, want the one of %q", name, found, id)
	}
	return found
}
