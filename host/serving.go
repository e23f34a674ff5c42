package host

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/instance"
	"github.com/greenroom-run/greenroom/host/residency"
	"github.com/greenroom-run/greenroom/host/turn"
)

// served is what serves an actor type from one deployment to the next, worked
// out once. It is immutable, but for method.calls.
type served struct {
	deployment actor.Deployment
	lane       Lane   // of methods that are not read-only
	placement  string // empty: nothing serves the type, and one of its actors is deleted
	dedicated  bool
	sticky     bool
	// shared: other hosts may answer read-only methods, from copies. It was so until
	// sharedUntil, if that is not zero.
	shared      bool
	sharedUntil time.Time
	migrate     bool
	stateSchema uint32
	methods     map[string]method
	uses        abi.Capabilities
	// reminderBytes is what a turn's reminders may take.
	reminderBytes int64
	limits        Limits
	settings
	pool *instance.Pool
}

// settings are what sets the limits of a type, for people.
type settings struct{ state, payload, deadline string }

type method struct {
	name      string
	readOnly  bool
	reentrant bool // other turns of the actor may wait for it
	atomic    bool // turns that call it are of this host, and commit with it
	private   bool // calls from outside are refused
	// calls becomes true when a turn of the method, of a type placed any, has called another actor.
	// Its turns take no lock of the row from then on.
	calls *atomic.Bool
}

// deployments says what serves calls.
type deployments struct {
	modules ModuleSource
	limits  func(app, typ string) Limits // of the configuration
	pools   *instance.Pools

	served   atomic.Pointer[map[Scope]knownServed]
	mu       sync.Mutex   // of changes to served
	lookFrom atomic.Int64 // from when on unknown types are looked for again, in nanoseconds since 1970
}

func newDeployments(cfg *Config, pools *instance.Pools) *deployments {
	ds := &deployments{modules: cfg.Modules, limits: cfg.limits, pools: pools}
	ds.served.Store(&map[Scope]knownServed{})
	return ds
}

// serving returns what serves a type now; actor.ErrTypeNotFound.
func (ds *deployments) serving(app, typ string) (*served, error) {
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
		if s = ds.newServed(deployment, spec); before != nil && before.readElsewhere(time.Now()) {
			s.sharedUntil = time.Now().Add(sharedAfter)
		}
	}
	next[scope] = knownServed{s, changes}
	ds.served.Store(&next)
	return s, nil
}

// lookEvery is the shortest time between two looks for what this host does not
// know: calls of types that nobody serves must cost the store next to nothing.
const lookEvery = time.Second

// knownServed is what serves a type as long as ModuleSource.Changes is checked.
type knownServed struct {
	served  *served
	checked uint64
}

// unchecked is no number that ModuleSource.Changes gets to.
const unchecked = math.MaxUint64

// placed reports whether the type's actors have one place each in a cluster.
func (s *served) placed() bool { return s.lane == LaneWarm && s.placement != "" }

// sharedAfter is for how long after a type was shared some host may not know yet that it
// is not any more: far above what it takes to hear of a deployment.
const sharedAfter = time.Minute

// readElsewhere reports whether other hosts may answer read-only methods of the type, from
// copies.
func (s *served) readElsewhere(now time.Time) bool {
	return s.shared || !s.sharedUntil.IsZero() && now.Before(s.sharedUntil)
}

// unserved stands for what serves a type that nothing serves: its actors can still be
// deleted.
func (ds *deployments) unserved(app, typ string) *served {
	return &served{
		lane: LaneWarm, limits: ds.limits(app, typ),
		settings: settings{deadline: setBy(Scope{App: app, Type: typ}, "turn-deadline", "", false)},
	}
}

// serves reports whether s was worked out from d.
func (s *served) serves(d actor.Deployment) bool {
	return s.deployment.Generation == d.Generation && s.deployment.Digest == d.Digest
}

func (ds *deployments) newServed(d actor.Deployment, spec *abi.TypeSpec) *served {
	scope, configured := Scope{App: d.App, Type: d.Type}, ds.limits(d.App, d.Type)
	limits := configured.lowered(spec.Limits)
	s := &served{
		deployment:  d,
		lane:        LaneWarm,
		placement:   spec.Placement,
		sticky:      spec.Placement == abi.PlacementSticky,
		shared:      strings.HasPrefix(spec.Placement, abi.PlacementRing+":"),
		migrate:     spec.Migrate,
		stateSchema: spec.StateSchema,
		uses:        spec.Capabilities,
		methods:     make(map[string]method, len(spec.Methods)),
		limits:      limits,

		settings: settings{
			state:    setBy(scope, "max-state", "state_bytes", limits.StateBytes < configured.StateBytes),
			payload:  setBy(scope, "max-payload", "payload_bytes", limits.PayloadBytes < configured.PayloadBytes),
			deadline: setBy(scope, "turn-deadline", "turn_ms", limits.TurnDeadline < configured.TurnDeadline),
		},
	}
	// What is left in a commit.
	s.reminderBytes = min(turn.MaxReminderBytes, actor.MaxCommitBytes-s.limits.StateBytes-s.limits.PayloadBytes)
	switch spec.Placement {
	case abi.PlacementAny:
		s.lane = LaneLocked
	case abi.PlacementStateless:
		s.lane = LaneStateless
	}
	s.dedicated = spec.Instance == abi.InstanceDedicated && s.lane == LaneWarm // others keep nothing
	for _, m := range spec.Methods {
		s.methods[m.Name] = method{name: m.Name, readOnly: m.ReadOnly, reentrant: m.Reentrant, private: m.Private, atomic: m.Atomic == abi.AtomicRequired, calls: new(atomic.Bool)}
	}
	s.pool = ds.pools.Get(instance.Key{App: d.App, Digest: d.Digest, MemoryBytes: s.limits.MemoryBytes, Max: s.limits.Instances})
	return s
}

// method returns a method of the type that may take the invocation.
func (s *served) method(inv *actor.Invocation) (method, error) {
	m, ok := s.methods[inv.Method]
	switch {
	case !ok:
		return m, fmt.Errorf("%w: type %s has no method %s; its methods are %s", actor.ErrMethodNotFound, inv.Key.Type, inv.Method, s.methodNames())
	case inv.ReadOnly && !m.readOnly:
		return m, fmt.Errorf("%w: %s.%s changes its actor; invoke it instead, or declare it read-only in the guest", actor.ErrNotReadOnly, inv.Key.Type, inv.Method)
	case int64(len(inv.Payload.Data)) > s.limits.PayloadBytes:
		return m, fmt.Errorf("%w: it has %d bytes; at most %d are allowed, by %s", actor.ErrPayloadTooLarge, len(inv.Payload.Data), s.limits.PayloadBytes, s.settings.payload)
	}
	return m, nil
}

// callsOthers records that turns of a method call other actors.
func (s *served) callsOthers(name string) { s.methods[name].calls.Store(true) }

// errPrivate refuses a private method to who is no actor of the app.
func errPrivate(inv *actor.Invocation) error {
	return fmt.Errorf("%w: only actors of the app, their reminders and their timers call %s.%s", actor.ErrMethodPrivate, inv.Key.Type, inv.Method)
}

// MethodProblem implements [turn.Methods].
func (s *served) MethodProblem(of, name string) string {
	switch m, ok := s.methods[name]; {
	case !ok:
		return fmt.Sprintf("the type %s has no method %q; its methods are %s", s.deployment.Type, name, s.methodNames())
	case m.readOnly:
		return fmt.Sprintf("the method %s is read-only; a %s runs one that may change the actor", name, of)
	}
	return ""
}

// methodNames lists the type's methods, the first few of many, for an error.
func (s *served) methodNames() string {
	const most = 20
	names := slices.Sorted(maps.Keys(s.methods))
	if len(names) > most {
		names = append(names[:most], "…")
	}
	return strings.Join(names, ", ")
}

// fits checks a row against what would run on it. A row that a newer deployment
// wrote makes the deployments be read again; changed then means that another
// one serves the type now, and the caller starts over with it.
func (ds *deployments) fits(ctx context.Context, l *residency.Row, s *served) (changed bool, err error) {
	d := &s.deployment
	if l.Generation > d.Generation {
		if err := ds.modules.Refresh(ctx, d.App); err != nil {
			return false, fmt.Errorf("refresh deployments: %w", err)
		}
		current, err := ds.serving(d.App, d.Type)
		if err != nil {
			return false, err
		}
		if l.Generation > current.deployment.Generation {
			return false, fmt.Errorf("%w: generation %d wrote the actor, the newest one known is %d",
				actor.ErrNoGeneration, l.Generation, current.deployment.Generation)
		}
		return true, nil
	}
	if l.Exists && l.StateSchema > s.stateSchema {
		return false, fmt.Errorf("%w: schema %d, the module knows %d; deploy a module that knows it",
			actor.ErrSchemaNewer, l.StateSchema, s.stateSchema)
	}
	return false, nil
}

// migration returns the schema to migrate from, nil when the state is up to date
// or the type takes no migrate turns.
func (s *served) migration(l *residency.Row) *uint32 {
	if !s.migrate || !l.Exists || l.StateSchema >= s.stateSchema {
		return nil
	}
	return &l.StateSchema
}
