package storetest

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/greenroom-run/greenroom/actor"
)

var lockedTurns = suite{"LockedTurn", []testCase{
	{"a turn makes, changes and deletes an actor", func(f *fixture) {
		var c actor.Commit
		turn := func(next func(row actor.Row) actor.Commit) {
			f.Helper()
			got, err := f.s.LockedTurn(f.ctx(), f.key("a"), func(_ context.Context, row actor.Row) (*actor.Commit, error) {
				c = next(row)
				return &c, nil
			})
			f.ok(err)
			if got == nil || got.ID != c.ID {
				f.Fatalf("LockedTurn returned %v, want the commit that applied", got)
			}
		}
		turn(func(row actor.Row) actor.Commit {
			if !sameRow(row, actor.Row{}) {
				f.Errorf("the first turn saw %s", describe(row))
			}
			return write(f.key("a"), row, `{"n":1}`)
		})
		first := f.load(f.key("a"))
		f.wrote(first, c, `{"n":1}`)
		turn(func(row actor.Row) actor.Commit {
			if !sameRow(row, first) {
				f.Errorf("the second turn saw %s", describe(row))
			}
			return write(f.key("a"), row, `{"n":2}`)
		})
		f.wrote(f.load(f.key("a")), c, `{"n":2}`)
		turn(func(row actor.Row) actor.Commit { return remove(f.key("a"), row) })
		tomb := f.load(f.key("a"))
		f.wrote(tomb, c, "")
		turn(func(row actor.Row) actor.Commit {
			if !sameRow(row, tomb) {
				f.Errorf("the turn after the delete saw %s", describe(row))
			}
			return write(f.key("a"), row, `{"n":3}`)
		})
		f.wrote(f.load(f.key("a")), c, `{"n":3}`)
		f.ok(f.s.Settle(f.ctx(), c))
	}},
	{"a turn that commits nothing changes nothing", func(f *fixture) {
		nothing := func(context.Context, actor.Row) (*actor.Commit, error) { return nil, nil }
		for _, want := range []actor.Row{{}, f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`))} {
			k := f.key("a")
			if want.Version == 0 {
				k = f.key("nobody")
			}
			c, err := f.s.LockedTurn(f.ctx(), k, nothing)
			f.ok(err)
			if c != nil {
				f.Fatalf("LockedTurn returned %v for nothing", c)
			}
			f.same(f.load(k), want)
		}
		// Nothing holds the actor afterwards.
		f.apply(write(f.key("nobody"), actor.Row{}, `{}`))
	}},
	{"a read that may be stale, and one beside locks, do not wait for a turn", func(f *fixture) {
		row := f.apply(write(f.key("live"), actor.Row{}, `{"n":1}`))
		for _, k := range []actor.Key{f.key("live"), f.key("none")} {
			var c actor.Commit
			newest := f.load(k)
			_, err := f.s.LockedTurn(f.ctx(), k, func(ctx context.Context, held actor.Row) (*actor.Commit, error) {
				// Whatever it shows was committed: the row as it is, or none yet.
				rows, err := f.s.LoadActors(ctx, []actor.Key{k}, actor.LoadOptions{AllowStale: true})
				if err != nil {
					return nil, err
				}
				if rows[0].Version != 0 && (k.ID == "none" || !sameRow(rows[0], row)) {
					f.Errorf("a read beside a turn shows %s", describe(rows[0]))
				}
				rows, err = f.s.LoadActors(ctx, []actor.Key{k}, actor.LoadOptions{BesideLocks: true})
				if err != nil {
					return nil, err
				}
				f.same(rows[0], newest)
				c = write(k, held, `{"n":2}`)
				return &c, nil
			})
			f.ok(err)
			f.wrote(f.load(k), c, `{"n":2}`)
		}
	}},
	{"an error of the turn leaves no trace", func(f *fixture) {
		row := f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`))
		boom := errors.New("boom")
		for _, k := range []actor.Key{f.key("a"), f.key("nobody")} {
			calls := 0
			c, err := f.s.LockedTurn(f.ctx(), k, func(_ context.Context, row actor.Row) (*actor.Commit, error) {
				calls++
				c := write(k, row, `{"n":2}`)
				return &c, boom
			})
			f.is(err, boom)
			if c != nil || calls != 1 {
				f.Fatalf("LockedTurn returned %v after %d calls", c, calls)
			}
		}
		f.same(f.load(f.key("a")), row)
		f.same(f.load(f.key("nobody")), actor.Row{})
		f.apply(write(f.key("nobody"), actor.Row{}, `{}`))
	}},
	{"a panic of the turn leaves no trace and no lock", func(f *fixture) {
		row := f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`))
		func() {
			defer func() {
				if recover() == nil {
					f.Error("the panic did not reach the caller")
				}
			}()
			_, _ = f.s.LockedTurn(f.ctx(), f.key("a"), func(context.Context, actor.Row) (*actor.Commit, error) { panic("boom") })
		}()
		f.same(f.load(f.key("a")), row)
		f.ok(f.increment(f.key("a")))
	}},
	{"turns of one actor are serial and lose nothing", func(f *fixture) {
		const goroutines, each = 8, 20
		f.inParallel(goroutines, func(int) error {
			for range each {
				_, err := f.s.LockedTurn(f.ctx(), f.key("a"), func(_ context.Context, row actor.Row) (*actor.Commit, error) {
					c := counted(f.key("a"), row, count(row)+1)
					return &c, nil
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
		f.counts(f.key("a"), goroutines*each)
	}},
	{"turns of different actors do not wait for each other", func(f *fixture) {
		_, err := f.s.LockedTurn(f.ctx(), f.key("a"), func(ctx context.Context, row actor.Row) (*actor.Commit, error) {
			_, err := f.s.LockedTurn(ctx, f.key("b"), func(_ context.Context, row actor.Row) (*actor.Commit, error) {
				c := write(f.key("b"), row, `{}`)
				return &c, nil
			})
			if err != nil {
				return nil, err
			}
			c := write(f.key("a"), row, `{}`)
			return &c, nil
		})
		f.ok(err)
		if f.load(f.key("a")).Version == 0 || f.load(f.key("b")).Version == 0 {
			f.Fatal("a turn is missing")
		}
	}},
	{"locked turns against plain commits lose nothing", func(f *fixture) {
		const goroutines, each = 6, 15
		var refused atomic.Int64
		f.inParallel(goroutines, func(i int) error {
			for n := 0; n < each; {
				var err error
				if i%2 == 0 {
					err = f.increment(f.key("a"))
				} else {
					_, err = f.s.LockedTurn(f.ctx(), f.key("a"), func(_ context.Context, row actor.Row) (*actor.Commit, error) {
						c := counted(f.key("a"), row, count(row)+1)
						return &c, nil
					})
				}
				switch {
				case err == nil:
					n++
				case errors.Is(err, actor.ErrStale):
					refused.Add(1)
				default:
					return err
				}
			}
			return nil
		})
		f.counts(f.key("a"), goroutines*each)
		f.Logf("%d refused and tried again", refused.Load())
	}},
	{"a commit waits for the turn that holds its row, and those of its group do not", func(f *fixture) {
		row := f.apply(write(f.key("a"), actor.Row{}, `{}`))
		answers := make(chan []error, 1)
		_, err := f.s.LockedTurn(f.ctx(), f.key("a"), func(context.Context, actor.Row) (*actor.Commit, error) {
			go func() {
				answers <- f.s.Commit(f.ctx(), []actor.Commit{touch(f.key("a"), row), write(f.key("b"), actor.Row{}, `{}`)})
			}()
			for f.load(f.key("b")).Version == 0 {
				f.ok(f.ctx().Err())
			}
			return nil, nil
		})
		f.ok(err)
		for _, err := range <-answers {
			f.ok(err)
		}
	}},
	{"an invalid key is refused", func(f *fixture) {
		_, err := f.s.LockedTurn(f.ctx(), f.key(""), func(context.Context, actor.Row) (*actor.Commit, error) {
			f.Error("the turn ran")
			return nil, nil
		})
		f.argument(err)
	}},
}}
