package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// RunModel compares a store with a model in memory under random operations.
// open is called once.
func RunModel(t *testing.T, open func(t *testing.T) store.Store) {
	t.Helper()
	s := open(t)
	var apps atomic.Int64
	rapid.Check(t, func(r *rapid.T) {
		m := newModel(t, s, fmt.Sprintf("model-%d", apps.Add(1)))
		r.Repeat(m.operations())
	})
}

// RunReopenModel is [RunModel] with closing and crashing among the operations.
// newMedium is called for every sequence of them.
func RunReopenModel(t *testing.T, newMedium func(t *testing.T) Medium) {
	t.Helper()
	rapid.Check(t, func(r *rapid.T) {
		medium := newMedium(t)
		m := newModel(t, medium.Open(t), "model")
		operations := m.operations()
		operations["close"] = func(r *rapid.T) {
			if err := m.s.Close(); err != nil {
				r.Fatal(err)
			}
			m.s = medium.Open(t)
		}
		if medium.Crash != nil {
			operations["crash"] = func(*rapid.T) {
				medium.Crash(t, m.s)
				m.s = medium.Open(t)
			}
		}
		r.Repeat(operations)
		if err := m.s.Close(); err != nil {
			r.Fatal(err)
		}
	})
}

func (m *model) operations() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"":         m.check,
		"commit":   m.commit,
		"locked":   m.locked,
		"settle":   m.settle,
		"list":     m.list,
		"sweep":    m.sweep,
		"loadMany": m.loadMany,
		"recorded": m.recorded,
		"inboxes":  m.inboxes,
	}
}

// draw makes a commit of an actor, mostly on its real version.
func (m *model) draw(r *rapid.T, id string) actor.Commit {
	read := m.rows[id].Version
	switch rapid.IntRange(0, 9).Draw(r, "fence") {
	case 0:
		read = 0
	case 1:
		read += rapid.SampledFrom([]uint64{1, 2, ^uint64(0)}).Draw(r, "offset")
	}
	if read > math.MaxInt64-1 {
		read = 7 // below 0
	}
	c := touch(m.key(id), actor.Row{Version: read})
	c.Rows[0].Generation = rapid.Uint64Range(0, 5).Draw(r, "generation")
	c.Rows[0].StateSchema = rapid.Uint32Range(0, 5).Draw(r, "schema")
	least := 0 // records
	switch w := &c.Rows[0]; rapid.SampledFrom([]string{"json", "json", "envelope", "none", "keep", "delete", "bump", "read"}).Draw(r, "what") {
	case "json":
		w.State = jsonState(fmt.Sprintf(`{"n":%d}`, rapid.IntRange(0, 1000).Draw(r, "n")))
	case "envelope":
		w.State = &actor.EncodedState{Format: actor.FormatEnvelope, Data: rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(r, "bytes")}
	case "none":
		w.State = &actor.EncodedState{}
	case "delete":
		w.Delete, w.NewLife = true, rapid.Bool().Draw(r, "new life")
	case "bump":
		w.Bump = true
	case "read":
		c.Rows, c.Fences, least = nil, []actor.RowFence{w.Fence()}, 1
	}
	if len(c.Rows) > 0 && !c.Rows[0].Delete && !c.Rows[0].Bump {
		c.Rows[0].Spawned = read == 0 && rapid.Bool().Draw(r, "spawned")
		if rapid.IntRange(0, 3).Draw(r, "become") == 0 {
			set := rapid.SampledFrom([]string{"", "open", "closed"}).Draw(r, "set")
			c.Rows[0].MethodSet = &set
		}
	}
	c.Records = drawRecords(r, m.key(id), least)
	m.drawMessages(r, id, &c)
	if len(m.sent) < 200 {
		m.sent = append(m.sent, c)
	}
	return c
}

// apply does to the model what the contract says, and returns the answer.
func (m *model) apply(c actor.Commit) error {
	switch {
	case m.recordedBy(&c):
		return nil
	case m.taken(&c):
		return actor.ErrKeyExists
	}
	if err := m.misses(&c); err != nil {
		return err
	}
	fences := slices.Clone(c.Fences)
	for i := range c.Rows {
		fences = append(fences, c.Rows[i].Fence())
	}
	for _, f := range fences {
		if m.rows[f.Key.ID].Version != f.Version {
			return actor.ErrStale
		}
	}
	m.record(&c)
	for i := range c.Rows {
		m.change(c.ID, &c.Rows[i])
	}
	m.deliver(&c)
	return nil
}

func (m *model) change(id actor.CommitID, r *actor.RowWrite) {
	old := m.rows[r.Key.ID]
	row := actor.Row{
		Version: r.NewVersion, CommitID: id, Deleted: r.Delete, Generation: r.Generation, StateSchema: r.StateSchema,
		Life: old.Life, Spawned: old.Spawned || r.Spawned, MethodSet: old.MethodSet,
	}
	switch {
	case r.Delete && r.NewLife:
		row.Life, row.MethodSet = old.Life+1, ""
	case r.Delete:
		row.MethodSet = ""
	case r.MethodSet != nil:
		row.MethodSet = *r.MethodSet
	}
	switch {
	case r.Delete:
	case r.Bump:
		row = old
		row.Version, row.CommitID, row.Deleted = r.NewVersion, id, old.Deleted || old.Version == 0
	case r.State != nil:
		row.State = *r.State
	default:
		row.State = old.State
	}
	m.rows[r.Key.ID] = row
}

func (m *model) commit(r *rapid.T) {
	ids := rapid.SliceOfNDistinct(rapid.SampledFrom(modelIDs), 1, 4, rapid.ID[string]).Draw(r, "ids")
	var commits []actor.Commit
	for _, id := range ids {
		next := m.draw(r, id)
		if n := len(commits); n > 0 && rapid.Bool().Draw(r, "in a set") {
			set := &commits[n-1]
			set.Rows = append(slices.Clone(set.Rows), next.Rows...)
			set.Fences = append(slices.Clone(set.Fences), next.Fences...)
			set.Records = append(slices.Clone(set.Records), next.Records...)
			set.Reminders.Add(&next.Reminders)
			continue
		}
		commits = append(commits, next)
	}
	var rows []actor.RowWrite
	for i := range commits {
		rows = append(rows, commits[i].Rows...)
	}
	for i := range commits { // the commits of a group have no order, and a deletion may come before a message
		keepable(&commits[i], rows)
	}
	for i, err := range m.s.Commit(m.ctx, commits) {
		m.answered(r, &commits[i], err, m.apply(commits[i]))
	}
}

func (m *model) answered(r *rapid.T, c *actor.Commit, err, want error) {
	if !errors.Is(err, want) {
		r.Fatalf("a commit was answered %v, want %v", err, want)
	}
	for _, record := range c.Records {
		m.checkRecord(r, modelCall{record.Actor.ID, record.Method, record.Key})
	}
}

func (m *model) locked(r *rapid.T) {
	id := rapid.SampledFrom(modelIDs).Draw(r, "id")
	c := m.draw(r, id)
	for i := range c.Rows {
		w := &c.Rows[i]
		w.ReadVersion = m.rows[id].Version
		w.NewVersion = max(w.NewVersion, w.ReadVersion+1)
		w.Spawned = w.Spawned && w.ReadVersion == 0
	}
	for i := range c.Fences {
		c.Fences[i].Version = m.rows[id].Version
	}
	_, err := m.s.LockedTurn(m.ctx, m.key(id), func(_ context.Context, row actor.Row) (*actor.Commit, error) {
		m.same(r, id, row)
		return &c, nil
	})
	m.answered(r, &c, err, m.apply(c))
}

func (m *model) settle(r *rapid.T) {
	var c actor.Commit
	if len(m.sent) > 0 && rapid.Bool().Draw(r, "sent") {
		c = rapid.SampledFrom(m.sent).Draw(r, "commit")
	} else {
		c = m.draw(r, rapid.SampledFrom(modelIDs).Draw(r, "id"))
	}
	anchor := c.Anchor()
	id, read := anchor.Key.ID, anchor.Version
	row := m.rows[id]
	var want error
	fenced := false
	switch {
	case m.recordedBy(&c):
	case len(c.Rows) > 0 && row.Version != 0 && row.CommitID == c.ID:
	case row.Version != 0 && row.CommitID == store.FenceID(c.ID):
		want = actor.ErrStale
	case row.Version == read:
		want, fenced = actor.ErrStale, true
		row.Version++
		if read == 0 {
			row.Deleted = true
		}
		m.rows[id] = row
	case len(c.Rows) == 0, read > 0 && read < row.Version && row.Version <= c.Rows[0].NewVersion:
		want = actor.ErrStale
	default:
		want = actor.ErrAmbiguous
	}
	if err := m.s.Settle(m.ctx, c); !errors.Is(err, want) {
		r.Fatalf("settle answered %v, want %v", err, want)
	}
	if fenced && read == 0 {
		// Settling chose the version of the tombstone.
		m.rows[id] = m.adopt(r, id)
	}
}

// adopt takes over the version and the commit ID of a tombstone that settling left.
func (m *model) adopt(r *rapid.T, id string) actor.Row {
	rows, err := m.s.LoadActors(m.ctx, []actor.Key{m.key(id)}, actor.LoadOptions{})
	if err != nil || rows[0].Version == 0 || !rows[0].Deleted {
		r.Fatalf("settling an insert left %+v, %v", rows, err)
	}
	row := rows[0]
	row.UpdatedAt = time.Time{}
	return row
}

func (m *model) list(r *rapid.T) {
	limit := rapid.IntRange(1, 8).Draw(r, "limit")
	after := rapid.SampledFrom(append([]string{""}, modelIDs...)).Draw(r, "after")
	var want []string
	for _, id := range slices.Sorted(slices.Values(modelIDs)) {
		if row := m.rows[id]; row.Version != 0 && !row.Deleted && id > after && len(want) < limit {
			want = append(want, id)
		}
	}
	infos, _, err := m.s.ListActors(m.ctx, store.ActorQuery{App: m.app, Type: "Cart", After: after, Limit: limit})
	if err != nil {
		r.Fatal(err)
	}
	var got []string
	for _, info := range infos {
		got = append(got, info.Key.ID)
		row := m.rows[info.Key.ID]
		if info.Version != row.Version || info.Generation != row.Generation || info.StateSchema != row.StateSchema || info.StateSize != int64(len(row.State.Data)) {
			r.Fatalf("the entry of %q is %+v, and its row %s", info.Key.ID, info, describe(row))
		}
	}
	if !slices.Equal(got, want) {
		r.Fatalf("the list is %q, want %q", got, want)
	}
}

func (m *model) sweep(r *rapid.T) {
	now, err := m.s.Now(m.ctx)
	if err != nil {
		r.Fatal(err)
	}
	for {
		n, err := m.s.SweepTombstones(m.ctx, now.Add(time.Minute), store.MaxList)
		if err != nil {
			r.Fatal(err)
		}
		if n < store.MaxList {
			break
		}
	}
	for id, row := range m.rows {
		if row.Deleted && !row.Spawned { // a spawned one stays dead
			delete(m.rows, id)
		}
	}
}

func (m *model) loadMany(r *rapid.T) {
	ids := rapid.SliceOfN(rapid.SampledFrom(modelIDs), 0, 10).Draw(r, "ids")
	m.load(r, ids)
}

// check runs after every operation.
func (m *model) check(r *rapid.T) {
	m.load(r, modelIDs)
	m.checkMessages(r)
}

func (m *model) load(r *rapid.T, ids []string) {
	keys := make([]actor.Key, len(ids))
	for i, id := range ids {
		keys[i] = m.key(id)
	}
	rows, err := m.s.LoadActors(m.ctx, keys, actor.LoadOptions{})
	if err != nil {
		r.Fatal(err)
	}
	versions, err := m.s.Versions(m.ctx, keys)
	if err != nil {
		r.Fatal(err)
	}
	for i, id := range ids {
		m.same(r, id, rows[i])
		if row := m.rows[id]; versions[i] != (actor.RowVersion{Version: row.Version, Life: row.Life, Deleted: row.Deleted}) {
			r.Fatalf("the version of %q is %+v, and its row %s", id, versions[i], describe(row))
		}
	}
}

func (m *model) same(r *rapid.T, id string, got actor.Row) {
	want := m.rows[id]
	if got.Version != 0 && got.UpdatedAt.IsZero() {
		r.Fatalf("%q has no time", id)
	}
	got.UpdatedAt, want.UpdatedAt = time.Time{}, time.Time{}
	if !sameRow(got, want) {
		r.Fatalf("%q is\n  %s, want\n  %s", id, describe(got), describe(want))
	}
}
