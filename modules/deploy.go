package modules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
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
}

// RollbackRequest asks for an earlier deployment's module to serve a type again.
type RollbackRequest struct {
	App, Type string
	// Generation is the one to go back to; 0 means the newest one that used
	// another module than serves now.
	Generation uint64
	// Force also goes back to a module with an older state schema.
	Force bool
}

// Deploy switches types to a module, all of them or none, and returns what then
// serves each, in the order of the request or of the manifest, with what the
// deployer should know. Types that the module serves already are left as they
// are. Errors: [actor.ErrModuleNotFound], [actor.ErrSchemaRollback], an
// [*actor.ArgumentError] for a type that the module lacks, [actor.ErrDeployConflict]
// if others kept deploying the same types.
func (s *Service) Deploy(ctx context.Context, req DeployRequest) ([]actor.Deployment, []string, error) {
	digest, err := s.resolve(ctx, req.App, req.Digest)
	if err != nil {
		return nil, nil, err
	}
	m, err := s.manifest(ctx, req.App, digest)
	if err != nil {
		return nil, nil, fmt.Errorf("deploy: %w", err)
	}
	specs, err := selectTypes(m, digest, req.Types)
	if err != nil {
		return nil, nil, err
	}
	ds, warnings, err := s.change(ctx, change{app: req.App, digest: digest, manifest: m, specs: specs, force: req.Force})
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

// Rollback makes an earlier generation's module serve a type again, as a new
// generation. Errors: [actor.ErrTypeNotFound], [actor.ErrNoGeneration],
// [actor.ErrModuleNotFound] if that module was deleted, [actor.ErrSchemaRollback].
func (s *Service) Rollback(ctx context.Context, req RollbackRequest) (actor.Deployment, []string, error) {
	if err := validateType(req.App, req.Type); err != nil {
		return actor.Deployment{}, nil, err
	}
	current, target, err := s.rollbackTarget(ctx, req)
	if err == nil && target.Digest == current.Digest {
		return current, nil, nil
	}
	var m *abi.Manifest
	if err == nil {
		m, err = s.manifest(ctx, req.App, target.Digest)
	}
	if err != nil {
		return actor.Deployment{}, nil, fmt.Errorf("roll back %s: %w", req.Type, err)
	}
	specs, err := selectTypes(m, target.Digest, []string{req.Type})
	if err != nil {
		return actor.Deployment{}, nil, err
	}
	ds, warnings, err := s.change(ctx, change{
		app: req.App, digest: target.Digest, manifest: m, specs: specs, force: req.Force, rollback: true,
	})
	if err != nil {
		return actor.Deployment{}, nil, fmt.Errorf("roll back %s to generation %d: %w", req.Type, target.Generation, err)
	}
	return ds[0], warnings, nil
}

// rollbackTarget finds the type's current deployment and the one to go back to.
func (s *Service) rollbackTarget(ctx context.Context, req RollbackRequest) (current, target actor.Deployment, err error) {
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
		return current, ds[0], nil
	}
	deleted := 0
	for before := current.Generation; before > 1; {
		ds, err := s.store.DeploymentHistory(ctx, req.App, req.Type, before, defaultPage)
		if err != nil {
			return current, target, err
		}
		if len(ds) == 0 {
			break
		}
		for _, d := range ds {
			if d.Digest == current.Digest {
				continue
			}
			switch _, err := s.manifest(ctx, req.App, d.Digest); {
			case errors.Is(err, actor.ErrModuleNotFound):
				deleted++
			default: // what else is wrong with it is for the rollback to say
				return current, d, nil
			}
		}
		before = ds[len(ds)-1].Generation
	}
	if deleted > 0 {
		return current, target, fmt.Errorf("the modules of all earlier generations that used another one were deleted: %w", actor.ErrNoGeneration)
	}
	return current, target, fmt.Errorf("no earlier generation used another module: %w", actor.ErrNoGeneration)
}

// change is a switch of types to a module.
type change struct {
	app      string
	digest   actor.Digest
	manifest *abi.Manifest
	specs    []*abi.TypeSpec
	force    bool
	rollback bool
}

// change carries a change out. A conflict or a lost answer starts it anew from
// what serves then.
func (s *Service) change(ctx context.Context, c change) ([]actor.Deployment, []string, error) {
	// Before the deployment is stored, so that it serves as soon as others see it.
	s.prepare(ctx, module{c.app, c.digest})
	var warnings []string
	for try := 0; ; try++ {
		all, err := s.store.Deployments(ctx, c.app)
		if err != nil {
			return nil, nil, err
		}
		current := make(map[string]actor.Deployment, len(all))
		for _, d := range all {
			current[d.Type] = d
		}
		wanted, result, err := c.plan(current)
		if err != nil {
			return nil, nil, err
		}
		if len(wanted) > 0 {
			old, err := s.replaced(ctx, c, current)
			if err != nil {
				return nil, nil, err
			}
			warnings = warn(c, current, old)
			if err := s.store.Deploy(ctx, wanted); err != nil {
				if try < maxTries && (errors.Is(err, actor.ErrDeployConflict) || errors.Is(err, actor.ErrAmbiguous)) {
					continue
				}
				return nil, nil, err
			}
		}
		return s.settled(ctx, c.app, result), warnings, nil
	}
}

// plan decides what to ask of the store, and what will serve the types after it.
func (c change) plan(current map[string]actor.Deployment) (wanted, result []actor.Deployment, err error) {
	for _, spec := range c.specs {
		cur, serves := current[spec.Name]
		if serves && cur.Digest == c.digest {
			result = append(result, cur)
			continue
		}
		if serves && spec.StateSchema < cur.StateSchema && !c.force {
			return nil, nil, fmt.Errorf("%s: module %s declares state schema %d and would replace generation %d with schema %d; it could not read what is stored; force it only if no state of schema %d was written: %w",
				spec.Name, c.digest.Short(), spec.StateSchema, cur.Generation, cur.StateSchema, cur.StateSchema, actor.ErrSchemaRollback)
		}
		d := actor.Deployment{App: c.app, Type: spec.Name, Generation: cur.Generation + 1, Digest: c.digest, StateSchema: spec.StateSchema}
		if c.rollback {
			d.RolledBackFrom = cur.Generation
		}
		wanted = append(wanted, d)
		result = append(result, d)
	}
	return wanted, result, nil
}

// replaced returns the manifests of the modules that the change takes types
// from, by digest. One that cannot be read is left out: it must not keep a
// better module from replacing it.
func (s *Service) replaced(ctx context.Context, c change, current map[string]actor.Deployment) (map[actor.Digest]*abi.Manifest, error) {
	old := make(map[actor.Digest]*abi.Manifest)
	for _, spec := range c.specs {
		cur, serves := current[spec.Name]
		if !serves || old[cur.Digest] != nil || cur.Digest == c.digest {
			continue
		}
		m, err := s.manifest(ctx, c.app, cur.Digest)
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

// permanent reports whether reading a manifest again would give the same error.
func permanent(err error) bool {
	return errors.Is(err, actor.ErrModuleDamaged) || errors.Is(err, actor.ErrModuleNotFound)
}

// settled makes hosts of this process see a change that is durable already, and
// completes result with the times that the store gave.
func (s *Service) settled(ctx context.Context, app string, result []actor.Deployment) []actor.Deployment {
	ctx = context.WithoutCancel(ctx)
	if err := s.Refresh(ctx, app); err != nil {
		s.log.Warn("cannot read deployments after a change; the next poll will", "app", app, "error", err)
		return result
	}
	types := s.current.Load().types
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
func (s *Service) History(ctx context.Context, app, typ string, before uint64, limit int) ([]actor.Deployment, error) {
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
		if !slices.Contains(specs, spec) {
			specs = append(specs, spec)
		}
	}
	return specs, nil
}
