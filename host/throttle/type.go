package throttle

import (
	"context"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// Type is what the rules of an app say of one of its types. A nil one says nothing. All methods may
// be called concurrently.
type Type struct {
	app     *app
	name    string
	oneHost bool
}

// TypeOf returns what the rules of a governor say of a type of an app; nil for a nil governor. oneHost means
// that all turns of an actor of the type are at one host.
func TypeOf(g *Governor, appName, name string, oneHost bool) *Type {
	if g == nil {
		return nil
	}
	return &Type{app: g.app(appName), name: name, oneHost: oneHost}
}

// Call is what is known of a call.
type Call struct {
	Method, ID, Token string
	Now               time.Time
	// Called means that another turn calls, perhaps at another host, and is held meanwhile.
	Called bool
	// Firing means that the call is the delivery of a reminder or of a message, which is delivered again.
	Firing bool
	// List marks a list of calls: each call in it is admitted when it runs. Admitted marks a call that was
	// admitted before and runs again. Neither counts.
	List, Admitted bool
}

// scopes are those of a call's limits.
func (t *Type) scopes(method string) [2]actor.LimitScope {
	return [2]actor.LimitScope{{Type: t.name}, {Type: t.name, Method: method}}
}

// keyOf returns the key of a call for a limit. It is never the empty one of calls without keys, unless
// the limit has none.
func keyOf(per actor.LimitKey, c *Call) string {
	switch per {
	case actor.PerActor:
		return "a" + c.ID
	case actor.PerToken:
		return "t" + c.Token
	}
	return ""
}

// hosts returns how many hosts share a bound that is per key.
func (t *Type) hosts(per actor.LimitKey) int {
	if per == actor.PerActor && t.oneHost {
		return 1
	}
	return max(1, t.app.by.cfg.Hosts())
}

// Admit admits a call that has arrived, or refuses it with an [*actor.LimitError]. Other errors are
// those of the context, and [actor.ErrUnavailable] if the rules are not known.
func (t *Type) Admit(ctx context.Context, c Call) error {
	if t == nil {
		return nil
	}
	if err := t.Pausing(ctx, &c); err != nil || c.List || c.Admitted {
		return err
	}
	r := t.app.current.Load()
	if len(r.quotas) == 0 && len(r.limits) == 0 {
		return nil
	}
	return t.admitRates(r, &c)
}

// Pausing is the part of Admit that refuses calls of paused types: a call that is to wait for its actor before it is
// admitted asks for it first, since what it would wait for may wait for the end of the pause.
func (t *Type) Pausing(ctx context.Context, c *Call) error {
	if t == nil {
		return nil
	}
	r, err := t.app.get(ctx, c.Now)
	if err != nil {
		return err
	}
	if p, paused := r.Paused[t.name]; paused && (p.Refuse || c.Firing || c.Called) {
		return t.paused(0)
	}
	return nil
}

// admitRates takes what a call takes of quotas and rates: all, or nothing.
func (t *Type) admitRates(r *rules, c *Call) error {
	var taken [3]func()
	giveBack := func() {
		for _, f := range taken {
			if f != nil {
				f()
			}
		}
	}
	hosts, now := t.hosts(actor.PerNone), c.Now
	if m := r.quotas[actor.QuotaFuel]; m != nil {
		if after, ok := m.take("", 0, hosts, now); !ok {
			return t.overQuota(actor.QuotaFuel, m.rate, "units of fuel", after)
		}
	}
	if m := r.quotas[actor.QuotaTurns]; m != nil {
		after, ok := m.take("", 1, hosts, now)
		if !ok {
			return t.overQuota(actor.QuotaTurns, m.rate, "turns", after)
		}
		taken[0] = func() { m.spend("", -1, hosts, now) }
	}
	for i, scope := range t.scopes(c.Method) {
		l := r.limits[scope]
		if l == nil || l.meter == nil {
			continue
		}
		key, hosts := keyOf(l.limit.Per, c), t.hosts(l.limit.Per)
		after, ok := l.meter.take(key, 1, hosts, now)
		if !ok {
			giveBack()
			return &actor.LimitError{
				Condition: actor.ErrRateLimited, RetryAfter: after,
				Reason: fmt.Sprintf("the limit of %s is %v turns per second%s; try again in %s", scope, l.limit.PerSecond, perText(l.limit.Per), inWords(after)),
			}
		}
		taken[1+i] = func() { l.meter.spend(key, -1, hosts, now) }
	}
	return nil
}

func (t *Type) overQuota(q actor.Quota, rate actor.Rate, of string, after time.Duration) error {
	return &actor.LimitError{
		Condition: actor.ErrQuotaExceeded, RetryAfter: after,
		Reason: fmt.Sprintf("the quota %s of the app %s is %v %s per second; try again in %s", q, t.app.name, rate.PerSecond, of, inWords(after)),
	}
}

func (t *Type) paused(waited time.Duration) error {
	how := "its calls are refused"
	if waited > 0 {
		how = fmt.Sprintf("the call has waited %s for it to be resumed", waited)
	}
	return &actor.LimitError{
		Condition: actor.ErrTypePaused, RetryAfter: pauseRetry,
		Reason: fmt.Sprintf("%s of the app %s, and %s; `greenroom types resume` ends the pause", t.name, t.app.name, how),
	}
}

// pauseRetry is what callers of a paused type are told to wait: people resume types.
const pauseRetry = 5 * time.Second

func perText(per actor.LimitKey) string {
	if per == actor.PerNone {
		return ""
	}
	return " for each " + string(per)
}

// inWords rounds a wait up to the millisecond.
func inWords(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

// Pool returns the name of the pool that the limits of a method, or else of its type, put turns into;
// empty if they name none.
func (t *Type) Pool(method string) string {
	if t == nil {
		return ""
	}
	r := t.app.current.Load()
	if r == nil || len(r.limits) == 0 {
		return ""
	}
	for _, scope := range []actor.LimitScope{{Type: t.name, Method: method}, {Type: t.name}} {
		if l := r.limits[scope]; l != nil && l.limit.Pool != "" {
			return l.limit.Pool
		}
	}
	return ""
}

// Spend counts the fuel that a turn has used.
func (t *Type) Spend(fuel uint64) {
	if t == nil {
		return
	}
	if r := t.app.current.Load(); r != nil {
		if m := r.quotas[actor.QuotaFuel]; m != nil {
			m.spend("", float64(fuel), t.hosts(actor.PerNone), time.Now())
		}
	}
}

// Waits reports whether turns of the type may have to wait in Enter.
func (t *Type) Waits(method string) bool {
	if t == nil {
		return false
	}
	r := t.app.current.Load()
	if r == nil {
		return false
	}
	if _, paused := r.Paused[t.name]; paused {
		return true
	}
	if len(r.limits) == 0 {
		return false
	}
	for _, scope := range t.scopes(method) {
		if l := r.limits[scope]; l != nil && l.places != nil {
			return true
		}
	}
	return false
}

// Enter waits until a turn that was admitted may begin: its type is not paused, and its limits have
// places, which a turn that another one calls needs none of. leave gives the places back. may is asked while the turn waits, and its error ends the wait.
// Other errors are an [*actor.LimitError], also if the context ends, and [actor.ErrStopping].
func (t *Type) Enter(ctx context.Context, c Call, may func() error) (leave func(), err error) {
	began := c.Now
	if err := t.awaitResume(ctx, &c, may); err != nil {
		return nil, err
	}
	r := t.app.current.Load()
	var has []func()
	leave = func() {
		for _, f := range has {
			f()
		}
	}
	for _, scope := range t.scopes(c.Method) {
		l := r.limits[scope]
		if l == nil || l.places == nil || c.Called {
			continue
		}
		hosts := func() int { return max(1, t.app.by.cfg.Hosts()) }
		p := l.places.ask(keyOf(l.limit.Per, &c), hosts())
		has = append(has, func() { p.leave(hosts()) })
		if err := t.app.by.wait(ctx, p.ready, may); err != nil {
			leave()
			if isContext(err) {
				err = &actor.LimitError{
					Condition: actor.ErrRateLimited,
					Reason:    fmt.Sprintf("the limit of %s is %d turns at the same time, and the call has waited %s for its place", scope, l.limit.Concurrency, time.Since(began).Round(time.Millisecond)),
				}
			}
			return nil, err
		}
	}
	return leave, nil
}

// awaitResume waits while the type is paused.
func (t *Type) awaitResume(ctx context.Context, c *Call, may func() error) error {
	for {
		r, err := t.app.get(ctx, time.Now())
		if err != nil {
			return err
		}
		p, paused := r.Paused[t.name]
		switch {
		case !paused:
			return nil
		case p.Refuse || c.Firing || c.Called:
			return t.paused(0)
		}
		// Others come only with a read, which a call has to ask for.
		if err := t.app.by.waitOnce(ctx, r.changed, may); isContext(err) {
			return t.paused(time.Since(c.Now).Round(time.Millisecond))
		} else if err != nil {
			return err
		}
	}
}

// BoundsStored reports whether a quota bounds what the type's app stores: otherwise Grow refuses nothing.
func (t *Type) BoundsStored() bool {
	if t == nil {
		return false
	}
	r := t.app.current.Load()
	return r != nil && len(r.Stored) > 0
}

// Grow lets what the type's app stores grow by a turn, or refuses that with an [*actor.LimitError]. What
// shrinks is never refused.
func (t *Type) Grow(by actor.Stored) error {
	return t.app.grow(t.app.current.Load(), by, time.Now())
}
