package sqlstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// PutSetting writes one row. Done twice it is the same, so a lost answer is no
// more than a reason to write again.
func (s *Store) PutSetting(ctx context.Context, set actor.Setting) error {
	if err := store.ValidateSetting(set); err != nil {
		return err
	}
	value := set.Value
	if value == nil {
		value = []byte{}
	}
	return s.read(ctx, "write setting", func(ctx context.Context) error {
		_, err := s.general.Exec(ctx, `INSERT INTO greenroom_setting (app, kind, name, value, updated_at)
			VALUES ($1, $2, $3, $4, clock_timestamp())
			ON CONFLICT (app, kind, name) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at`,
			set.App, string(set.Kind), set.Name, value)
		return err
	})
}

// ReplaceSetting writes one row if it has the value that it is said to have.
func (s *Store) ReplaceSetting(ctx context.Context, set actor.Setting, was []byte) (replaced bool, err error) {
	if err := store.ValidateSetting(set); err != nil {
		return false, err
	}
	value := set.Value
	if value == nil {
		value = []byte{}
	}
	if was == nil {
		was = []byte{}
	}
	err = s.read(ctx, "replace setting", func(ctx context.Context) error {
		tag, err := s.general.Exec(ctx, `UPDATE greenroom_setting SET value = $4, updated_at = clock_timestamp()
			WHERE app = $1 AND kind = $2 AND name = $3 AND value = $5`,
			set.App, string(set.Kind), set.Name, value, was)
		replaced = tag.RowsAffected() > 0
		return err
	})
	return replaced && err == nil, err
}

// DeleteSetting removes one row, if it is there.
func (s *Store) DeleteSetting(ctx context.Context, app string, kind actor.SettingKind, name string) error {
	if err := store.ValidateSetting(actor.Setting{App: app, Kind: kind, Name: name}); err != nil {
		return err
	}
	return s.read(ctx, "delete setting", func(ctx context.Context) error {
		_, err := s.general.Exec(ctx, `DELETE FROM greenroom_setting WHERE app = $1 AND kind = $2 AND name = $3`, app, string(kind), name)
		return err
	})
}

const settingColumns = `app, kind, name, value, updated_at`

func scanSetting(row pgx.CollectableRow) (actor.Setting, error) {
	var v actor.Setting
	var kind string
	err := row.Scan(&v.App, &kind, &v.Name, &v.Value, &v.UpdatedAt)
	v.Kind, v.UpdatedAt = actor.SettingKind(kind), v.UpdatedAt.UTC()
	return v, err
}

// Settings reads the rows of an app.
func (s *Store) Settings(ctx context.Context, app string) ([]actor.Setting, error) {
	if err := actor.ValidateName("app", app); err != nil {
		return nil, err
	}
	var list []actor.Setting
	err := s.read(ctx, "read settings", func(ctx context.Context) error {
		rows, err := s.general.Query(ctx, `SELECT `+settingColumns+` FROM greenroom_setting
			WHERE app = $1 ORDER BY app, kind, name`, app)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, scanSetting)
		return err
	})
	return list, err
}

// SettingApps reads each app once.
func (s *Store) SettingApps(ctx context.Context, after string, limit int) ([]string, error) {
	if err := store.ValidateLimit(limit); err != nil {
		return nil, err
	}
	var apps []string
	err := s.read(ctx, "list apps with settings", func(ctx context.Context) error {
		rows, err := s.general.Query(ctx, `SELECT DISTINCT app FROM greenroom_setting WHERE app > $1 ORDER BY app LIMIT $2`, after, limit)
		if err != nil {
			return err
		}
		apps, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	return apps, err
}
