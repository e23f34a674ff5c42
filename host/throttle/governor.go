package throttle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// Source has the rules of apps.
type Source interface {
	// Rules returns the rules of an app, read from the store at most a few seconds ago. They are not
	// changed.
	Rules(ctx context.Context, app string) (*actor.Rules, error)
}

// Config configures a [Governor].
type Config struct {
	// Source is required.
	Source Source
	// Hosts returns how many hosts share what is bounded for an app or a type; at least 1. Defaults
	// to 1 always.
	Hosts func() int
	// Counter counts what apps store. Without it, quotas of that have no effect.
	Counter Counter
	// MaxAge is for how long rules are used without being read again. Defaults to 2 s.
	MaxAge time.Duration
	// Logger gets failures to read. Defaults to discarding.
	Logger *slog.Logger
}

const (
	// readTimeout bounds a read of rules that no call waits for.
	readTimeout = 10 * time.Second
	// lookEvery is how often a call that waits looks whether its host still has the actor.
	lookEvery = time.Second
	// maxKeys is how many keys of an app have buckets in memory, about.
	maxKeys = 10_000
)

// Governor has the rules of all apps whose types are called. A nil one has none. All methods may be called concurrently.
type Governor struct {
	cfg   Config
	ctx   context.Context // of reads that no call waits for, and of waits; ends with Stop
	end   context.CancelFunc
	reads sync.WaitGroup

	mu   sync.Mutex
	apps map[string]*app
}

// New returns a governor.
func New(cfg Config) *Governor {
	cfg.MaxAge = cmp.Or(cfg.MaxAge, 2*time.Second)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Hosts == nil {
		cfg.Hosts = func() int { return 1 }
	}
	ctx, end := context.WithCancel(context.Background())
	return &Governor{cfg: cfg, ctx: ctx, end: end, apps: make(map[string]*app)}
}

func (g *Governor) app(name string) *app {
	g.mu.Lock()
	defer g.mu.Unlock()
	a := g.apps[name]
	if a == nil {
		a = &app{by: g, name: name, reading: make(chan struct{}, 1)}
		g.apps[name] = a
	}
	return a
}

// Changed reads the rules of an app again, which have changed. If that fails, they are read
// again when they are old.
func (g *Governor) Changed(ctx context.Context, name string) error {
	if g == nil {
		return nil
	}
	return g.app(name).read(ctx, time.Now())
}

// Stop ends the waits of all calls, with actor.ErrStopping, and waits for reads. It is safe twice.
func (g *Governor) Stop() {
	if g == nil {
		return
	}
	g.mu.Lock()
	g.end()
	g.mu.Unlock()
	g.reads.Wait()
}

// Grow is [Type.Grow] for a request that is no turn. Other errors are those of [Type.Admit].
func (g *Governor) Grow(ctx context.Context, name string, by actor.Stored) error {
	if g == nil {
		return nil
	}
	a, now := g.app(name), time.Now()
	r, err := a.get(ctx, now)
	if err != nil {
		return err
	}
	return a.grow(r, by, now)
}

// Stored returns what an app stores, as it was counted last and has grown here since; false if it was not
// counted, since no quota bounds it, or since nothing has grown.
func (g *Governor) Stored(name string) (actor.Stored, bool) {
	if g == nil {
		return actor.Stored{}, false
	}
	s := &g.app(name).stored
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.counted
	all.Add(s.grown, 1)
	return all, s.known
}

// EachStored calls f with what is stored by each app that was counted.
func (g *Governor) EachStored(f func(app string, stored actor.Stored)) {
	if g == nil {
		return
	}
	g.mu.Lock()
	names := slices.Sorted(maps.Keys(g.apps))
	g.mu.Unlock()
	for _, name := range names {
		if stored, known := g.Stored(name); known {
			f(name, stored)
		}
	}
}

// readLater begins a read that no call waits for.
func (g *Governor) readLater(a *app) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ctx.Err() != nil {
		return
	}
	g.reads.Go(func() {
		defer a.later.Store(false)
		ctx, cancel := context.WithTimeout(g.ctx, readTimeout)
		defer cancel()
		if err := a.read(ctx, time.Now()); err != nil {
			if g.ctx.Err() != nil {
				return
			}
			g.cfg.Logger.Warn("the rules of an app cannot be read; the last known ones hold", "app", a.name, "error", err)
		}
	})
}

// wait waits until a channel is closed.
func (g *Governor) wait(ctx context.Context, event <-chan struct{}, may func() error) error {
	for {
		select {
		case <-event:
			return nil
		default:
		}
		if err := g.waitOnce(ctx, event, may); err != nil {
			return err
		}
	}
}

// waitOnce waits until a channel is closed, but no longer than lookEvery.
func (g *Governor) waitOnce(ctx context.Context, event <-chan struct{}, may func() error) error {
	timer := time.NewTimer(lookEvery)
	defer timer.Stop()
	select {
	case <-event:
		return nil
	case <-g.ctx.Done():
		return actor.ErrStopping
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return may()
	}
}

// app has the rules of one app.
type app struct {
	by      *Governor
	name    string
	current atomic.Pointer[rules] // nil before the first read
	asOf    atomic.Int64          // when current was found to be right, in nanoseconds since 1970
	later   atomic.Bool           // a read is under way that no call waits for
	stored  stored
	reading chan struct{} // holds one token: one read at a time, which alone changes current
}

// rules are the rules of an app, worked out. They are never changed.
type rules struct {
	actor.Rules
	quotas  map[actor.Quota]*meter
	limits  map[actor.LimitScope]*limiter
	changed chan struct{} // closed when there are others
}

// limiter enforces one limit.
type limiter struct {
	limit  actor.Limit
	meter  *meter  // nil: no rate
	places *places // nil: no concurrency
}

// get returns the rules for a call that arrives now, reading them if they are not known, and later if
// they are old.
func (a *app) get(ctx context.Context, now time.Time) (*rules, error) {
	r := a.current.Load()
	if r == nil {
		if err := a.read(ctx, time.Time{}); err != nil {
			return nil, err
		}
		return a.current.Load(), nil
	}
	if now.UnixNano()-a.asOf.Load() >= int64(a.by.cfg.MaxAge) && a.later.CompareAndSwap(false, true) {
		a.by.readLater(a)
	}
	return r, nil
}

// read reads the rules, unless a read has begun since a time.
func (a *app) read(ctx context.Context, since time.Time) error {
	select {
	case a.reading <- struct{}{}:
		defer func() { <-a.reading }()
	case <-ctx.Done():
		return ctx.Err()
	}
	now := time.Now()
	if a.current.Load() != nil && time.Unix(0, a.asOf.Load()).After(since) {
		return nil
	}
	found, err := a.by.cfg.Source.Rules(ctx, a.name)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%w: read the rules of the app %s: %w", actor.ErrUnavailable, a.name, err)
	}
	before := a.current.Load()
	if before == nil || !reflect.DeepEqual(before.Rules, *found) {
		a.current.Store(newRules(found, before))
		if before != nil {
			close(before.changed)
		}
	}
	a.asOf.Store(now.UnixNano())
	return nil
}

// grow lets what the app stores grow, or refuses it.
func (a *app) grow(r *rules, by actor.Stored, now time.Time) error {
	if r == nil || len(r.Stored) == 0 || a.by.cfg.Counter == nil || by == (actor.Stored{}) {
		return nil
	}
	hosts := int64(max(1, a.by.cfg.Hosts()))
	s := &a.stored
	s.mu.Lock()
	defer s.mu.Unlock()
	a.countIfDue(r, now, countAgain)
	for _, q := range actor.StoredQuotas() {
		most, bounded := r.Stored[q]
		adds, grown := *by.Of(q), *s.grown.Of(q)
		if !bounded || adds <= 0 || !slices.Contains(s.quotas, q) {
			continue
		}
		// One growth since the last count may have all that is left; several share it with other hosts.
		left := most - *s.counted.Of(q)
		if grown > 0 && grown+adds > left/hosts/2 || adds > left {
			a.countIfDue(r, now, countFull)
		}
		if adds > left-min(0, grown) || grown > 0 && grown+adds > left/hosts {
			return &actor.LimitError{Condition: actor.ErrQuotaExceeded, Reason: fmt.Sprintf(
				"the quota %s of the app %s is %d, and about %d are stored; remove some, or have the quota raised: greenroom apps set %s --quota %s=…", q, a.name, most, *s.counted.Of(q)+max(0, grown), a.name, q)}
		}
	}
	s.grown.Add(by, 1)
	return nil
}

// countIfDue begins a count if the last one is so old. The caller has the lock of a.stored.
func (a *app) countIfDue(r *rules, now time.Time, age time.Duration) {
	s, g := &a.stored, a.by
	quotas := slices.Sorted(maps.Keys(r.Stored))
	if !s.isDue(quotas, now, age) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ctx.Err() != nil {
		return
	}
	s.counting = true
	before := s.grown
	g.reads.Go(func() {
		if err := s.count(g.ctx, g.cfg.Counter, a.name, quotas, before); err != nil && g.ctx.Err() == nil {
			g.cfg.Logger.Warn("what an app stores cannot be counted; the last count holds", "app", a.name, "error", err)
		}
	})
}

// newRules works rules out, with the tokens and places of what has not changed.
func newRules(found *actor.Rules, before *rules) *rules {
	if before == nil {
		before = &rules{}
	}
	r := &rules{Rules: *found, quotas: make(map[actor.Quota]*meter), limits: make(map[actor.LimitScope]*limiter), changed: make(chan struct{})}
	for name, rate := range found.Quotas {
		if was := before.quotas[name]; was != nil && was.rate == rate {
			r.quotas[name] = was
		} else if rate.PerSecond > 0 {
			r.quotas[name] = newMeter(rate, 1)
		}
	}
	for scope, limit := range found.Limits {
		if was := before.limits[scope]; was != nil && was.limit == limit {
			r.limits[scope] = was
			continue
		}
		l := &limiter{limit: limit}
		if limit.PerSecond > 0 {
			l.meter = newMeter(limit.Rate, maxKeys/len(found.Limits))
		}
		if limit.Concurrency > 0 {
			l.places = newPlaces(limit.Concurrency)
		}
		r.limits[scope] = l
	}
	return r
}

// isContext reports whether an error is that of a context.
func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
