package settings

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/abi/manifest"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/store"
)

// Bounds of an app's settings.
const (
	// MaxValueBytes is the largest configuration value, and the largest secret.
	MaxValueBytes = 64 << 10
	// MaxOfKind is how many of each kind an app can have.
	MaxOfKind = 256
)

// privateValue marks a grant of private addresses, as it is stored.
const privateValue = "private"

// Config configures a [Service]. Store is needed.
type Config struct {
	Store store.Settings
	// Keys seal secrets. Without them no secret can be set or read.
	Keys *Keyring
	// MaxAge is for how long what was read is given without reading it again.
	// Defaults to 2 s.
	MaxAge time.Duration
	// MaxStale is the same while the store does not answer. Defaults to 1 minute.
	MaxStale time.Duration
	// Clock defaults to time.Now.
	Clock func() time.Time
	// Changed is called after a change of an app's rules, before the method that made it returns.
	// Defaults to doing nothing.
	Changed func(ctx context.Context, app string)
	// Pools returns the names of the pools of turns that this server has. Defaults to none known: any
	// name is taken.
	Pools func() []string
	// Logger gets changes, without values. Defaults to discarding.
	Logger *slog.Logger
}

// WithDefaults returns a copy with defaults filled in.
func (c Config) WithDefaults() Config {
	c.MaxAge = cmp.Or(c.MaxAge, 2*time.Second)
	c.MaxStale = cmp.Or(c.MaxStale, time.Minute)
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Changed == nil {
		c.Changed = func(context.Context, string) {}
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

// Service keeps the settings of apps. All methods may be called concurrently.
type Service struct {
	cfg Config

	mu   sync.Mutex
	apps map[string]*app
}

// app caches the settings of one app.
type app struct {
	reading chan struct{} // holds one token: one read at a time
	mu      sync.Mutex
	last    *snapshot // nil before the first read
}

// snapshot has the settings of an app at one moment. It is never changed.
type snapshot struct {
	at      time.Time
	config  map[string][]byte
	secrets map[string][]byte // sealed
	http    []actor.HTTPGrant
	rules   actor.Rules
}

// New makes a service.
func New(cfg Config) (*Service, error) {
	if cfg.Store == nil {
		return nil, errors.New("settings config: Store is nil; give the store")
	}
	return &Service{cfg: cfg.WithDefaults(), apps: make(map[string]*app)}, nil
}

// Config implements host.Settings.
func (s *Service) Config(ctx context.Context, app, name string) ([]byte, bool, error) {
	g, err := s.snapshot(ctx, app)
	if err != nil {
		return nil, false, err
	}
	value, ok := g.config[name]
	return value, ok, nil
}

// Secret implements host.Settings.
func (s *Service) Secret(ctx context.Context, app, name string) ([]byte, bool, error) {
	g, err := s.snapshot(ctx, app)
	if err != nil {
		return nil, false, err
	}
	sealed, ok := g.secrets[name]
	switch {
	case !ok:
		return nil, false, nil
	case s.cfg.Keys == nil:
		return nil, false, actor.ErrNoSecretsKey
	}
	value, err := s.cfg.Keys.open(app, name, sealed)
	return value, err == nil, err
}

// HTTP implements egress.Grants.
func (s *Service) HTTP(ctx context.Context, app string) ([]actor.HTTPGrant, error) {
	g, err := s.snapshot(ctx, app)
	if err != nil {
		return nil, err
	}
	return g.http, nil
}

// snapshot returns the settings of an app, from memory if they are young enough. A guest that waits
// for the store leaves its processor to others.
func (s *Service) snapshot(ctx context.Context, name string) (*snapshot, error) {
	s.mu.Lock()
	a := s.apps[name]
	if a == nil {
		a = &app{reading: make(chan struct{}, 1)}
		s.apps[name] = a
	}
	s.mu.Unlock()
	if g := a.known(); g != nil && s.cfg.Clock().Sub(g.at) < s.cfg.MaxAge {
		return g, nil
	}
	var g *snapshot
	var err error
	engine.Outside(ctx, func() { g, err = s.reread(ctx, a, name) })
	return g, err
}

// reread reads the settings of an app, or waits until another has read them.
func (s *Service) reread(ctx context.Context, a *app, name string) (*snapshot, error) {
	select {
	case a.reading <- struct{}{}:
		defer func() { <-a.reading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	before := a.known()
	now := s.cfg.Clock()
	if before != nil && now.Sub(before.at) < s.cfg.MaxAge {
		return before, nil // read by the one before
	}
	g, err := s.read(ctx, name, now)
	if err != nil {
		if before != nil && now.Sub(before.at) < s.cfg.MaxStale {
			return before, nil
		}
		return nil, fmt.Errorf("read the settings of the app %s: %w", name, err)
	}
	a.mu.Lock()
	a.last = g
	a.mu.Unlock()
	return g, nil
}

func (a *app) known() *snapshot {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last
}

func (s *Service) read(ctx context.Context, app string, now time.Time) (*snapshot, error) {
	list, err := s.cfg.Store.Settings(ctx, app)
	if err != nil {
		return nil, err
	}
	g := &snapshot{at: now, config: make(map[string][]byte), secrets: make(map[string][]byte)}
	for _, set := range list {
		switch set.Kind {
		case actor.SettingConfig:
			g.config[set.Name] = set.Value
		case actor.SettingSecret:
			g.secrets[set.Name] = set.Value
		case actor.SettingHTTP:
			g.http = append(g.http, actor.HTTPGrant{Host: set.Name, Private: string(set.Value) == privateValue})
		case actor.SettingPause, actor.SettingQuota, actor.SettingLimit:
			if !g.rules.Add(set) {
				s.cfg.Logger.Warn("a rule cannot be read and has no effect", "app", app, "kind", string(set.Kind), "name", set.Name)
			}
		}
	}
	return g, nil
}

// forget makes the next use of an app's settings read the store, whatever a read under
// way returns.
func (s *Service) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.apps, name)
}

// changed has what this process knows of an app follow a change in the store.
func (s *Service) changed(ctx context.Context, app string, kind actor.SettingKind) {
	s.forget(app)
	switch kind {
	case actor.SettingPause, actor.SettingQuota, actor.SettingLimit:
		s.cfg.Changed(ctx, app)
	}
}

// Missing returns the capabilities that a type declares and that its app has no setting
// for, in the order of the declaration. A declared rule for every host is not missing if
// any host is granted.
func (s *Service) Missing(ctx context.Context, app string, uses abi.Capabilities) (abi.Capabilities, error) {
	var missing abi.Capabilities
	if uses.IsZero() {
		return missing, nil
	}
	g, err := s.snapshot(ctx, app)
	if err != nil {
		return missing, err
	}
	for _, name := range uses.Config {
		if _, ok := g.config[name]; !ok {
			missing.Config = append(missing.Config, name)
		}
	}
	for _, name := range uses.Secrets {
		if _, ok := g.secrets[name]; !ok {
			missing.Secrets = append(missing.Secrets, name)
		}
	}
	for _, text := range uses.HTTP {
		if !granted(g.http, text) {
			missing.HTTP = append(missing.HTTP, text)
		}
	}
	return missing, nil
}

func granted(grants []actor.HTTPGrant, text string) bool {
	declared, err := manifest.ParseHostRule(text)
	if err != nil {
		return false
	}
	for _, g := range grants {
		rule, err := manifest.ParseHostRule(g.Host)
		if err == nil && (rule.Covers(declared) || declared.Host == "*" && declared.Scheme == rule.Scheme) {
			return true
		}
	}
	return false
}
