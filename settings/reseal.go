package settings

import (
	"context"
	"fmt"

	"github.com/greenroom-run/greenroom/actor"
)

// Resealed says what [Service.Reseal] found and did.
type Resealed struct {
	// Sealed are the secrets that are now sealed with the first key and were not.
	Sealed int
	// Unreadable counts the secrets that are damaged or whose key this server does
	// not have. They are left as they are.
	Unreadable int
}

// Reseal seals the secrets of all apps with the first key that are sealed with
// another one of this server's. It may run on several servers at once, and beside
// changes: what was set meanwhile stays. After an error the rest is as it was, and readable.
func (s *Service) Reseal(ctx context.Context) (Resealed, error) {
	var done Resealed
	if s.cfg.Keys == nil || len(s.cfg.Keys.keys) == 1 {
		return done, nil // no other key opens anything
	}
	const page = 256
	for after := ""; ; {
		apps, err := s.cfg.Store.SettingApps(ctx, after, page)
		if err != nil {
			return done, fmt.Errorf("seal secrets again: list apps: %w", err)
		}
		for _, app := range apps {
			if err := s.resealApp(ctx, app, &done); err != nil {
				return done, fmt.Errorf("seal the secrets of the app %s again: %w", app, err)
			}
			after = app
		}
		if len(apps) < page {
			return done, nil
		}
	}
}

func (s *Service) resealApp(ctx context.Context, app string, done *Resealed) error {
	list, err := s.cfg.Store.Settings(ctx, app)
	if err != nil {
		return err
	}
	for _, set := range list {
		if id, ok := sealedUnder(set.Value); set.Kind != actor.SettingSecret || ok && id == s.cfg.Keys.keys[0].id {
			continue
		}
		value, err := s.cfg.Keys.open(app, set.Name, set.Value)
		if err != nil {
			done.Unreadable++
			continue
		}
		was := set.Value
		set.Value = s.cfg.Keys.seal(app, set.Name, value)
		replaced, err := s.cfg.Store.ReplaceSetting(ctx, set, was)
		if err != nil {
			return err
		}
		if replaced {
			done.Sealed++
		}
	}
	s.forget(app)
	return nil
}
