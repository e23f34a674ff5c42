package storetest

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

var contexts = suite{"Context", []testCase{
	{"a call with an ended context does nothing", func(f *fixture) {
		row := f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`))
		ended, cancel := context.WithCancel(f.ctx())
		cancel()
		_, err := f.s.LoadActors(ended, []actor.Key{f.key("a")}, actor.LoadOptions{})
		f.is(err, context.Canceled)
		for _, err := range f.s.Commit(ended, []actor.Commit{write(f.key("a"), row, `{"n":2}`), write(f.key("b"), actor.Row{}, `{}`)}) {
			f.is(err, context.Canceled)
		}
		_, err = f.s.LockedTurn(ended, f.key("a"), func(_ context.Context, row actor.Row) (*actor.Commit, error) {
			c := write(f.key("a"), row, `{"n":3}`)
			return &c, nil
		})
		f.is(err, context.Canceled)
		f.is(f.s.Settle(ended, write(f.key("a"), row, `{"n":4}`)), context.Canceled)
		_, _, err = f.s.ListActors(ended, store.ActorQuery{App: f.app, Type: "Cart", Limit: 1})
		f.is(err, context.Canceled)
		_, _, err = f.s.ScanActors(ended, store.ActorScan{App: f.app, Type: "Cart", Limit: 1}, visitAll)
		f.is(err, context.Canceled)
		_, err = f.s.SweepTombstones(ended, time.Now(), 1)
		f.is(err, context.Canceled)
		_, err = f.s.LoadIdempotency(ended, []actor.KeyedCall{{Actor: f.key("a"), Method: "Add", Key: "k"}})
		f.is(err, context.Canceled)
		_, err = f.s.Versions(ended, []actor.Key{f.key("a")})
		f.is(err, context.Canceled)
		_, err = f.s.SweepIdempotency(ended, 1)
		f.is(err, context.Canceled)
		m, wasm := f.module("x")
		f.is(f.s.PutModule(ended, m, bytes.NewReader(wasm), 0), context.Canceled)
		f.same(f.load(f.key("a")), row)
		f.same(f.load(f.key("b")), actor.Row{})
		_, err = f.s.Module(f.ctx(), f.app, m.Digest)
		f.is(err, actor.ErrModuleNotFound)
	}},
	{"a context that ends during a locked turn ends it without a trace", func(f *fixture) {
		row := f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`))
		ctx, cancel := context.WithCancel(f.ctx())
		defer cancel()
		_, err := f.s.LockedTurn(ctx, f.key("a"), func(_ context.Context, row actor.Row) (*actor.Commit, error) {
			cancel()
			c := write(f.key("a"), row, `{"n":2}`)
			return &c, nil
		})
		f.is(err, context.Canceled)
		f.same(f.load(f.key("a")), row)
		f.ok(f.increment(f.key("a")))
	}},
	{"an ending context ends the wait for a locked turn", func(f *fixture) {
		holding, release := make(chan struct{}), make(chan struct{})
		hold := sync.OnceFunc(func() { close(holding) }) // the turn may run again
		f.together(
			func() {
				defer hold() // also if it never ran
				_, err := f.s.LockedTurn(f.ctx(), f.key("a"), func(_ context.Context, row actor.Row) (*actor.Commit, error) {
					hold()
					<-release
					c := write(f.key("a"), row, `{"n":1}`)
					return &c, nil
				})
				if err != nil {
					f.Error(err)
				}
			},
			func() {
				defer close(release)
				<-holding
				ctx, cancel := context.WithTimeout(f.ctx(), 50*time.Millisecond)
				defer cancel()
				_, err := f.s.LockedTurn(ctx, f.key("a"), func(context.Context, actor.Row) (*actor.Commit, error) {
					f.Error("the second turn ran while the first held the lock")
					return nil, nil
				})
				if !errors.Is(err, context.DeadlineExceeded) {
					f.Errorf("error is %v, want %v", err, context.DeadlineExceeded)
				}
			},
		)
		if f.load(f.key("a")).Version == 0 {
			f.Fatal("the first turn is missing")
		}
	}},
	{"commits whose context ends any time are whole, and their answers honest", func(f *fixture) {
		// The deadlines sweep over the life of a commit; none of them is waited for.
		for i := range 60 {
			ctx, cancel := context.WithTimeout(f.ctx(), time.Duration(i)*50*time.Microsecond)
			commits := []actor.Commit{write(f.key(manyID(2*i)), actor.Row{}, `{}`), write(f.key(manyID(2*i+1)), actor.Row{}, `{}`)}
			errs := f.s.Commit(ctx, commits)
			cancel()
			for j, c := range commits {
				verdict := f.s.Settle(f.ctx(), c)
				switch {
				case errs[j] == nil:
					f.ok(verdict)
				case errors.Is(errs[j], actor.ErrAmbiguous):
					if verdict != nil {
						f.is(verdict, actor.ErrStale)
					}
				default:
					if verdict == nil {
						f.Fatalf("a commit was answered %v and applied", errs[j])
					}
				}
			}
		}
	}},
}}

var health = suite{"Health", []testCase{
	{"an open store is healthy, has a name and a time", func(f *fixture) {
		f.ok(f.s.Check(f.ctx()))
		if f.s.Name() == "" {
			f.Fatal("no name")
		}
		if now := f.now(); now.Year() < 2000 || f.now().Before(now) {
			f.Fatalf("time is %v", now)
		}
	}},
}}

// closed checks what a closed store answers.
func closed(t *testing.T, s store.Store) {
	t.Helper()
	f := newFixture(t, s, "closed")
	row := f.apply(write(f.key("a"), actor.Row{}, `{}`))
	m, wasm := f.module("x")
	f.ok(s.PutModule(f.ctx(), m, bytes.NewReader(wasm), 0))
	f.ok(s.Close())
	f.ok(s.Close())
	ctx, key := f.ctx(), f.key("a")
	calls := map[string]func() error{
		"LoadActors": func() error { _, err := s.LoadActors(ctx, []actor.Key{key}, actor.LoadOptions{}); return err },
		"Commit":     func() error { return s.Commit(ctx, []actor.Commit{touch(key, row)})[0] },
		"LockedTurn": func() error {
			_, err := s.LockedTurn(ctx, key, func(context.Context, actor.Row) (*actor.Commit, error) {
				t.Error("a turn ran on a closed store")
				return nil, nil
			})
			return err
		},
		"Settle": func() error { return s.Settle(ctx, touch(key, row)) },
		"ListActors": func() error {
			_, _, err := s.ListActors(ctx, store.ActorQuery{App: key.App, Type: key.Type, Limit: 1})
			return err
		},
		"ScanActors": func() error {
			_, _, err := s.ScanActors(ctx, store.ActorScan{App: key.App, Type: key.Type, Limit: 1}, visitAll)
			return err
		},
		"LoadIdempotency": func() error {
			_, err := s.LoadIdempotency(ctx, []actor.KeyedCall{{Actor: key, Method: "Add", Key: "k"}})
			return err
		},
		"Versions":          func() error { _, err := s.Versions(ctx, []actor.Key{key}); return err },
		"SweepIdempotency":  func() error { _, err := s.SweepIdempotency(ctx, 1); return err },
		"SweepTombstones":   func() error { _, err := s.SweepTombstones(ctx, time.Now(), 1); return err },
		"PutModule":         func() error { return s.PutModule(ctx, m, bytes.NewReader(wasm), 0) },
		"Module":            func() error { _, err := s.Module(ctx, m.App, m.Digest); return err },
		"ModuleBytes":       func() error { _, err := s.ModuleBytes(ctx, m.App, m.Digest); return err },
		"ListModules":       func() error { _, err := s.ListModules(ctx, m.App, "", 1); return err },
		"DeleteModule":      func() error { return s.DeleteModule(ctx, m.App, m.Digest) },
		"Deploy":            func() error { return s.Deploy(ctx, []actor.Deployment{f.deployment("Cart", 1, m)}, store.AnyRevision) },
		"Deployments":       func() error { _, err := s.Deployments(ctx, m.App); return err },
		"DeploymentHistory": func() error { _, err := s.DeploymentHistory(ctx, m.App, "Cart", 0, 1); return err },
		"ListApps":          func() error { _, err := s.ListApps(ctx, "", 1); return err },
		"PutSetting": func() error {
			return s.PutSetting(ctx, actor.Setting{App: m.App, Kind: actor.SettingConfig, Name: "a"})
		},
		"ReplaceSetting": func() error {
			_, err := s.ReplaceSetting(ctx, actor.Setting{App: m.App, Kind: actor.SettingConfig, Name: "a"}, nil)
			return err
		},
		"SettingApps":   func() error { _, err := s.SettingApps(ctx, "", 1); return err },
		"DeleteSetting": func() error { return s.DeleteSetting(ctx, m.App, actor.SettingConfig, "a") },
		"Settings":      func() error { _, err := s.Settings(ctx, m.App); return err },
		"Now":           func() error { _, err := s.Now(ctx); return err },
		"Check":         func() error { return s.Check(ctx) },
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			if err := call(); !errors.Is(err, actor.ErrUnavailable) {
				t.Errorf("error is %v, want %v", err, actor.ErrUnavailable)
			}
		})
	}
}
