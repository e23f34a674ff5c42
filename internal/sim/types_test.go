package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/hosttest"
	"github.com/greenroom-run/greenroom/scheduler"
)

// actorType is an actor type of a run.
type actorType struct {
	name   string
	actors int
	// deletes says that its actors are deleted now and then.
	deletes bool
	// together is its group, if its actors are ledgers.
	together abi.CoLocate
	// deployed is shared by the types of a group, which are deployed together.
	*deployed
}

// deployed are the deployments of a type.
type deployed struct {
	// policies are those of the deployments, in order; the last one stays.
	policies []string

	mu         sync.Mutex
	generation uint64 // of the newest one, in the database
}

// heldPolicies are those whose actors have one place.
var heldPolicies = []string{abi.PlacementSticky, abi.PlacementRing, "static:p0,p1,p2", "static:p2,p0", "checkout:3", "ring:2", "ring:3"}

// newTypes chooses the types of a run: there is always one that is sticky, or of a ring.
func newTypes(plan *rand.Rand) []*actorType {
	policies := []string{
		[]string{abi.PlacementSticky, abi.PlacementRing, "ring:2"}[plan.IntN(3)],
		append([]string{abi.PlacementAny}, heldPolicies...)[plan.IntN(1+len(heldPolicies))],
		append([]string{abi.PlacementAny, abi.PlacementStateless}, heldPolicies[1:]...)[plan.IntN(1+len(heldPolicies))],
	}
	var types []*actorType
	for i, policy := range policies {
		t := &actorType{name: fmt.Sprintf("T%d", i), actors: 1, deployed: &deployed{policies: []string{policy}, generation: 1}}
		if i == 0 {
			t.actors = 2
		}
		if t.deletes = !t.stateless() && plan.IntN(4) == 0; !t.stateless() && plan.IntN(3) == 0 {
			others := append([]string{abi.PlacementAny}, heldPolicies...)
			for range 2 + plan.IntN(3) {
				t.policies = append(t.policies, others[plan.IntN(len(others))])
			}
		}
		types = append(types, t)
	}
	return types
}

func (t *actorType) stateless() bool { return t.policies[0] == abi.PlacementStateless }

// hasReaders reports whether its actors may have readers, in one of its deployments.
func (t *actorType) hasReaders() bool {
	return slices.ContainsFunc(t.policies, func(p string) bool { return strings.HasPrefix(p, abi.PlacementRing+":") })
}

// held reports whether each of its actors has one place, in all its deployments.
func (t *actorType) held() bool {
	return !t.stateless() && !slices.Contains(t.policies, abi.PlacementAny)
}

// sticky reports whether it is, in all its deployments.
func (t *actorType) sticky() bool {
	for _, p := range t.policies {
		if p != abi.PlacementSticky {
			return false
		}
	}
	return true
}

// policy is that of a deployment.
func (t *actorType) policy(generation uint64) string {
	return t.policies[min(int(generation), len(t.policies))-1] //nolint:gosec // small
}

func (t *actorType) newest() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.generation
}

func (w *world) typeOf(key actor.Key) *actorType {
	for _, t := range w.types {
		if t.name == key.Type {
			return t
		}
	}
	panic("sim: there is no type " + key.Type)
}

// deploys makes the next deployment of a type, at a process.
func (w *world) deploys(p *process, t *actorType) {
	t.mu.Lock()
	before := t.policy(t.generation)
	t.generation++
	after := t.policy(t.generation)
	t.mu.Unlock()
	w.happened("deployment")
	switch {
	case before == after:
	case before == abi.PlacementAny:
		w.happened("policy changed from any")
	case after == abi.PlacementAny:
		w.happened("policy changed to any")
	default:
		w.happened("policy changed")
	}
	w.note("  %s at %s: %s", t.name, p.name, after)
	p.learn()
	p.service.TypesChanged()
}

// guest is the actor of a type.
func (w *world) guest(p *process, t *actorType, policy string) hosttest.Actor {
	if t.together.Group != "" {
		return w.ledgerType(p, policy)
	}
	return w.counter(p, t, policy)
}

// learn has the process serve the newest deployments.
func (p *process) learn() {
	p.learning.Lock()
	defer p.learning.Unlock()
	for _, t := range p.w.types {
		for have := p.known[t.name]; have < t.newest(); have++ {
			p.guests.Deploy(app, t.name, p.w.guest(p, t, t.policy(have+1)))
			p.known[t.name] = have + 1
		}
	}
}

// refresh reads the deployments.
func (p *process) refresh(ctx context.Context, _ string) error {
	if p.late.Load() {
		return errCut
	}
	_, err := ask(ctx, &access{p: p}, "types", func(context.Context) (struct{}, error) { return struct{}{}, nil })
	if err == nil {
		p.learn()
		p.service.TypesChanged()
	}
	return err
}

// policy is that of a type as far as the process knows.
func (p *process) policy(typ string) string {
	_, spec, err := p.guests.Current(app, typ)
	if err != nil {
		panic(err)
	}
	return spec.Placement
}

// readers returns who may answer a call beside the process that holds its actor.
func (p *process) readers(inv *actor.Invocation) (hosts []actor.HostID, here bool) {
	if !inv.ReadOnly || inv.Consistency == actor.ConsistencyStrong {
		return nil, false
	}
	if hosts, here = p.service.Readers(inv.Key); here {
		p.w.happened("read at a reader")
	}
	return hosts, here
}

// serves are the types that the process can run.
func (p *process) serves() []scheduler.Type {
	var all []scheduler.Type
	for _, t := range p.w.types {
		d, spec, err := p.guests.Current(app, t.name)
		if err != nil {
			panic(err)
		}
		all = append(all, scheduler.Type{App: app, Name: t.name, Placement: spec.Placement, Generation: d.Generation, CoLocate: t.together, Readers: true})
	}
	return all
}

// catalog is the deployments as a process's host reads them.
type catalog struct {
	*hosttest.World
	p *process
}

// Refresh implements [host.ModuleSource].
func (c catalog) Refresh(ctx context.Context, app string) error { return c.p.refresh(ctx, app) }

// kindOfPolicy is a policy without what it is given.
func kindOfPolicy(policy string) string {
	kind, _, _ := strings.Cut(policy, ":")
	return kind
}
