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

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
	"pgregory.net/rapid"
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

func newModel(t *testing.T, s store.Store, app string) *model {
	t.Helper()
	return &model{ctx: t.Context(), s: s, app: app, rows: make(map[string]actor.Row), calls: make(map[modelCall]modelRecord)}
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
	}
}

// modelIDs are few, so that operations meet, and such that order matters.
var modelIDs = []string{"a", "a!", "a||", "a||state", "b", "é", "😀"}

// model is what a store must show: the contract, as a map.
type model struct {
	ctx  context.Context
	s    store.Store
	app  string
	rows map[string]actor.Row // by ID; UpdatedAt is not modelled
	// calls are what is recorded; nothing of it expires.
	calls map[modelCall]modelRecord
	// sent are commits that were tried, for Settle.
	sent []actor.Commit
}

func (m *model) key(id string) actor.Key { return actor.Key{App: m.app, Type: "Cart", ID: id} }

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
	c.Generation = rapid.Uint64Range(0, 5).Draw(r, "generation")
	c.StateSchema = rapid.Uint32Range(0, 5).Draw(r, "schema")
	switch rapid.SampledFrom([]string{"json", "json", "envelope", "none", "keep", "delete", "fence"}).Draw(r, "what") {
	case "json":
		c.Effects.State = jsonState(fmt.Sprintf(`{"n":%d}`, rapid.IntRange(0, 1000).Draw(r, "n")))
	case "envelope":
		c.Effects.State = &actor.EncodedState{Format: actor.FormatEnvelope, Data: rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(r, "bytes")}
	case "none":
		c.Effects.State = &actor.EncodedState{}
	case "delete":
		c.Delete = true
	case "fence":
		c.Fence = true
	}
	c.Effects.Idempotency = drawRecords(r)
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
	for _, r := range c.Rows() {
		if m.rows[r.Key.ID].Version != r.ReadVersion {
			return actor.ErrStale
		}
	}
	m.record(&c)
	for _, r := range c.Rows() {
		if !r.ReadOnly() {
			m.change(c.ID, r)
		}
	}
	return nil
}

func (m *model) change(id actor.CommitID, r actor.RowChange) {
	old := m.rows[r.Key.ID]
	row := actor.Row{Version: r.NewVersion, CommitID: id, Deleted: r.Delete, Generation: r.Generation, StateSchema: r.StateSchema}
	switch {
	case r.Delete:
	case r.Fence:
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
		if n := len(commits); n > 0 && !commits[n-1].RecordsOnly() && rapid.Bool().Draw(r, "in a set") {
			commits[n-1].Others = append(commits[n-1].Others, m.drawOther(r, id))
			continue
		}
		commits = append(commits, m.draw(r, id))
	}
	for i, err := range m.s.Commit(m.ctx, commits) {
		m.answered(r, &commits[i], err, m.apply(commits[i]))
	}
}

// drawOther makes a further row of a set, which may be only read.
func (m *model) drawOther(r *rapid.T, id string) actor.RowChange {
	c := m.draw(r, id)
	row := c.Row()
	if rapid.IntRange(0, 3).Draw(r, "read") == 0 {
		row = actor.RowChange{Key: row.Key, ReadVersion: row.ReadVersion}
	}
	return row
}

func (m *model) answered(r *rapid.T, c *actor.Commit, err, want error) {
	if !errors.Is(err, want) {
		r.Fatalf("a commit was answered %v, want %v", err, want)
	}
	for _, record := range c.Effects.Idempotency {
		m.checkRecord(r, modelCall{c.Key.ID, record.Method, record.Key})
	}
}

func (m *model) locked(r *rapid.T) {
	id := rapid.SampledFrom(modelIDs).Draw(r, "id")
	c := m.draw(r, id)
	c.ReadVersion = m.rows[id].Version
	c.NewVersion = max(c.NewVersion, c.ReadVersion+1)
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
	row := m.rows[c.Key.ID]
	var want error
	fenced := false
	switch {
	case m.recordedBy(&c):
	case row.Version != 0 && row.CommitID == c.ID:
	case row.Version != 0 && row.CommitID == store.FenceID(c.ID):
		want = actor.ErrStale
	case row.Version == c.ReadVersion:
		want, fenced = actor.ErrStale, true
		row.Version++
		if c.ReadVersion == 0 {
			row.Deleted = true
		}
		m.rows[c.Key.ID] = row
	case c.ReadVersion > 0 && c.ReadVersion < row.Version && row.Version <= c.NewVersion, c.RecordsOnly():
		want = actor.ErrStale
	default:
		want = actor.ErrAmbiguous
	}
	if err := m.s.Settle(m.ctx, c); !errors.Is(err, want) {
		r.Fatalf("settle answered %v, want %v", err, want)
	}
	if fenced && c.ReadVersion == 0 {
		// The version of the tombstone that settling left is random.
		m.rows[c.Key.ID] = m.adopt(r, c.Key.ID)
	}
}

// adopt takes over a tombstone's random version and commit ID.
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
	infos, err := m.s.ListActors(m.ctx, store.ActorQuery{App: m.app, Type: "Cart", After: after, Limit: limit})
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
		if row.Deleted {
			delete(m.rows, id)
		}
	}
}

func (m *model) loadMany(r *rapid.T) {
	ids := rapid.SliceOfN(rapid.SampledFrom(modelIDs), 0, 10).Draw(r, "ids")
	m.load(r, ids)
}

// check runs after every operation.
func (m *model) check(r *rapid.T) { m.load(r, modelIDs) }

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
