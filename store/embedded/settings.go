package embedded

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// settings keeps the settings of apps.
type settings struct{ *writer }

// settingRecord is a setting as it is stored.
type settingRecord struct {
	Value     []byte `json:"value"`
	UpdatedAt int64  `json:"updated_at"` // microseconds since 1970
}

func (s *settings) PutSetting(ctx context.Context, set actor.Setting) error {
	if err := store.ValidateSetting(set); err != nil {
		return err
	}
	key := settingKey(set.App, set.Kind, set.Name)
	return s.update(ctx, writeOptions{}, func(tx *tx) error {
		return tx.setRecord(key, settingRecord{Value: set.Value, UpdatedAt: tx.now})
	})
}

func (s *settings) ReplaceSetting(ctx context.Context, set actor.Setting, was []byte) (replaced bool, err error) {
	if err := store.ValidateSetting(set); err != nil {
		return false, err
	}
	key := settingKey(set.App, set.Kind, set.Name)
	err = s.update(ctx, writeOptions{}, func(tx *tx) error {
		value, err := tx.get(key)
		if err != nil {
			return unavailable(err)
		}
		if value == nil {
			return nil
		}
		var there settingRecord
		if err := decodeRecord(key, value, &there); err != nil {
			return err
		}
		if !bytes.Equal(there.Value, was) {
			return nil
		}
		replaced = true
		return tx.setRecord(key, settingRecord{Value: set.Value, UpdatedAt: tx.now})
	})
	return replaced && err == nil, err
}

func (s *settings) DeleteSetting(ctx context.Context, app string, kind actor.SettingKind, name string) error {
	if err := store.ValidateSetting(actor.Setting{App: app, Kind: kind, Name: name}); err != nil {
		return err
	}
	key := settingKey(app, kind, name)
	return s.update(ctx, writeOptions{}, func(tx *tx) error {
		if value, err := tx.get(key); err != nil {
			return unavailable(err)
		} else if value != nil {
			tx.delete(key)
		}
		return nil
	})
}

func (s *settings) Settings(ctx context.Context, app string) ([]actor.Setting, error) {
	if err := actor.ValidateName("app", app); err != nil {
		return nil, err
	}
	prefix := settingPrefix(app)
	var list []actor.Setting
	err := s.list(ctx, prefix, prefixEnd(prefix), func(key, value []byte) (more bool, err error) {
		kind, name, ok := strings.Cut(string(key[len(prefix):]), "\x00")
		if !ok {
			return false, fmt.Errorf("entry %q of the settings is damaged", key)
		}
		var r settingRecord
		if err := decodeRecord(key, value, &r); err != nil {
			return false, err
		}
		list = append(list, actor.Setting{
			App: app, Kind: actor.SettingKind(kind), Name: name, Value: r.Value, UpdatedAt: time.UnixMicro(r.UpdatedAt).UTC(),
		})
		return true, nil
	})
	return list, err
}

func (s *settings) SettingApps(ctx context.Context, after string, limit int) ([]string, error) {
	if err := store.ValidateLimit(limit); err != nil {
		return nil, err
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	f := s.syncs.latest.Load()
	from := []byte(settingSpace)
	it, err := s.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: from, UpperBound: prefixEnd(from)})
	if err != nil {
		return nil, unavailable(err)
	}
	if after != "" {
		from = prefixEnd(settingPrefix(after))
	}
	var apps []string
	for ok := it.SeekGE(from); ok && len(apps) < limit; ok = it.SeekGE(from) {
		app, _, _ := strings.Cut(string(it.Key()[len(settingSpace):]), "\x00")
		apps = append(apps, app)
		from = prefixEnd(settingPrefix(app))
	}
	if err := it.Close(); err != nil {
		return nil, unavailable(err)
	}
	return apps, s.await(ctx, f)
}
