package sqlstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// settings keeps the settings of apps.
type settings struct{ *db }

// PutSetting writes one row. Done twice it is the same, so a lost answer is no
// more than a reason to write again.
func (s *settings) PutSetting(ctx context.Context, set actor.Setting) error {
	if err := store.ValidateSetting(set); err != nil {
		return err
	}
	_, err := s.execFor(ctx, share(set.App), "write setting", `INSERT INTO greenroom_setting (app, kind, name, value, updated_at)
		VALUES ($1, $2, $3, $4, clock_timestamp())
		ON CONFLICT (app, kind, name) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at`,
		set.App, string(set.Kind), set.Name, notNull(set.Value))
	return err
}

// ReplaceSetting writes one row if it has the value that it is said to have.
func (s *settings) ReplaceSetting(ctx context.Context, set actor.Setting, was []byte) (replaced bool, err error) {
	if err := store.ValidateSetting(set); err != nil {
		return false, err
	}
	changed, err := s.execFor(ctx, share(set.App), "replace setting", `UPDATE greenroom_setting SET value = $4, updated_at = clock_timestamp()
		WHERE app = $1 AND kind = $2 AND name = $3 AND value = $5`,
		set.App, string(set.Kind), set.Name, notNull(set.Value), notNull(was))
	return changed > 0 && err == nil, err
}

// DeleteSetting removes one row, if it is there.
func (s *settings) DeleteSetting(ctx context.Context, app string, kind actor.SettingKind, name string) error {
	if err := store.ValidateSetting(actor.Setting{App: app, Kind: kind, Name: name}); err != nil {
		return err
	}
	_, err := s.execFor(ctx, share(app), "delete setting", `DELETE FROM greenroom_setting WHERE app = $1 AND kind = $2 AND name = $3`, app, string(kind), name)
	return err
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
func (s *settings) Settings(ctx context.Context, app string) ([]actor.Setting, error) {
	if err := actor.ValidateName("app", app); err != nil {
		return nil, err
	}
	return query(ctx, s.db, share(app), "read settings", scanSetting, `SELECT `+settingColumns+` FROM greenroom_setting
		WHERE app = $1 ORDER BY app, kind, name`, app)
}

// SettingApps reads each app once.
func (s *settings) SettingApps(ctx context.Context, after string, limit int) ([]string, error) {
	if err := store.ValidateLimit(limit); err != nil {
		return nil, err
	}
	return query(ctx, s.db, listsOfApps, "list apps with settings", pgx.RowTo[string],
		`SELECT DISTINCT app FROM greenroom_setting WHERE app > $1 ORDER BY app LIMIT $2`, after, limit)
}
