package serving

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/host/executor"
	"github.com/greenroom-run/greenroom/host/inbox"
	"github.com/greenroom-run/greenroom/host/instance"
	"github.com/greenroom-run/greenroom/host/residency"
	"github.com/greenroom-run/greenroom/host/throttle"
	"github.com/greenroom-run/greenroom/host/turn"
)

// source is the part of host.ModuleSource that Deployments uses; package host documents the methods.
type source interface {
	Current(app, typ string) (actor.Deployment, *abi.TypeSpec, error)
	Changes() uint64
	Refresh(ctx context.Context, app string) error
}

// Deployments finds what serves calls. All methods may be called concurrently.
type Deployments struct {
	modules source
	limits  func(Scope) Limits
	pools   *instance.Pools
	slots   *executor.Slots
	rules   *throttle.Governor

	served   atomic.Pointer[map[Scope]knownServed]
	mu       sync.Mutex   // of changes to served
	lookFrom atomic.Int64 // from when on unknown types are looked for again, in nanoseconds since 1970
}

// New returns the deployments of modules. limits returns the bounds of a scope before a manifest
// lowers them, pools has the instances, slots the pools of turns, and
// rules the rules of apps, nil for none.
func New(modules source, limits func(Scope) Limits, pools *instance.Pools, slots *executor.Slots, rules *throttle.Governor) *Deployments {
	ds := &Deployments{modules: modules, limits: limits, pools: pools, slots: slots, rules: rules}
	ds.served.Store(&map[Scope]knownServed{})
	return ds
}

// Of returns what serves a type now; actor.ErrTypeNotFound.
func (ds *Deployments) Of(app, typ string) (*Type, error) {
	changes := ds.modules.Changes() // before asking, so that nothing is missed
	scope := Scope{App: app, Type: typ}
	if known := (*ds.served.Load())[scope]; known.served != nil && known.checked == changes {
		return known.served, nil
	}
	deployment, spec, err := ds.modules.Current(app, typ)
	if err != nil {
		return nil, err
	}
	ds.mu.Lock()
	defer ds.mu.Unlock()
	// Copied, so that turns read it without a lock; deployments are rare.
	old := *ds.served.Load()
	next := maps.Clone(old)
	s := old[scope].served
	if s == nil || !s.serves(deployment) {
		before := s
		if s = ds.newServed(deployment, spec); before != nil && before.ReadElsewhere(time.Now()) {
			s.sharedUntil = time.Now().Add(sharedAfter)
		}
	}
	next[scope] = knownServed{s, changes}
	ds.served.Store(&next)
	return s, nil
}

// Receiver implements [inbox.Types].
func (ds *Deployments) Receiver(ctx context.Context, key actor.Key, method string) (inbox.Receiver, error) {
	s, err := ds.look(ctx, key, func() (*Type, error) { return ds.takes(key, method) })
	if s == nil {
		return nil, err
	}
	return s, nil
}

// CheckPublisher implements [turn.Types].
func (ds *Deployments) CheckPublisher(ctx context.Context, key actor.Key) error {
	s, err := ds.look(ctx, key, func() (*Type, error) { return ds.Of(key.App, key.Type) })
	if err == nil && s.Lane == LaneStateless {
		return &actor.ArgumentError{Field: "publisher", Problem: "is of the type " + key.Type + ", which is placed stateless: its actors publish no events"}
	}
	return err
}

// look returns what find returns for the type of an actor. If find fails, look reads the deployments of
// the app again and calls find once more, since another host may have deployed the type a moment ago.
func (ds *Deployments) look(ctx context.Context, key actor.Key, find func() (*Type, error)) (*Type, error) {
	s, err := find()
	if now := time.Now(); err != nil && ds.MayBeNew(err, now) {
		var refused error
		engine.Outside(ctx, func() { refused = ds.Refresh(ctx, key.App) })
		if refused != nil {
			return nil, refused
		}
		if s, err = find(); err != nil {
			ds.NotNew(now)
		}
	}
	if errors.Is(err, actor.ErrTypeNotFound) {
		return nil, &actor.ReasonError{Condition: actor.ErrTypeNotFound, Reason: fmt.Sprintf("the app %s has no type %s; deploy a module that declares it, or check the name", key.App, key.Type)}
	}
	return s, err
}

// takes returns what serves an actor's type, and an error if it does not have the method.
func (ds *Deployments) takes(key actor.Key, method string) (*Type, error) {
	s, err := ds.Of(key.App, key.Type)
	if err != nil {
		return nil, err
	}
	if _, ok := s.methods[method]; !ok {
		return s, actor.ErrMethodNotFound
	}
	return s, nil
}

// lookEvery is the shortest time between two looks for what this host does not
// know: calls of types without a deployment must cost the store next to nothing.
const lookEvery = time.Second

// MayBeNew reports whether another host may have deployed, since this one looked last, what a call
// asked for that arrived at a time and was refused with err.
func (ds *Deployments) MayBeNew(err error, arrived time.Time) bool {
	unknown := errors.Is(err, actor.ErrTypeNotFound) || errors.Is(err, actor.ErrMethodNotFound)
	return unknown && arrived.UnixNano() >= ds.lookFrom.Load()
}

// NotNew records that a refresh did not find what a call asked for that arrived at a time.
func (ds *Deployments) NotNew(arrived time.Time) {
	ds.lookFrom.Store(arrived.Add(lookEvery).UnixNano())
}

// Refresh reads the deployments of an app again.
func (ds *Deployments) Refresh(ctx context.Context, app string) error {
	if err := ds.modules.Refresh(ctx, app); err != nil {
		return fmt.Errorf("refresh deployments: %w", err)
	}
	return nil
}

// Changes returns another number after anything that is served has changed.
func (ds *Deployments) Changes() uint64 { return ds.modules.Changes() }

// knownServed is what serves a type as long as ModuleSource.Changes is checked.
type knownServed struct {
	served  *Type
	checked uint64
}

// Unchecked is no number that ModuleSource.Changes gets to.
const Unchecked = math.MaxUint64

// Unserved stands for what serves a type that nothing serves: its actors can still be
// deleted.
func (ds *Deployments) Unserved(app, typ string) *Type {
	scope := Scope{App: app, Type: typ}
	return &Type{
		Lane: LaneWarm, Limits: ds.limits(scope), Resources: Resources{executors: ds.executorsOf("")},
		Settings: Settings{Deadline: setBy(scope, "turn-deadline", "", false)},
	}
}

func (ds *Deployments) newServed(d actor.Deployment, spec *abi.TypeSpec) *Type {
	scope := Scope{App: d.App, Type: d.Type}
	configured := ds.limits(scope)
	limits := configured.lowered(spec.Limits)
	s := &Type{
		Deployment:  d,
		Lane:        LaneWarm,
		Placement:   spec.Placement,
		Sticky:      spec.Placement == abi.PlacementSticky,
		Shared:      strings.HasPrefix(spec.Placement, abi.PlacementRing+":"),
		migrate:     spec.Migrate,
		StateSchema: spec.StateSchema,
		Uses:        spec.Capabilities,
		methods:     make(map[string]Method, len(spec.Methods)),
		Life:        lifeOf(spec),
		Limits:      limits,
		Resources:   Resources{executors: ds.executorsOf(cmp.Or(limits.Pool, spec.Pool))},

		Settings: Settings{
			State:    setBy(scope, "max-state", "state_bytes", limits.StateBytes < configured.StateBytes),
			Payload:  setBy(scope, "max-payload", "payload_bytes", limits.PayloadBytes < configured.PayloadBytes),
			Deadline: setBy(scope, "turn-deadline", "turn_ms", limits.TurnDeadline < configured.TurnDeadline),
		},
	}
	// What is left in a commit.
	s.ReminderBytes = min(turn.MaxReminderBytes, actor.MaxCommitBytes-s.Limits.StateBytes-s.Limits.PayloadBytes)
	switch spec.Placement {
	case abi.PlacementAny:
		s.Lane = LaneLocked
	case abi.PlacementStateless:
		s.Lane = LaneStateless
	}
	s.Rules = throttle.TypeOf(ds.rules, d.App, d.Type, s.Placed())
	policy := spec.Messages
	s.messages = inbox.Policy{
		Attempts: policy.Attempts, Interval: time.Duration(policy.IntervalMillis) * time.Millisecond,
		Max: time.Duration(policy.MaxMillis) * time.Millisecond, Age: time.Duration(policy.AgeMillis) * time.Millisecond,
	}
	s.Dedicated = spec.Instance == abi.InstanceDedicated && s.Lane == LaneWarm // others keep nothing
	for _, m := range spec.Methods {
		s.methods[m.Name] = Method{Name: m.Name, ReadOnly: m.ReadOnly, Reentrant: m.Reentrant, Private: m.Private, Atomic: m.Atomic == abi.AtomicRequired, Calls: new(atomic.Bool), Sets: m.Sets}
	}
	s.Pool = ds.pools.Get(instance.Key{App: d.App, Digest: d.Digest, MemoryBytes: s.Limits.MemoryBytes, Max: s.Limits.Instances})
	return s
}

// executorsOf returns the pools of turns of a type whose pool has a name; those of PoolUser if this host has
// no such pool.
func (ds *Deployments) executorsOf(name string) Executors {
	return executorsOf(ds.slots, name, executorsOf(ds.slots, executor.PoolUser, Executors{}))
}

// Fits checks a row against what would run on it. A row that a newer deployment
// wrote makes the deployments be read again; changed then means that another
// one serves the type now, and the caller starts over with it.
func (ds *Deployments) Fits(ctx context.Context, l *residency.Row, s *Type) (changed bool, err error) {
	d := &s.Deployment
	if l.Generation > d.Generation {
		if err := ds.Refresh(ctx, d.App); err != nil {
			return false, err
		}
		current, err := ds.Of(d.App, d.Type)
		if err != nil {
			return false, err
		}
		if l.Generation > current.Deployment.Generation {
			return false, fmt.Errorf("%w: generation %d wrote the actor, the newest one known is %d",
				actor.ErrNoGeneration, l.Generation, current.Deployment.Generation)
		}
		return true, nil
	}
	if l.Exists && l.StateSchema > s.StateSchema {
		return false, fmt.Errorf("%w: schema %d, the module knows %d; deploy a module that knows it",
			actor.ErrSchemaNewer, l.StateSchema, s.StateSchema)
	}
	return false, nil
}
