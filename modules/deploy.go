package modules

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/abi/manifest"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// DeployRequest asks for a module to serve actor types.
type DeployRequest struct {
	App string
	// Digest is the module's, or at least 6 of its first digits.
	Digest actor.Digest
	// Types of the module to switch; empty means all that it declares.
	Types []string
	// Force also deploys a module with an older state schema.
	Force bool
	// Placements are the policies of types, in the form of the manifest, which go before
	// those of the module, and of those that follow, until they are changed:
	// [ModulePlacement] gives the type back what its module declares.
	Placements map[string]string
	// Message is kept with each deployment that is made: [store.MaxDeployMessage].
	Message string
}

// ModulePlacement stands for the placement that a type's module declares.
const ModulePlacement = "manifest"

// RollbackRequest asks for an earlier deployment's module to serve a type again.
type RollbackRequest struct {
	App, Type string
	// Generation is the one to go back to; 0 means the newest one that used
	// another module than serves now, which must not have been deleted.
	Generation uint64
	// Force also goes back to a module with an older state schema.
	Force bool
	// Message is kept with the deployment.
	Message string
}

// UndeployRequest asks for types to be taken out of service.
type UndeployRequest struct {
	App   string
	Types []string
	// Message is kept with each undeployment.
	Message string
}

// deployer is the part of a [Service] that changes what serves types.
type deployer struct {
	*library
	serving   *serving
	reminders reminderWarnings
}

// Deploy switches types to a module, all of them or none, and returns what then
// serves each, in the order of the request or of the manifest, with what the
// deployer should know. Types that the module serves already, with the placement
// that is asked for, are left as they are. Errors: [actor.ErrModuleNotFound], [actor.ErrSchemaRollback], an
// [*actor.ArgumentError] for a type that the module lacks and for a placement that cannot be, [actor.ErrDeployConflict]
// if others kept deploying the same types.
func (s *deployer) Deploy(ctx context.Context, req DeployRequest) ([]actor.Deployment, []string, error) {
	digest, err := s.resolve(ctx, req.App, req.Digest)
	if err != nil {
		return nil, nil, err
	}
	m, _, err := s.manifest(ctx, req.App, digest)
	if err != nil {
		return nil, nil, fmt.Errorf("deploy: %w", err)
	}
	specs, err := selectTypes(m, digest, req.Types)
	if err != nil {
		return nil, nil, err
	}
	placements, err := parsePlacements(req.Placements, specs)
	if err != nil {
		return nil, nil, err
	}
	ds, warnings, err := s.change(ctx, change{
		app: req.App, digest: digest, manifest: m, specs: specs, placements: placements, force: req.Force, message: req.Message,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("deploy module %s: %w", digest.Short(), err)
	}
	for _, spec := range specs {
		for _, w := range spec.Warnings {
			warnings = append(warnings, spec.Name+": "+w)
		}
	}
	return ds, warnings, nil
}

// Undeploy takes types out of service, all of them or none, and returns the
// undeployments in the order of the request: each is its type's next generation.
// What the types' actors stored stays. Types that are out of service already are
// left as they are. Errors: [actor.ErrTypeNotFound] for a type that was never
// deployed, an [*actor.ArgumentError] for no type, [actor.ErrDeployConflict] if
// others kept deploying the same types.
//
// The warnings say which of the types have reminders.
func (s *deployer) Undeploy(ctx context.Context, req UndeployRequest) (ds []actor.Deployment, warnings []string, err error) {
	if len(req.Types) == 0 {
		return nil, nil, &actor.ArgumentError{Field: "types", Problem: "is empty; name what to take out of service"}
	}
	for _, typ := range req.Types {
		if err := validateType(req.App, typ); err != nil {
			return nil, nil, err
		}
	}
	var gone []string
	ds, err = s.deploy(ctx, req.App, false, func(current map[string]actor.Deployment) (wanted, result []actor.Deployment, err error) {
		gone = nil
		planned := make(map[string]bool)
		for _, typ := range req.Types {
			cur, ok := current[typ]
			if !ok {
				return nil, nil, fmt.Errorf("%w: app %s has no type %s", actor.ErrTypeNotFound, req.App, typ)
			}
			if planned[typ] {
				continue
			}
			planned[typ] = true
			if !cur.Undeployed() {
				cur = actor.Deployment{
					App: req.App, Type: typ, Generation: cur.Generation + 1, StateSchema: cur.StateSchema, Placement: cur.Placement, Message: req.Message,
				}
				wanted = append(wanted, cur)
				gone = append(gone, typ)
			}
			result = append(result, cur)
		}
		return wanted, result, nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("undeploy: %w", err)
	}
	return ds, s.reminders.warnOfUndeployed(ctx, req.App, gone), nil
}

// Rollback makes an earlier generation's module serve a type again, with the placement
// that was deployed then, as a new generation; also a type that is out of service. Errors: [actor.ErrTypeNotFound],
// [actor.ErrNoGeneration], [actor.ErrModuleNotFound] if that module was deleted,
// [actor.ErrSchemaRollback].
func (s *deployer) Rollback(ctx context.Context, req RollbackRequest) (actor.Deployment, []string, error) {
	if err := validateType(req.App, req.Type); err != nil {
		return actor.Deployment{}, nil, err
	}
	current, target, err := s.rollbackTarget(ctx, req)
	if err == nil && target.Digest == current.Digest && target.Placement == current.Placement {
		return current, nil, nil
	}
	var m *abi.Manifest
	if err == nil {
		m, _, err = s.manifest(ctx, req.App, target.Digest)
	}
	if err != nil {
		return actor.Deployment{}, nil, fmt.Errorf("roll back %s: %w", req.Type, err)
	}
	specs, err := selectTypes(m, target.Digest, []string{req.Type})
	if err != nil {
		return actor.Deployment{}, nil, err
	}
	ds, warnings, err := s.change(ctx, change{
		app: req.App, digest: target.Digest, manifest: m, specs: specs, placements: map[string]string{req.Type: target.Placement},
		force: req.Force, rollback: true, message: req.Message,
	})
	if err != nil {
		return actor.Deployment{}, nil, fmt.Errorf("roll back %s to generation %d: %w", req.Type, target.Generation, err)
	}
	return ds[0], warnings, nil
}

// rollbackTarget finds the type's current deployment and the one to go back to.
func (s *deployer) rollbackTarget(ctx context.Context, req RollbackRequest) (current, target actor.Deployment, err error) {
	newest, err := s.store.DeploymentHistory(ctx, req.App, req.Type, 0, 1)
	if err != nil {
		return current, target, err
	}
	if len(newest) == 0 {
		return current, target, actor.ErrTypeNotFound
	}
	current = newest[0]
	if req.Generation > 0 {
		ds, err := s.store.DeploymentHistory(ctx, req.App, req.Type, req.Generation+1, 1)
		if err != nil {
			return current, target, err
		}
		if len(ds) == 0 || ds[0].Generation != req.Generation {
			return current, target, fmt.Errorf("generation %d (the current one is %d): %w", req.Generation, current.Generation, actor.ErrNoGeneration)
		}
		if ds[0].Undeployed() {
			return current, target, fmt.Errorf("generation %d took the type out of service, which no rollback does; undeploy it instead: %w", req.Generation, actor.ErrNoGeneration)
		}
		return current, ds[0], nil
	}
	for before := current.Generation; before > 1; {
		ds, err := s.store.DeploymentHistory(ctx, req.App, req.Type, before, defaultPage)
		if err != nil {
			return current, target, err
		}
		if len(ds) == 0 {
			break
		}
		for _, d := range ds {
			if d.Undeployed() || d.Digest == current.Digest {
				continue
			}
			// An older one in its place would be a surprise.
			if _, err := s.store.Module(ctx, req.App, d.Digest); errors.Is(err, actor.ErrModuleNotFound) {
				return current, target, fmt.Errorf("the module %s of generation %d, the newest with another module, was deleted; upload it again, or name an earlier generation: %w", d.Digest.Short(), d.Generation, actor.ErrModuleNotFound)
			}
			return current, d, nil // what else is wrong with it is for the rollback to say
		}
		before = ds[len(ds)-1].Generation
	}
	return current, target, fmt.Errorf("no earlier generation used another module: %w", actor.ErrNoGeneration)
}

// change carries a change out.
func (s *deployer) change(ctx context.Context, c change) ([]actor.Deployment, []string, error) {
	if err := s.checkHosts(ctx, c.app, c.digest); err != nil {
		return nil, nil, err
	}
	// Before the deployment is stored, so that it serves as soon as others see it.
	s.serving.prepare(ctx, module{c.app, c.digest})
	var warnings []string
	var removed []removedMethod
	ds, err := s.deploy(ctx, c.app, c.rests(), func(current map[string]actor.Deployment) (wanted, result []actor.Deployment, err error) {
		wanted, result, err = c.plan(current)
		if err == nil && len(wanted) > 0 {
			var old map[actor.Digest]*abi.Manifest
			if old, err = s.replaced(ctx, c, current); err == nil {
				warnings = warn(c, current, old)
				removed = c.removed(current, old)
				var apart []string
				apart, err = s.checkOthers(ctx, c, current)
				warnings = append(warnings, apart...)
			}
		}
		return wanted, result, err
	})
	if err == nil {
		warnings = append(warnings, s.reminders.warnOfReminders(ctx, c.app, removed)...)
	}
	return ds, warnings, err
}

// deploy asks the store for what plan wants, and returns plan's result with the
// times of the store. A conflict or a lost answer starts it anew from what is
// current then. Where the plan rests on types that it does not change, so does a deployment of any
// type in between.
func (s *deployer) deploy(ctx context.Context, app string, rests bool,
	plan func(current map[string]actor.Deployment) (wanted, result []actor.Deployment, err error),
) ([]actor.Deployment, error) {
	for try := 0; ; try++ {
		all, err := s.store.Deployments(ctx, app)
		if err != nil {
			return nil, err
		}
		current := make(map[string]actor.Deployment, len(all))
		for _, d := range all {
			current[d.Type] = d
		}
		wanted, result, err := plan(current)
		if err != nil {
			return nil, err
		}
		if len(wanted) > 0 {
			revision := store.AnyRevision
			if rests {
				revision = store.Revision(all)
			}
			if err := s.store.Deploy(ctx, wanted, revision); err != nil {
				if try < maxTries && (errors.Is(err, actor.ErrDeployConflict) || errors.Is(err, actor.ErrAmbiguous)) {
					continue
				}
				return nil, err
			}
		}
		return s.settled(ctx, app, result), nil
	}
}

// after is what types an app has once a change is made: those of the change first.
type after struct {
	types   []abi.TypeSpec
	digests []actor.Digest // of their modules
}

// typesAfter returns the types of an app once a change is made, as their manifests have them and with
// the placements that are deployed. A type whose module cannot be read is left out.
func (s *deployer) typesAfter(ctx context.Context, c change, current map[string]actor.Deployment) (after, error) {
	var a after
	for _, spec := range c.specs {
		a.types = append(a.types, *placed(spec, c.placement(spec, current[spec.Name])))
		a.digests = append(a.digests, c.digest)
	}
	manifests := make(map[actor.Digest]*abi.Manifest)
	for _, name := range slices.Sorted(maps.Keys(current)) {
		cur := current[name]
		if cur.Undeployed() || slices.ContainsFunc(c.specs, func(t *abi.TypeSpec) bool { return t.Name == name }) {
			continue
		}
		if _, read := manifests[cur.Digest]; !read {
			m, _, err := s.manifest(ctx, c.app, cur.Digest)
			if err != nil && !permanent(err) {
				return after{}, err
			}
			manifests[cur.Digest] = m
		}
		if m := manifests[cur.Digest]; m != nil {
			if spec := typeSpec(m, name); spec != nil {
				a.types = append(a.types, *placed(spec, cur.Placement))
				a.digests = append(a.digests, cur.Digest)
			}
		}
	}
	return a, nil
}

// checkServices refuses a change after which two types of an app would serve one Protobuf service.
func checkServices(c change, a after) error {
	for _, spec := range c.specs {
		if spec.Protobuf.IsZero() {
			continue
		}
		for _, other := range a.types {
			if other.Protobuf.Service == spec.Protobuf.Service && other.Name != spec.Name {
				return &actor.ArgumentError{Field: "types", Problem: "has " + spec.Name + ", whose service " + spec.Protobuf.Service + " is that of type " + other.Name +
					"; undeploy that type, or give the service another package"}
			}
		}
	}
	return nil
}

// warnOfAtomicMethods warns of methods that must be in their callers' transactions and whose callers
// may be at other servers.
func (s *deployer) warnOfAtomicMethods(ctx context.Context, c change, a after) (warnings []string, err error) {
	calling := make(map[actor.Digest]bool)
	calls := func(d actor.Digest) (bool, error) {
		if _, known := calling[d]; !known {
			functions, err := s.imports(ctx, c.app, d)
			if err != nil && !permanent(err) { // a module that cannot be read cannot run
				return false, fmt.Errorf("module %s: %w", d.Short(), err)
			}
			calling[d] = slices.Contains(functions, abi.FuncCall)
		}
		return calling[d], nil
	}
	for i := range c.specs { // the first of the types
		w, err := warnOfAtomic(i, a.types, a.digests, calls)
		if err != nil {
			return nil, err
		}
		if w != "" {
			warnings = append(warnings, w)
		}
	}
	return warnings, nil
}

// checkOthers checks a change against the types of the app that it does not switch: two types would
// serve one Protobuf service, or types of one group would have different placements.
func (s *deployer) checkOthers(ctx context.Context, c change, current map[string]actor.Deployment) (warnings []string, err error) {
	if !c.rests() && !slices.ContainsFunc(c.specs, func(t *abi.TypeSpec) bool { return len(atomicMethods(t)) > 0 }) {
		return nil, nil
	}
	a, err := s.typesAfter(ctx, c, current)
	if err != nil {
		return nil, err
	}
	if err := checkServices(c, a); err != nil {
		return nil, err
	}
	if err := manifest.CheckGroups(a.types); err != nil {
		return nil, &actor.ArgumentError{Field: "co_locate:", Problem: err.Error()}
	}
	return s.warnOfAtomicMethods(ctx, c, a)
}

// replaced returns the manifests of the modules that the change takes types
// from, by digest. One that cannot be read is left out: it must not keep a
// better module from replacing it.
func (s *deployer) replaced(ctx context.Context, c change, current map[string]actor.Deployment) (map[actor.Digest]*abi.Manifest, error) {
	old := make(map[actor.Digest]*abi.Manifest)
	for _, spec := range c.specs {
		cur := current[spec.Name]
		if cur.Undeployed() || old[cur.Digest] != nil {
			continue
		}
		m, _, err := s.manifest(ctx, c.app, cur.Digest)
		if permanent(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		old[cur.Digest] = m
	}
	return old, nil
}

// settled makes hosts of this process see a change that is durable already, and
// completes result with the times that the store gave.
func (s *deployer) settled(ctx context.Context, app string, result []actor.Deployment) []actor.Deployment {
	ctx = context.WithoutCancel(ctx)
	if err := s.serving.Refresh(ctx, app); err != nil {
		s.log.Warn("cannot read deployments after a change; the next poll will", "app", app, "error", err)
		return result
	}
	types := s.serving.current.Load().types
	for i, d := range result {
		if t := types[typeName{app, d.Type}]; t.Deployment.Generation == d.Generation {
			result[i] = t.Deployment
		}
	}
	return result
}

// History returns a type's deployments, newest first, with a generation below
// before (0: from the newest), at most limit (1 to 1000, 0 meaning 100);
// [actor.ErrTypeNotFound] for a type that was never deployed.
func (s *deployer) History(ctx context.Context, app, typ string, before uint64, limit int) ([]actor.Deployment, error) {
	if err := validateType(app, typ); err != nil {
		return nil, err
	}
	ds, err := s.store.DeploymentHistory(ctx, app, typ, before, pageSize(limit))
	if err == nil && len(ds) == 0 && before == 0 {
		err = actor.ErrTypeNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("history of %s: %w", typ, err)
	}
	return ds, nil
}

func validateType(app, typ string) error {
	if err := actor.ValidateName("app", app); err != nil {
		return err
	}
	return actor.ValidateName("actor type", typ)
}

// parsePlacements checks the placements that are asked for, and returns them as they are
// stored.
func parsePlacements(asked map[string]string, specs []*abi.TypeSpec) (map[string]string, error) {
	parsed := make(map[string]string, len(asked))
	for _, typ := range slices.Sorted(maps.Keys(asked)) {
		at := slices.IndexFunc(specs, func(s *abi.TypeSpec) bool { return s.Name == typ })
		if at < 0 {
			return nil, &actor.ArgumentError{Field: "placement", Problem: fmt.Sprintf("is for the type %q, which is not among those to deploy", typ)}
		}
		text := asked[typ]
		if text == ModulePlacement {
			parsed[typ] = ""
			continue
		}
		field := "placement of " + typ
		p, err := manifest.ParsePlacement(text)
		if err != nil {
			return nil, &actor.ArgumentError{Field: field, Problem: fmt.Sprintf("%v, or %s for that of the module: %q is given", err, ModulePlacement, text)}
		}
		if was := specs[at].Placement; (p.Policy == abi.PlacementStateless) != (was == abi.PlacementStateless) {
			return nil, &actor.ArgumentError{Field: field, Problem: fmt.Sprintf("is to be %s, and its code is for %s: whether a type has state is for its module to declare", text, was)}
		}
		parsed[typ] = p.String()
	}
	return parsed, nil
}

// selectTypes returns the named types of a manifest, all of them for none.
func selectTypes(m *abi.Manifest, digest actor.Digest, names []string) ([]*abi.TypeSpec, error) {
	if len(names) == 0 {
		for _, t := range m.Types {
			names = append(names, t.Name)
		}
	}
	specs := make([]*abi.TypeSpec, 0, len(names))
	for _, name := range names {
		spec := typeSpec(m, name)
		if spec == nil {
			var have []string
			for _, t := range m.Types {
				have = append(have, t.Name)
			}
			return nil, &actor.ArgumentError{Field: "actor type", Problem: fmt.Sprintf("%q is not in module %s; it has %s", name, digest.Short(), strings.Join(have, ", "))}
		}
		if name == actor.SubscriptionType {
			return nil, &actor.ArgumentError{Field: "actor type", Problem: name + " is the type of reminders that are for no actor; give the type another name"}
		}
		if !slices.Contains(specs, spec) {
			specs = append(specs, spec)
		}
	}
	return specs, nil
}
