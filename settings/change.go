package settings

import (
	"context"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/greenroom-run/greenroom/abi/manifest"
	"github.com/greenroom-run/greenroom/actor"
)

// Listing has all settings of an app, each list in the order of names.
type Listing struct {
	Config  []Value
	Secrets []Secret
	HTTP    []Grant
	Quotas  []Quota
	Limits  []Limit
	Pauses  []Pause
}

// Value is a configuration value.
type Value struct {
	Name, Value string
	UpdatedAt   time.Time
}

// Secret is a secret without its value.
type Secret struct {
	Name string
	// Key is the ID of the key that it is sealed with. Readable is true if this
	// server has that key.
	Key       KeyID
	Readable  bool
	UpdatedAt time.Time
}

// Grant is a host that the app's guests may send requests to.
type Grant struct {
	actor.HTTPGrant
	UpdatedAt time.Time
}

// Quota is a quota of an app.
type Quota struct {
	Name actor.Quota
	actor.Rate
	Most      int64 // of a quota of what is stored
	UpdatedAt time.Time
}

// Limit is a limit of a type or a method.
type Limit struct {
	Scope actor.LimitScope
	actor.Limit
	UpdatedAt time.Time
}

// Pause is a type that is paused.
type Pause struct {
	Type string
	actor.Pause
	UpdatedAt time.Time
}

// addRule adds a setting to the list if it is a rule. One that this version cannot read is left out, since it has no
// effect.
func (l *Listing) addRule(set actor.Setting) {
	var r actor.Rules
	if !r.Add(set) {
		return
	}
	for name, rate := range r.Quotas {
		l.Quotas = append(l.Quotas, Quota{Name: name, Rate: rate, UpdatedAt: set.UpdatedAt})
	}
	for name, most := range r.Stored {
		l.Quotas = append(l.Quotas, Quota{Name: name, Most: most, UpdatedAt: set.UpdatedAt})
	}
	for scope, limit := range r.Limits {
		l.Limits = append(l.Limits, Limit{scope, limit, set.UpdatedAt})
	}
	for typ, pause := range r.Paused {
		l.Pauses = append(l.Pauses, Pause{typ, pause, set.UpdatedAt})
	}
}

// List reads all settings of an app.
func (s *Service) List(ctx context.Context, app string) (Listing, error) {
	list, err := s.settings(ctx, app)
	if err != nil {
		return Listing{}, err
	}
	var all Listing
	for _, set := range list {
		switch set.Kind {
		case actor.SettingConfig:
			all.Config = append(all.Config, Value{set.Name, string(set.Value), set.UpdatedAt})
		case actor.SettingSecret:
			id, _ := sealedUnder(set.Value)
			all.Secrets = append(all.Secrets, Secret{set.Name, id, s.cfg.Keys != nil && s.cfg.Keys.has(id), set.UpdatedAt})
		case actor.SettingHTTP:
			all.HTTP = append(all.HTTP, Grant{actor.HTTPGrant{Host: set.Name, Private: string(set.Value) == privateValue}, set.UpdatedAt})
		default:
			all.addRule(set)
		}
	}
	return all, nil
}

func (s *Service) settings(ctx context.Context, app string) ([]actor.Setting, error) {
	if err := actor.ValidateName("app", app); err != nil {
		return nil, err
	}
	list, err := s.cfg.Store.Settings(ctx, app)
	if err != nil {
		return nil, fmt.Errorf("read the settings of the app %s: %w", app, err)
	}
	return list, nil
}

// SetConfig sets a configuration value: UTF-8, at most [MaxValueBytes].
func (s *Service) SetConfig(ctx context.Context, app, name, value string) error {
	if err := actor.ValidateName("name of a configuration value", name); err != nil {
		return err
	}
	switch {
	case !utf8.ValidString(value):
		return &actor.ArgumentError{Field: "value of " + name, Problem: "is not UTF-8; keep bytes in a secret, or encode them"}
	case len(value) > MaxValueBytes:
		return tooLong(name, len(value))
	}
	return s.put(ctx, actor.Setting{App: app, Kind: actor.SettingConfig, Name: name, Value: []byte(value)})
}

// UnsetConfig removes a configuration value; [actor.ErrSettingNotFound].
func (s *Service) UnsetConfig(ctx context.Context, app, name string) error {
	return s.remove(ctx, app, actor.SettingConfig, name)
}

// SetSecret sets a secret: 1 to [MaxValueBytes] bytes. [actor.ErrNoSecretsKey] if the
// server has no key.
func (s *Service) SetSecret(ctx context.Context, app, name string, value []byte) error {
	if err := actor.ValidateName("name of a secret", name); err != nil {
		return err
	}
	switch {
	case len(value) == 0:
		return &actor.ArgumentError{Field: "value of " + name, Problem: "is empty; to remove the secret, unset it"}
	case len(value) > MaxValueBytes:
		return tooLong(name, len(value))
	case s.cfg.Keys == nil:
		return actor.ErrNoSecretsKey
	}
	return s.put(ctx, actor.Setting{App: app, Kind: actor.SettingSecret, Name: name, Value: s.cfg.Keys.seal(app, name, value)})
}

// UnsetSecret removes a secret; [actor.ErrSettingNotFound].
func (s *Service) UnsetSecret(ctx context.Context, app, name string) error {
	return s.remove(ctx, app, actor.SettingSecret, name)
}

// GrantHTTP lets the app's guests send requests to a host, in the place of an
// earlier grant of the same host, and returns the host rule as it is kept.
func (s *Service) GrantHTTP(ctx context.Context, app string, grant actor.HTTPGrant) (string, error) {
	host, err := canonical(grant.Host)
	if err != nil {
		return "", err
	}
	set := actor.Setting{App: app, Kind: actor.SettingHTTP, Name: host}
	if grant.Private {
		set.Value = []byte(privateValue)
	}
	return host, s.put(ctx, set)
}

// RevokeHTTP takes a grant back; [actor.ErrSettingNotFound].
func (s *Service) RevokeHTTP(ctx context.Context, app, host string) error {
	host, err := canonical(host)
	if err != nil {
		return err
	}
	return s.remove(ctx, app, actor.SettingHTTP, host)
}

func canonical(host string) (string, error) {
	rule, err := manifest.ParseHostRule(host)
	if err != nil {
		return "", &actor.ArgumentError{Field: fmt.Sprintf("host %.100q", host), Problem: err.Error()}
	}
	return rule.String(), nil
}

func tooLong(name string, size int) error {
	return &actor.ArgumentError{Field: "value of " + name, Problem: fmt.Sprintf("has %d bytes; at most %d are allowed", size, MaxValueBytes)}
}

func (s *Service) put(ctx context.Context, set actor.Setting) error {
	list, err := s.settings(ctx, set.App)
	if err != nil {
		return err
	}
	of := 0
	for _, other := range list {
		if other.Kind == set.Kind && other.Name != set.Name {
			of++
		}
	}
	if of >= MaxOfKind {
		return &actor.ArgumentError{Field: "app " + set.App, Problem: fmt.Sprintf("has %d settings of the kind %s, the most that it may have; remove some", of, set.Kind)}
	}
	err = s.cfg.Store.PutSetting(ctx, set)
	s.changed(ctx, set.App, set.Kind) // also after an error: it may have applied
	if err != nil {
		return fmt.Errorf("set %s %s: %w", set.Kind, set.Name, err)
	}
	s.cfg.Logger.Info("setting changed", "app", set.App, "kind", string(set.Kind), "name", set.Name)
	return nil
}

func (s *Service) remove(ctx context.Context, app string, kind actor.SettingKind, name string) error {
	list, err := s.settings(ctx, app)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(list, func(set actor.Setting) bool { return set.Kind == kind && set.Name == name }) {
		return fmt.Errorf("%s %.100q: %w", kind, name, actor.ErrSettingNotFound)
	}
	err = s.cfg.Store.DeleteSetting(ctx, app, kind, name)
	s.changed(ctx, app, kind)
	if err != nil {
		return fmt.Errorf("unset %s %s: %w", kind, name, err)
	}
	s.cfg.Logger.Info("setting removed", "app", app, "kind", string(kind), "name", name)
	return nil
}
