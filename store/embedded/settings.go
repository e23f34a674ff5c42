package embedded

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// settingRecord is a setting as it is stored.
type settingRecord struct {
	Value     []byte `json:"value"`
	UpdatedAt int64  `json:"updated_at"` // microseconds since 1970
}

// PutSetting implements [store.Settings].
func (s *Store) PutSetting(ctx context.Context, set actor.Setting) error {
	if err := store.ValidateSetting(set); err != nil {
		return err
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	key := settingKey(set.App, set.Kind, set.Name)
	return s.write(ctx, writeOptions{}, func(tx *tx) error {
		record, err := encodeRecord(key, settingRecord{Value: set.Value, UpdatedAt: tx.now})
		if err != nil {
			return err
		}
		tx.set(key, record)
		tx.stamp()
		return nil
	})
}

// DeleteSetting implements [store.Settings].
func (s *Store) DeleteSetting(ctx context.Context, app string, kind actor.SettingKind, name string) error {
	if err := store.ValidateSetting(actor.Setting{App: app, Kind: kind, Name: name}); err != nil {
		return err
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	key := settingKey(app, kind, name)
	return s.write(ctx, writeOptions{}, func(tx *tx) error {
		if value, err := tx.get(key); err != nil {
			return unavailable(err)
		} else if value != nil {
			tx.delete(key)
		}
		return nil
	})
}

// Settings implements [store.Settings].
func (s *Store) Settings(ctx context.Context, app string) ([]actor.Setting, error) {
	if err := actor.ValidateName("app", app); err != nil {
		return nil, err
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	f := s.flights.latest.Load()
	prefix := settingPrefix(app)
	it, err := s.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: prefix, UpperBound: prefixEnd(prefix)})
	if err != nil {
		return nil, unavailable(err)
	}
	var list []actor.Setting
	err = visitAll(ctx, it, func(key, value []byte) (more bool, err error) {
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
	if err != nil {
		return nil, err
	}
	return list, s.await(ctx, f)
}
