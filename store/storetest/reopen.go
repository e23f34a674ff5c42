package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// Medium is where a store keeps its data: a folder, a database. Tests open
// stores on it one after the other.
type Medium struct {
	// Open opens a store on what the medium holds now. The test closes it.
	Open func(t *testing.T) store.Store
	// Crash ends s as a crash would, calls in flight included: the next Open
	// sees what was durable at one moment during Crash, and of the rest as
	// little as could be. nil: the tests of crashes are skipped.
	Crash func(t *testing.T, s store.Store)
}

// RunReopen checks what is still there when a store is opened again, after Close
// and after a crash.
func RunReopen(t *testing.T, newMedium func(t *testing.T) Medium) {
	t.Helper()
	t.Run("everything is there after Close", func(t *testing.T) {
		m := newMedium(t)
		reopened(t, m, func(s store.Store) {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		})
	})
	crash := func(name string, test func(t *testing.T, m Medium)) {
		t.Run(name, func(t *testing.T) {
			m := newMedium(t)
			if m.Crash == nil {
				t.Skip("this medium cannot crash")
			}
			test(t, m)
		})
	}
	crash("everything acknowledged is there after a crash", func(t *testing.T, m Medium) {
		t.Helper()
		reopened(t, m, func(s store.Store) { m.Crash(t, s) })
	})
	crash("each commit is there after a crash right behind it", crashAfterEach)
	crash("a crash under load keeps what was acknowledged or seen, and nothing by halves", crashUnderLoad)
	crash("an upload that a crash cuts off leaves a whole module or none", crashDuringUpload)
}

// reopened fills a store, ends it, and compares what the next one shows.
func reopened(t *testing.T, m Medium, end func(s store.Store)) {
	t.Helper()
	f := newFixture(t, m.Open(t), "reopened")
	live := f.apply(write(f.key("live"), actor.Row{}, `{"n":1}`))
	stale := live
	last := write(f.key("live"), live, `{"n":2}`)
	live = f.apply(last)
	tomb := f.apply(remove(f.key("tomb"), f.apply(write(f.key("tomb"), actor.Row{}, `{}`))))
	empty := f.apply(touch(f.key("empty"), actor.Row{}))
	recorded := f.apply(recording(write(f.key("recorded"), actor.Row{}, `{}`), record("k", "x"), brief("expired", "x")))
	f.apply(recordOnly(f.key("alone"), actor.Row{}, record("k", "y")))
	f.expired(f.key("recorded"), "expired")
	never := write(f.key("live"), live, `{"n":3}`)
	f.is(f.s.Settle(f.ctx(), never), actor.ErrStale)
	live = f.load(f.key("live"))
	f.apply(remove(f.key("swept"), actor.Row{}))
	module, wasm := f.put("x")
	gone, _ := f.put("gone")
	f.ok(f.s.DeleteModule(f.ctx(), f.app, gone.Digest))
	first, second := f.deployment("Cart", 1, module), f.deployment("Cart", 2, module)
	f.deploy(first)
	f.deploy(second)
	f.set(actor.SettingConfig, "region", "eu")
	f.set(actor.SettingConfig, "gone", "x")
	f.ok(f.s.DeleteSetting(f.ctx(), f.app, actor.SettingConfig, "gone"))
	before := f.now()

	end(f.s)
	f.s = m.Open(t)
	f.same(f.load(f.key("live")), live)
	f.same(f.load(f.key("tomb")), tomb)
	f.same(f.load(f.key("empty")), empty)
	f.same(f.load(f.key("recorded")), recorded)
	f.has(f.key("recorded"), record("k", "x"))
	f.hasNone(f.key("recorded"), record("expired", ""))
	f.same(f.load(f.key("alone")), actor.Row{})
	f.has(f.key("alone"), record("k", "y"))
	if n := f.sweepRecords(); n != 1 {
		f.Fatalf("%d expired records were left, want 1", n)
	}
	f.lists([]string{"empty", "live", "recorded"}, "", 10)
	f.refuse(write(f.key("live"), stale, `{}`), actor.ErrStale)
	f.refuse(write(f.key("tomb"), actor.Row{}, `{}`), actor.ErrStale)
	f.refuse(never, actor.ErrStale)
	f.ok(f.s.Settle(f.ctx(), last))
	f.hasBytes(module, wasm)
	_, err := f.s.Module(f.ctx(), f.app, gone.Digest)
	f.is(err, actor.ErrModuleNotFound)
	f.settings("config region eu")
	f.serves(second)
	history, err := f.s.DeploymentHistory(f.ctx(), f.app, "Cart", 0, 10)
	f.ok(err)
	f.sameDeployments(history, []actor.Deployment{second, first})
	f.is(f.s.Deploy(f.ctx(), []actor.Deployment{second}, store.AnyRevision), actor.ErrDeployConflict)
	f.is(f.s.DeleteModule(f.ctx(), f.app, module.Digest), actor.ErrModuleInUse)
	if f.now().Before(live.UpdatedAt) {
		f.Fatalf("time went back from %v to %v", before, f.now())
	}
	f.sweepAll()
	f.same(f.load(f.key("tomb")), actor.Row{})
	f.same(f.load(f.key("swept")), actor.Row{})
	f.ok(f.increment(f.key("live")))
	f.ok(f.s.Close())
}

func crashAfterEach(t *testing.T, m Medium) {
	t.Helper()
	f := newFixture(t, nil, "each")
	want := make(map[actor.Key]actor.Row)
	steps := []func(k actor.Key, row actor.Row) actor.Commit{
		func(k actor.Key, row actor.Row) actor.Commit { return write(k, row, `{"n":1}`) },
		func(k actor.Key, row actor.Row) actor.Commit { return write(k, row, `{"n":2}`) },
		touch, remove,
	}
	for i := range 12 {
		f.s = m.Open(t)
		for k, row := range want {
			f.same(f.load(k), row)
		}
		k := f.key(manyID(i / len(steps)))
		want[k] = f.apply(steps[i%len(steps)](k, want[k]))
		m.Crash(t, f.s)
	}
	f.s = m.Open(t)
	for k, row := range want {
		f.same(f.load(k), row)
	}
	f.ok(f.s.Close())
}

// loadRecord is what clients under load were told. The crash is compared with a
// copy of it that was taken before.
type loadRecord struct {
	mu    sync.Mutex
	sent  map[actor.CommitID]actor.Commit
	acked map[actor.Key]uint64 // the latest version acknowledged
	seen  map[actor.Key]uint64 // the latest version read
}

func crashUnderLoad(t *testing.T, m Medium) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	const rounds, writers, readers, actors = 6, 4, 2, 12
	rec := &loadRecord{sent: map[actor.CommitID]actor.Commit{}, acked: map[actor.Key]uint64{}, seen: map[actor.Key]uint64{}}
	f := newFixture(t, nil, "load")
	total := 0
	for range rounds {
		f.s = m.Open(t)
		total += afterCrash(f, rec, actors)
		s := f.s
		var clients, writing sync.WaitGroup
		progress, refused := make(chan struct{}, 1<<20), make(chan struct{})
		for i := range writers {
			writing.Go(func() { writeUntilDown(t.Context(), s, f, rec, i, writers, actors, progress) })
		}
		clients.Go(func() {
			writing.Wait()
			close(refused)
		})
		for range readers {
			clients.Go(func() { readUntilDown(t.Context(), s, f, rec, actors) })
		}
		for range 5 + rng.IntN(40) {
			select {
			case <-progress:
			case <-refused:
				t.Fatal("every writer was refused before the store was down")
			}
		}
		rec.mu.Lock()
		known := loadRecord{acked: clone(rec.acked), seen: clone(rec.seen)}
		rec.mu.Unlock()
		m.Crash(t, s)
		clients.Wait()
		rec.acked, rec.seen = known.acked, known.seen
	}
	f.s = m.Open(t)
	total += afterCrash(f, rec, actors)
	if total == 0 {
		t.Fatal("nothing was ever acknowledged")
	}
	f.ok(f.s.Close())
}

func clone[K comparable, V any](m map[K]V) map[K]V {
	c := make(map[K]V, len(m))
	for k, v := range m {
		c[k] = v
	}
	return c
}

// afterCrash compares what is stored with what clients were told, and returns
// how many actors were acknowledged.
func afterCrash(f *fixture, rec *loadRecord, actors int) int {
	f.Helper()
	for i := range actors {
		k := f.key(manyID(i))
		row := f.load(k)
		if row.Version < rec.acked[k] {
			f.Fatalf("%s is at version %d; %d was acknowledged", k, row.Version, rec.acked[k])
		}
		if row.Version < rec.seen[k] {
			f.Fatalf("%s is at version %d; %d was read", k, row.Version, rec.seen[k])
		}
		if row.Version == 0 {
			continue
		}
		c, ok := rec.sent[row.CommitID]
		if !ok {
			f.Fatalf("%s was written by a commit that nobody sent: %s", k, describe(row))
		}
		f.wrote(row, c, string(c.Rows[0].State.Data))
		for _, r := range c.Records {
			f.has(k, r)
		}
		// A crash may have kept more than was acknowledged; from now on that counts.
		rec.acked[k] = row.Version
	}
	return len(rec.acked)
}

// writeUntilDown updates the actors whose number modulo writers is own, in
// groups, until the store is down.
func writeUntilDown(ctx context.Context, s store.Store, f *fixture, rec *loadRecord, own, writers, actors int, progress chan<- struct{}) {
	var keys []actor.Key
	for i := own; i < actors; i += writers {
		keys = append(keys, f.key(manyID(i)))
	}
	for n := 0; ; n++ {
		rows, err := s.LoadActors(ctx, keys, actor.LoadOptions{})
		if err != nil {
			return
		}
		commits := make([]actor.Commit, len(keys))
		rec.mu.Lock()
		for i, k := range keys {
			commits[i] = write(k, rows[i], fmt.Sprintf(`{"writer":%d,"n":%d,"pad":%q}`, own, n, make([]byte, n%300)))
			if n%2 == 0 {
				commits[i] = recording(commits[i], record(commits[i].ID.String(), fmt.Sprint(n)))
			}
			rec.sent[commits[i].ID] = commits[i]
		}
		rec.mu.Unlock()
		for i, err := range s.Commit(ctx, commits) {
			if err != nil {
				return
			}
			rec.mu.Lock()
			rec.acked[keys[i]] = max(rec.acked[keys[i]], commits[i].Rows[0].NewVersion)
			rec.mu.Unlock()
		}
		select {
		case progress <- struct{}{}:
		default:
		}
	}
}

// readUntilDown loads and lists until the store is down.
func readUntilDown(ctx context.Context, s store.Store, f *fixture, rec *loadRecord, actors int) {
	for i := 0; ; i++ {
		k := f.key(manyID(i % actors))
		rows, err := s.LoadActors(ctx, []actor.Key{k}, actor.LoadOptions{})
		if err != nil {
			return
		}
		rec.saw(k, rows[0].Version)
		infos, _, err := s.ListActors(ctx, store.ActorQuery{App: f.app, Type: "Cart", Limit: 3})
		if err != nil {
			return
		}
		for _, info := range infos {
			rec.saw(info.Key, info.Version)
		}
	}
}

func (r *loadRecord) saw(k actor.Key, version uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[k] = max(r.seen[k], version)
}

func crashDuringUpload(t *testing.T, m Medium) {
	t.Helper()
	f := newFixture(t, nil, "upload")
	for i := range 4 {
		f.s = m.Open(t)
		s := f.s
		wasm := make([]byte, 3<<20+i)
		_, _ = rand.NewChaCha8([32]byte{byte(i)}).Read(wasm)
		module := f.moduleOf(wasm)
		started, done := make(chan struct{}), make(chan error, 1)
		go func() {
			close(started)
			done <- s.PutModule(context.WithoutCancel(t.Context()), module, bytes.NewReader(wasm), 0)
		}()
		<-started
		acked := false
		if i%2 == 0 {
			f.ok(<-done)
			acked = true
		}
		m.Crash(t, s)
		if !acked {
			if err := <-done; err != nil && !isAny(err, actor.ErrUnavailable, actor.ErrAmbiguous) {
				f.Errorf("an upload that was cut off answered %v", err)
			}
		}
		f.s = m.Open(t)
		_, err := f.s.ModuleBytes(f.ctx(), f.app, module.Digest)
		if acked || !errors.Is(err, actor.ErrModuleNotFound) {
			f.ok(err)
		}
		f.ok(f.s.PutModule(f.ctx(), module, bytes.NewReader(wasm), 0))
		f.hasBytes(module, wasm)
		f.ok(f.s.Close())
	}
}
