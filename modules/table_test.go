package modules_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/modules"
)

func TestRefreshSeesOtherProcesses(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t)
	other := f.service(time.Hour)
	d := f.upload(typ("A", "", "Do"))
	f.deploy(d)
	if _, _, err := other.Current(app, "A"); !errors.Is(err, actor.ErrTypeNotFound) {
		t.Errorf("before refresh: %v", err)
	}
	if err := other.Refresh(ctx, app); err != nil {
		t.Fatal(err)
	}
	if got, _, err := other.Current(app, "A"); err != nil || got != f.serving("A") {
		t.Errorf("after refresh: %+v, %v", got, err)
	}
	if got, _, err := f.service(time.Hour).Current(app, "A"); err != nil || got.Digest != d {
		t.Errorf("a new process: %+v, %v", got, err)
	}
}

// memStore is the little of a store that the poll needs; it takes no locks, so
// that synctest's clock moves.
type memStore struct {
	faulty
	ds   atomic.Pointer[[]actor.Deployment]
	fail atomic.Bool
}

func (s *memStore) Deployments(context.Context, string) ([]actor.Deployment, error) {
	if s.fail.Load() {
		return nil, actor.ErrUnavailable
	}
	if ds := s.ds.Load(); ds != nil {
		return *ds, nil
	}
	return nil, nil
}

func (s *memStore) Module(_ context.Context, app string, d actor.Digest) (actor.Module, error) {
	return actor.Module{App: app, Digest: d, Manifest: module(typ("A", "", "Do"))}, nil
}

func TestPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &memStore{}
		s, err := modules.New(modules.Config{Store: st, Inspector: &inspector{}, PollInterval: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Stop(context.Background()); err != nil {
			t.Errorf("stop before start: %v", err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		if err := errors.Join(s.Start(ctx), s.Start(ctx)); err != nil {
			t.Fatal(err)
		}
		cancel() // of Start alone
		generation := func() uint64 {
			d, _, _ := s.Current(app, "A")
			return d.Generation
		}
		step := func(g uint64) {
			st.ds.Store(&[]actor.Deployment{{App: app, Type: "A", Generation: g, Digest: "d"}})
			<-time.After(5 * time.Second) // of synctest's clock
			synctest.Wait()
		}
		if step(1); generation() != 1 {
			t.Errorf("generation %d", generation())
		}
		st.fail.Store(true)
		if step(2); generation() != 1 {
			t.Errorf("generation %d while the store is away", generation())
		}
		st.fail.Store(false)
		if step(3); generation() != 3 {
			t.Errorf("generation %d", generation())
		}
		if step(2); generation() != 3 {
			t.Errorf("the generation went back to %d", generation())
		}
		if err := errors.Join(s.Stop(ctx), s.Stop(ctx)); err != nil {
			t.Error(err)
		}
		if step(4); generation() != 3 {
			t.Errorf("polled after stop: %d", generation())
		}
	})
}

// Whoever calls Refresh sees what was stored before the call, though reads that
// began earlier are still on their way; and many callers share few reads.
func TestRefreshBeginsAfterTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		st := &slowStore{hold: make(chan struct{})}
		s, err := modules.New(modules.Config{Store: st, Inspector: &inspector{}})
		if err != nil {
			t.Fatal(err)
		}
		early := make(chan error)
		go func() { early <- s.Refresh(ctx, app) }()
		synctest.Wait() // its read has seen the store as it was
		st.ds.Store(&[]actor.Deployment{{App: app, Type: "A", Generation: 1, Digest: "d"}})
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if err := s.Refresh(ctx, app); err != nil {
					t.Error(err)
				}
				if _, _, err := s.Current(app, "A"); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		close(st.hold)
		if err := <-early; err != nil {
			t.Error(err)
		}
		wg.Wait()
		if n := st.reads.Load(); n != 2 {
			t.Errorf("%d reads for 101 callers", n)
		}
	})
}

// slowStore answers its reads late, with what was there when they came.
type slowStore struct {
	memStore
	hold  chan struct{}
	reads atomic.Int32
}

func (s *slowStore) Deployments(ctx context.Context, app string) ([]actor.Deployment, error) {
	s.reads.Add(1)
	ds, err := s.memStore.Deployments(ctx, app)
	<-s.hold
	return ds, err
}

func TestConfig(t *testing.T) {
	st := &memStore{}
	for name, cfg := range map[string]modules.Config{
		"Store":          {Inspector: &inspector{}},
		"Inspector":      {Store: st},
		"MaxStoredBytes": {Store: st, Inspector: &inspector{}, MaxStoredBytes: -1},
		"MaxBytes":       {Store: st, Inspector: &inspector{}, MaxBytes: -1},
		"PollInterval":   {Store: st, Inspector: &inspector{}, PollInterval: -1},
	} {
		if _, err := modules.New(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	st.fail.Store(true)
	s, err := modules.New(modules.Config{Store: st, Inspector: &inspector{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(context.Background()); !errors.Is(err, actor.ErrUnavailable) {
		t.Errorf("start without a store: %v", err)
	}
}
