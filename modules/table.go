package modules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
)

// ServedType is an actor type with what serves it.
type ServedType struct {
	// Spec is the type as its module declares it, defaults filled in, with the placement
	// of the deployment if it has one. It is shared and read-only.
	Spec       *abi.TypeSpec
	Deployment actor.Deployment
}

type typeName struct{ app, typ string }

// table is what serves every type. It is never changed, only replaced.
type table struct {
	types map[typeName]served
	// services has, by the name of a Protobuf service and by app, the type that serves it: of
	// several, which a server of an earlier version may have deployed, the first by name.
	services map[string]map[string]string
	number   uint64 // one more than that of the table before
}

// indexServices fills in the services of a table whose types are complete.
func (t *table) indexServices() {
	t.services = make(map[string]map[string]string)
	for name, s := range t.types {
		if s.err != nil || s.Spec == nil || s.Spec.Protobuf.IsZero() {
			continue
		}
		apps := t.services[s.Spec.Protobuf.Service]
		if apps == nil {
			apps = make(map[string]string)
			t.services[s.Spec.Protobuf.Service] = apps
		}
		if other, ok := apps[name.app]; !ok || name.typ < other {
			apps[name.app] = name.typ
		}
	}
}

// serviceType returns the type of an app that serves a service.
func (t *table) serviceType(app, service string) (ServedType, bool) {
	typ, ok := t.services[service][app]
	return t.types[typeName{app, typ}].ServedType, ok
}

// servicesOf returns the services of an app, in the order of their names.
func (t *table) servicesOf(app string) (names []string) {
	for name, apps := range t.services {
		if _, ok := apps[app]; ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

type served struct {
	ServedType
	err  error // why the type cannot be served, nil otherwise
	size int64 // of the module, in bytes
}

// outOfService is the entry of a type that was undeployed: it stays, so that a
// read of an earlier deployment which returns late does not bring the type back.
func outOfService(d actor.Deployment) served {
	return served{ServedType: ServedType{Deployment: d}, err: fmt.Errorf("%w: type %s of app %s was taken out of service; deploy a module that declares it, or roll it back",
		actor.ErrTypeNotFound, d.Type, d.App)}
}

// serving is the part of a [Service] that knows what serves each type.
type serving struct {
	*library
	prepareModule func(ctx context.Context, app string, d actor.Digest) error
	notify        func() // after a change of the table
	current       atomic.Pointer[table]
	refresh       refresher
	preparing     modulesQueue
	prepared      atomic.Bool // it was empty once
}

func newServing(l *library, cfg Config) *serving {
	s := &serving{library: l, prepareModule: cfg.Prepare, notify: cfg.Changed}
	s.current.Store(&table{})
	s.refresh = refresher{read: s.update, apps: make(map[string]*flights)}
	s.preparing = newModulesQueue()
	return s
}

// Current returns what serves a type now, from memory and without a lock;
// [actor.ErrTypeNotFound], and [actor.ErrModuleDamaged] for a type whose stored
// manifest cannot be read.
func (s *serving) Current(app, typ string) (actor.Deployment, *abi.TypeSpec, error) {
	t, ok := s.current.Load().types[typeName{app, typ}]
	if !ok {
		return actor.Deployment{}, nil, fmt.Errorf("%w: app %s has no type %s; deploy a module that declares it, or check the name", actor.ErrTypeNotFound, app, typ)
	}
	return t.Deployment, t.Spec, t.err
}

// HasService reports whether a type of some app serves a Protobuf service.
func (s *serving) HasService(service string) bool { return s.current.Load().services[service] != nil }

// ServiceType returns the type of an app that serves a Protobuf service.
func (s *serving) ServiceType(app, service string) (ServedType, bool) {
	return s.current.Load().serviceType(app, service)
}

// Services returns the names of the Protobuf services of an app, in their order.
func (s *serving) Services(app string) []string { return s.current.Load().servicesOf(app) }

// AppsByModule returns the apps that each module serves a type of now, in no order.
func (s *serving) AppsByModule() map[actor.Digest][]string {
	apps := make(map[actor.Digest][]string)
	for name, t := range s.current.Load().types {
		if d := t.Deployment.Digest; !slices.Contains(apps[d], name.app) {
			apps[d] = append(apps[d], name.app)
		}
	}
	return apps
}

// Prepared reports whether what served at the start is prepared. It stays so: what an app
// deploys later makes no server unready.
func (s *serving) Prepared() bool {
	if s.preparing.empty() {
		s.prepared.Store(true)
	}
	return s.prepared.Load()
}

// Changes is another number after anything that Current returns has changed.
func (s *serving) Changes() uint64 { return s.current.Load().number }

// Known returns what serves each type of every app that this process knows, from
// memory and in no order. Types that cannot be served are left out.
func (s *serving) Known() []ServedType {
	var ts []ServedType
	for _, t := range s.current.Load().types {
		if t.err == nil {
			ts = append(ts, t.ServedType)
		}
	}
	return ts
}

// Types reads what serves each type of an app now, in order of their names.
// Types that cannot be served are left out.
func (s *serving) Types(ctx context.Context, app string) ([]ServedType, error) {
	if err := actor.ValidateName("app", app); err != nil {
		return nil, err
	}
	if err := s.Refresh(ctx, app); err != nil {
		return nil, err
	}
	var ts []ServedType
	for name, t := range s.current.Load().types {
		if name.app == app && t.err == nil {
			ts = append(ts, t.ServedType)
		}
	}
	slices.SortFunc(ts, func(a, b ServedType) int { return cmp.Compare(a.Spec.Name, b.Spec.Name) })
	return ts, nil
}

// Refresh reads the deployments of an app, or of every app if it is empty, from
// the store. Callers at the same time share one read that began after all of
// them called.
func (s *serving) Refresh(ctx context.Context, app string) error {
	if err := s.refresh.do(ctx, app); err != nil {
		return fmt.Errorf("read deployments: %w", err)
	}
	return nil
}

// poll looks for what other processes deployed. An app whose modules are being prepared is
// looked at again afterwards, and holds up no other.
func (s *serving) poll(ctx context.Context, interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var switches sync.WaitGroup
	defer switches.Wait()
	var mu sync.Mutex
	busy := make(map[string]bool)
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		replaced, err := s.read(ctx, "")
		for app, modules := range replaced {
			mu.Lock()
			wait := busy[app]
			busy[app] = true
			mu.Unlock()
			if wait {
				continue
			}
			switches.Go(func() {
				s.replace(ctx, modules)
				mu.Lock()
				defer mu.Unlock()
				delete(busy, app)
			})
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			s.log.Warn("cannot read deployments; serving the last known ones", "error", err)
		case err == nil && failing:
			s.log.Info("deployments can be read again")
		}
		failing = err != nil
	}
}

// replacements are, by app and module, the types that the module is to take over.
type replacements map[string]map[module]map[typeName]served

// update brings the table up to what the store has.
func (s *serving) update(ctx context.Context, app string) error {
	replaced, err := s.read(ctx, app)
	if err != nil {
		return err
	}
	var apps sync.WaitGroup
	for _, modules := range replaced {
		apps.Go(func() { s.replace(ctx, modules) })
	}
	apps.Wait()
	return nil
}

// read puts what nothing served before into the table, has its modules prepared by the
// queue, and returns what is to replace what serves. Reads may return in any order.
func (s *serving) read(ctx context.Context, app string) (replacements, error) {
	ds, err := s.store.Deployments(ctx, app)
	if err != nil {
		return nil, err
	}
	found, err := s.changed(ctx, ds)
	if err != nil {
		return nil, err
	}
	old := s.current.Load()
	types := make(map[module]int64)
	for name, t := range found {
		types[module{name.app, t.Deployment.Digest}]++
	}
	first := make(map[typeName]served)
	replaced := make(replacements)
	for name, t := range found {
		m := module{name.app, t.Deployment.Digest}
		switch before, serves := old.types[name]; {
		case t.err != nil:
			first[name] = t
		case !serves || before.err != nil:
			first[name] = t
			s.preparing.add(m, t.size/types[m])
		default:
			if replaced[m.app] == nil {
				replaced[m.app] = make(map[module]map[typeName]served)
			}
			if replaced[m.app][m] == nil {
				replaced[m.app][m] = make(map[typeName]served)
			}
			replaced[m.app][m][name] = t
		}
	}
	s.merge(first)
	return replaced, nil
}

// replace has modules of an app serve once each is prepared; until then what served before
// does.
func (s *serving) replace(ctx context.Context, modules map[module]map[typeName]served) {
	for m, entries := range modules {
		s.prepare(ctx, m)
		s.merge(entries)
	}
}

// changed returns those of ds that the table does not have, with what serves them.
func (s *serving) changed(ctx context.Context, ds []actor.Deployment) (map[typeName]served, error) {
	type read struct {
		*abi.Manifest
		size int64
	}
	manifests := make(map[module]read)
	entries := make(map[typeName]served)
	old := s.current.Load()
	for _, d := range ds {
		name, key := typeName{d.App, d.Type}, module{d.App, d.Digest}
		if t, ok := old.types[name]; ok && t.Deployment == d {
			continue
		}
		if d.Undeployed() {
			entries[name] = outOfService(d)
			continue
		}
		m, ok := manifests[key]
		if !ok {
			var err error
			if m.Manifest, m.size, err = s.manifest(ctx, d.App, d.Digest); err != nil {
				if ctx.Err() != nil || !permanent(err) {
					return nil, err
				}
				s.log.Error("a deployed type cannot be served", "app", d.App, "actor_type", d.Type, "module", d.Digest.Short(), "error", err)
				entries[name] = served{ServedType: ServedType{Deployment: d}, err: err}
				continue
			}
			manifests[key] = m
		}
		spec := typeSpec(m.Manifest, d.Type)
		if spec == nil {
			entries[name] = served{ServedType: ServedType{Deployment: d}, err: fmt.Errorf("module %s does not declare %s: %w", d.Digest.Short(), d.Type, actor.ErrModuleDamaged)}
			continue
		}
		entries[name] = served{ServedType: ServedType{Spec: placed(spec, d.Placement), Deployment: d}, size: m.size}
	}
	return entries, nil
}

// prepare calls Config.Prepare. A module that cannot be prepared serves all the
// same.
func (s *serving) prepare(ctx context.Context, m module) {
	s.prepareFor(ctx, m, engine.Owner{App: m.app, Serving: true})
}

// prepareFor prepares a module in the name of an owner.
func (s *serving) prepareFor(ctx context.Context, m module, owner engine.Owner) {
	err := s.prepareModule(engine.WithOwner(ctx, owner), m.app, m.digest)
	if err != nil && ctx.Err() == nil {
		s.log.Warn("cannot prepare a module; its first call will try again", "app", m.app, "module", m.digest.Short(), "error", err)
	}
}

// prepareAll prepares the modules that serve already, until ctx ends. It takes one
// at a time, with the share of an upload: calls and uploads find a compiler after this one.
func (s *serving) prepareAll(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.preparing.more:
		}
		for ctx.Err() == nil {
			m, ok := s.preparing.next()
			if !ok {
				break
			}
			s.prepareFor(ctx, m, engine.Owner{App: m.app})
		}
	}
}

// merge puts entries into a new table.
func (s *serving) merge(entries map[typeName]served) {
	for len(entries) > 0 {
		old := s.current.Load()
		next := &table{types: make(map[typeName]served, len(old.types)+len(entries)), number: old.number + 1}
		maps.Copy(next.types, old.types)
		var changed []served
		for name, t := range entries {
			if have, ok := old.types[name]; ok && have.Deployment.Generation > t.Deployment.Generation {
				continue
			}
			next.types[name] = t
			changed = append(changed, t)
		}
		next.indexServices()
		if s.current.CompareAndSwap(old, next) {
			s.notify()
			for _, t := range changed {
				if t.Deployment.Undeployed() {
					s.log.Info("type is out of service", "app", t.Deployment.App, "actor_type", t.Deployment.Type, "generation", t.Deployment.Generation)
					continue
				}
				s.log.Info("deployment serves", "app", t.Deployment.App, "actor_type", t.Deployment.Type,
					"generation", t.Deployment.Generation, "module", t.Deployment.Digest.Short())
			}
			return
		}
	}
}

// placed returns a type with the placement of a deployment, if it has one.
func placed(spec *abi.TypeSpec, placement string) *abi.TypeSpec {
	if placement == "" || placement == spec.Placement {
		return spec
	}
	changed := *spec
	changed.Placement = placement
	return &changed
}

func typeSpec(m *abi.Manifest, name string) *abi.TypeSpec {
	for i := range m.Types {
		if m.Types[i].Name == name {
			return &m.Types[i]
		}
	}
	return nil
}

// refresher lets many callers share one read each. Reads of one app go one after
// another; those of different apps do not wait for each other, since a read also
// prepares what it found.
type refresher struct {
	read func(ctx context.Context, app string) error

	mu   sync.Mutex
	apps map[string]*flights // that are being read
}

// flights are the reads of an app.
type flights struct {
	token   chan struct{} // holds one: of the read that goes on
	waiting *flight       // not begun, so that callers may still join; nil if none
	users   int           // who makes a read; nobody: forgotten
}

type flight struct {
	done chan struct{}
	err  error
}

// do joins the next read of app, or makes it. The one who makes it sees it
// through even if its ctx ends, for the sake of those who joined.
func (r *refresher) do(ctx context.Context, app string) error {
	r.mu.Lock()
	fs := r.apps[app]
	if fs == nil {
		fs = &flights{token: make(chan struct{}, 1)}
		r.apps[app] = fs
	}
	f := fs.waiting
	joined := f != nil
	if !joined {
		f = &flight{done: make(chan struct{})}
		fs.waiting = f
		fs.users++
	}
	r.mu.Unlock()
	if joined {
		select {
		case <-f.done:
			return f.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	fs.token <- struct{}{}
	r.mu.Lock()
	fs.waiting = nil
	r.mu.Unlock()
	f.err = r.read(context.WithoutCancel(ctx), app)
	<-fs.token
	r.mu.Lock()
	if fs.users--; fs.users == 0 {
		delete(r.apps, app)
	}
	r.mu.Unlock()
	close(f.done)
	return f.err
}

// permanent reports whether reading a manifest again would give the same error.
func permanent(err error) bool {
	return errors.Is(err, actor.ErrModuleDamaged) || errors.Is(err, actor.ErrModuleNotFound)
}
