package modules_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/modules"
)

// manyStore has a module for each of its deployments, which declares its type.
type manyStore struct {
	memStore
	types map[actor.Digest]string
	sizes map[actor.Digest]int64
}

func (s *manyStore) deploy(apps ...string) {
	var ds []actor.Deployment
	s.types = make(map[actor.Digest]string)
	for n, app := range apps {
		d := actor.Deployment{App: app, Type: fmt.Sprint("T", n), Generation: 1, Digest: actor.Digest(fmt.Sprint("module", n))}
		s.types[d.Digest] = d.Type
		ds = append(ds, d)
	}
	s.ds.Store(&ds)
}

func (s *manyStore) Module(_ context.Context, app string, d actor.Digest) (actor.Module, error) {
	return actor.Module{App: app, Digest: d, Size: s.sizes[d], Manifest: module(typ(s.types[d], "", "Do"))}, nil
}

// startService starts a service that prepares modules so; poll is how often it polls, 0 for its default.
func startService(t *testing.T, st *manyStore, poll time.Duration, prepare func(context.Context, string, actor.Digest) error) *modules.Service {
	t.Helper()
	s, err := modules.New(modules.Config{Store: st, Inspector: &inspector{}, PollInterval: poll, Prepare: prepare})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	return s
}

// A start waits for no compiler: every type serves at once, and the modules are
// prepared behind, one at a time. Stop ends the one that is being prepared.
func TestStartWaitsForNoModule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 100
		ctx := context.Background()
		st := &manyStore{}
		st.deploy(make([]string, many)...)
		var s *modules.Service
		ready := make(chan struct{})
		var prepared []actor.Digest // read when nothing runs
		s, err := modules.New(modules.Config{Store: st, Inspector: &inspector{}, Prepare: func(ctx context.Context, _ string, d actor.Digest) error {
			if s.AppsByModule()[d] == nil {
				t.Errorf("%s is prepared, and would be taken out of a cache meanwhile", d)
			}
			select {
			case <-ready:
				prepared = append(prepared, d)
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start(ctx); err != nil {
			t.Fatal(err)
		}
		for n := range many {
			if _, _, err := s.Current("", fmt.Sprint("T", n)); err != nil {
				t.Error(err)
			}
		}
		for n := range 10 {
			ready <- struct{}{}
			if synctest.Wait(); len(prepared) != n+1 {
				t.Fatalf("%d modules were prepared of %d", len(prepared), n+1)
			}
		}
		if err := s.Stop(ctx); err != nil {
			t.Fatal(err)
		}
		if len(prepared) != 10 {
			t.Errorf("%d modules were prepared, also after the stop", len(prepared))
		}
	})
}

// A module that is long in preparing, because another process deployed it, holds up
// its own types alone: they go on with what serves them, and other apps and other
// types change meanwhile.
func TestSlowModuleHoldsUpItselfAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		st := &manyStore{}
		st.deploy("a", "b")
		var mu sync.Mutex
		var slow actor.Digest
		ready := make(chan struct{})
		s := startService(t, st, time.Hour, func(_ context.Context, _ string, d actor.Digest) error {
			mu.Lock()
			wait := d == slow
			mu.Unlock()
			if wait {
				<-ready
			}
			return nil
		})
		defer s.Stop(ctx)
		generation := func(app, typ string) uint64 {
			d, _, err := s.Current(app, typ)
			if err != nil {
				t.Error(err)
			}
			return d.Generation
		}
		st.types["slow"], st.types["fast"] = "T0", "T1"
		mu.Lock()
		slow = "slow"
		mu.Unlock()
		st.ds.Store(&[]actor.Deployment{{App: "a", Type: "T0", Generation: 2, Digest: "slow"}})
		waits := make(chan error, 1)
		go func() { waits <- s.Refresh(ctx, "a") }()
		synctest.Wait()
		st.ds.Store(&[]actor.Deployment{{App: "b", Type: "T1", Generation: 2, Digest: "fast"}, {App: "b", Type: "T0", Generation: 1, Digest: "module0"}})
		st.types["module0"] = "T0"
		if err := s.Refresh(ctx, "b"); err != nil {
			t.Fatal(err)
		}
		if got := [3]uint64{generation("a", "T0"), generation("b", "T1"), generation("b", "T0")}; got != [3]uint64{1, 2, 1} {
			t.Errorf("while one module is prepared, the generations are %d", got)
		}
		close(ready)
		if err := <-waits; err != nil {
			t.Error(err)
		}
		if got := generation("a", "T0"); got != 2 {
			t.Errorf("then generation %d", got)
		}
	})
}

// Apps take turns, so that the heavy modules of one delay another's by one of them, and of one
// app light modules go first.
func TestModulesArePreparedLightestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		st := &manyStore{sizes: map[actor.Digest]int64{}}
		apps := append(slices.Repeat([]string{"loud"}, 5), "quiet", "quiet", "loud")
		st.deploy(apps...)
		for n, size := range []int64{900, 900, 900, 900, 900, 100, 800, 10} {
			st.sizes[actor.Digest(fmt.Sprint("module", n))] = size
		}
		var prepared []actor.Digest // read when nothing runs
		s := startService(t, st, 0, func(_ context.Context, _ string, d actor.Digest) error {
			prepared = append(prepared, d)
			return nil
		})
		if s.Prepared() {
			t.Error("everything is prepared before anything was")
		}
		synctest.Wait()
		if !s.Prepared() || len(prepared) != len(apps) {
			t.Fatalf("%d of %d modules were prepared", len(prepared), len(apps))
		}
		if prepared[0] != "module7" || prepared[1] != "module5" || slices.Index(prepared, "module6") > 3 {
			t.Errorf("prepared in the order %v; 7 and 5 are the lightest, and 6 is the other app's", prepared)
		}
		if err := s.Stop(ctx); err != nil {
			t.Fatal(err)
		}
	})
}

// A module that another process deployed, and that is long in preparing, holds up its own app
// alone: the poll goes on for the others.
func TestPollGoesOnBesideAHeavyModule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		st := &manyStore{}
		st.deploy("heavy", "light")
		ready := make(chan struct{})
		s := startService(t, st, time.Second, func(ctx context.Context, app string, d actor.Digest) error {
			if app == "heavy" && d == "new0" {
				select {
				case <-ready:
				case <-ctx.Done():
				}
			}
			return nil
		})
		st.types["new0"], st.types["new1"], st.types["newer1"] = "T0", "T1", "T1"
		deploy := func(generation uint64, light actor.Digest) {
			st.ds.Store(&[]actor.Deployment{{App: "heavy", Type: "T0", Generation: 2, Digest: "new0"}, {App: "light", Type: "T1", Generation: generation, Digest: light}})
			<-time.After(time.Second) // of the bubble: a poll
			synctest.Wait()
		}
		generations := func() (got [2]uint64) {
			for n, app := range []string{"heavy", "light"} {
				d, _, err := s.Current(app, fmt.Sprint("T", n))
				if err != nil {
					t.Error(err)
				}
				got[n] = d.Generation
			}
			return got
		}
		deploy(2, "new1")
		deploy(3, "newer1")
		if got := generations(); got != [2]uint64{1, 3} {
			t.Errorf("beside the heavy module, the generations are %d", got)
		}
		close(ready)
		synctest.Wait()
		if got := generations(); got != [2]uint64{2, 3} {
			t.Errorf("once it is prepared, the generations are %d", got)
		}
		if err := s.Stop(ctx); err != nil {
			t.Fatal(err)
		}
	})
}

// What is prepared ahead has the share of an upload, and what is about to serve more.
func TestPreparingAheadIsNoMoreUrgentThanUploads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		st := &manyStore{}
		st.deploy("shop")
		var owners []engine.Owner // read when nothing runs
		s := startService(t, st, time.Hour, func(ctx context.Context, _ string, d actor.Digest) error {
			owners = append(owners, engine.OwnerOf(ctx))
			return nil
		})
		synctest.Wait()
		st.types["new"] = "T0"
		st.ds.Store(&[]actor.Deployment{{App: "shop", Type: "T0", Generation: 2, Digest: "new"}})
		if err := s.Refresh(ctx, "shop"); err != nil {
			t.Fatal(err)
		}
		if want := []engine.Owner{{App: "shop"}, {App: "shop", Serving: true}}; !slices.Equal(owners, want) {
			t.Errorf("got %+v, want %+v", owners, want)
		}
		if err := s.Stop(ctx); err != nil {
			t.Fatal(err)
		}
	})
}

// A server that was ready once stays ready while a module is prepared that is deployed later.
func TestLaterDeploysMakeNoServerUnready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		st := &manyStore{}
		st.deploy("a")
		ready := make(chan struct{})
		s := startService(t, st, 0, func(_ context.Context, _ string, d actor.Digest) error {
			if d == "slow" {
				<-ready
			}
			return nil
		})
		synctest.Wait()
		if !s.Prepared() {
			t.Fatal("what was deployed at the start is not prepared")
		}
		st.types["slow"] = "T1"
		st.ds.Store(&[]actor.Deployment{
			{App: "a", Type: "T0", Generation: 1, Digest: "module0"}, {App: "a", Type: "T1", Generation: 1, Digest: "slow"},
		})
		if err := s.Refresh(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !s.Prepared() {
			t.Error("a later deployment makes the server unready")
		}
		close(ready)
		if err := s.Stop(ctx); err != nil {
			t.Fatal(err)
		}
	})
}
