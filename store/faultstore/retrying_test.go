package faultstore_test

import (
	"context"
	"errors"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// retrying is a client that tries again what is unavailable, as every caller
// may. A closed store stays unavailable, so it ends.
type retrying struct{ store.Store }

const tries = 40

func retry(do func() error) error {
	var err error
	for range tries {
		if err = do(); !errors.Is(err, actor.ErrUnavailable) {
			return err
		}
	}
	return err
}

func (r retrying) LoadActors(ctx context.Context, keys []actor.Key, opts actor.LoadOptions) (rows []actor.Row, err error) {
	err = retry(func() error {
		rows, err = r.Store.LoadActors(ctx, keys, opts)
		return err
	})
	return rows, err
}

func (r retrying) Versions(ctx context.Context, keys []actor.Key) (versions []actor.RowVersion, err error) {
	err = retry(func() error {
		versions, err = r.Store.Versions(ctx, keys)
		return err
	})
	return versions, err
}

// Commit sends those commits of a group again that were unavailable.
func (r retrying) Commit(ctx context.Context, commits []actor.Commit) []error {
	errs := make([]error, len(commits))
	again := make([]int, len(commits))
	for i := range again {
		again[i] = i
	}
	for range tries {
		if len(again) == 0 {
			break
		}
		var group []actor.Commit
		for _, i := range again {
			group = append(group, commits[i])
		}
		var next []int
		for j, err := range r.Store.Commit(ctx, group) {
			errs[again[j]] = err
			if errors.Is(err, actor.ErrUnavailable) {
				next = append(next, again[j])
			}
		}
		again = next
	}
	return errs
}

func (r retrying) LockedTurn(ctx context.Context, key actor.Key, fn func(ctx context.Context, row actor.Row) (*actor.Commit, error)) (c *actor.Commit, err error) {
	err = retry(func() error {
		c, err = r.Store.LockedTurn(ctx, key, fn)
		return err
	})
	return c, err
}

func (r retrying) Settle(ctx context.Context, c actor.Commit) error {
	return retry(func() error { return r.Store.Settle(ctx, c) })
}

func (r retrying) PutModule(ctx context.Context, m actor.Module, wasm []byte) error {
	return retry(func() error { return r.Store.PutModule(ctx, m, wasm) })
}

func (r retrying) DeleteModule(ctx context.Context, app string, d actor.Digest) error {
	return retry(func() error { return r.Store.DeleteModule(ctx, app, d) })
}

func (r retrying) Deploy(ctx context.Context, ds []actor.Deployment) error {
	return retry(func() error { return r.Store.Deploy(ctx, ds) })
}

func (r retrying) PutSetting(ctx context.Context, set actor.Setting) error {
	return retry(func() error { return r.Store.PutSetting(ctx, set) })
}

func (r retrying) ReplaceSetting(ctx context.Context, set actor.Setting, was []byte) (replaced bool, err error) {
	err = retry(func() error {
		replaced, err = r.Store.ReplaceSetting(ctx, set, was)
		return err
	})
	return replaced, err
}

func (r retrying) SettingApps(ctx context.Context, after string, limit int) (apps []string, err error) {
	err = retry(func() error {
		apps, err = r.Store.SettingApps(ctx, after, limit)
		return err
	})
	return apps, err
}

func (r retrying) DeleteSetting(ctx context.Context, app string, kind actor.SettingKind, name string) error {
	return retry(func() error { return r.Store.DeleteSetting(ctx, app, kind, name) })
}

func (r retrying) Settings(ctx context.Context, app string) (list []actor.Setting, err error) {
	err = retry(func() error {
		list, err = r.Store.Settings(ctx, app)
		return err
	})
	return list, err
}
