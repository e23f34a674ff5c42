package modules_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/modules"
)

// placedDeploy deploys with placements, and checks what serves A then, at both services:
// another process sees the same.
func placedDeploy(f *fixture, other *modules.Service, d actor.Digest, placements map[string]string, wantGeneration uint64, wantDeployed, wantServed string) []string {
	f.t.Helper()
	ctx := context.Background()
	_, warnings, err := f.Deploy(ctx, modules.DeployRequest{App: app, Digest: d, Placements: placements})
	if err != nil {
		f.t.Fatal(err)
	}
	if err := other.Refresh(ctx, app); err != nil {
		f.t.Fatal(err)
	}
	for name, s := range map[string]*modules.Service{"this process": f.Service, "another": other} {
		got, spec, err := s.Current(app, "A")
		if err != nil || got.Generation != wantGeneration || got.Placement != wantDeployed || spec.Placement != wantServed {
			f.t.Errorf("%s: %+v as %s, %v; want generation %d, %q, served as %s", name, got, spec.Placement, err, wantGeneration, wantDeployed, wantServed)
		}
	}
	return warnings
}

// TestDeployPlacement: a placement that is deployed goes before the manifest's, for every
// process, makes a generation by itself, and stays until it is changed.
func TestDeployPlacement(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t)
	other := f.service(1 << 40)
	first := f.upload(typ("A", "", "Do"), typ("B", `"placement":"any"`, "Do"))
	second := f.upload(typ("A", `"placement":"any"`, "Do"), typ("B", `"placement":"any"`, "Do"))
	for _, step := range []struct {
		name                     string
		digest                   actor.Digest
		placements               map[string]string
		generation               uint64
		deployed, served, warned string
	}{
		{"as the manifest says", first, nil, 1, "", "ring", ""},
		{"another placement of the same module", first, map[string]string{"A": "checkout"}, 2, "checkout:32", "checkout:32", "A: placement changes from ring to checkout:32"},
		{"the same again", first, map[string]string{"A": "checkout:32"}, 2, "checkout:32", "checkout:32", ""},
		{"nothing said", first, nil, 2, "checkout:32", "checkout:32", ""},
		{"another module keeps it", second, nil, 3, "checkout:32", "checkout:32", ""},
		{"static", second, map[string]string{"A": "static:x,y"}, 4, "static:x,y", "static:x,y", "A: placement changes from checkout:32 to static:x,y"},
		{"back to the manifest's", second, map[string]string{"A": modules.ModulePlacement}, 5, "", "any", "A: placement changes from static:x,y to any"},
	} {
		t.Run(step.name, func(t *testing.T) {
			f.t = t
			warnings := placedDeploy(f, other, step.digest, step.placements, step.generation, step.deployed, step.served)
			if got := strings.Join(warnings, "\n"); got != step.warned {
				t.Errorf("warned %q, want %q", got, step.warned)
			}
			if b := f.serving("B"); b.Placement != "" {
				t.Errorf("the other type has %q", b.Placement)
			}
		})
	}
	f.t = t

	// A rollback brings back what was deployed then; undeployed types keep theirs.
	d, _, err := f.Rollback(ctx, modules.RollbackRequest{App: app, Type: "A", Generation: 4})
	if err != nil || d.Generation != 6 || d.Placement != "static:x,y" || d.Digest != second {
		t.Errorf("rolled back to %+v, %v", d, err)
	}
	if d, _, err = f.Rollback(ctx, modules.RollbackRequest{App: app, Type: "A", Generation: 1}); err != nil || d.Placement != "" || d.Digest != first {
		t.Errorf("rolled back to %+v, %v", d, err)
	}
	placedDeploy(f, other, first, map[string]string{"A": "sticky"}, 8, "sticky", "sticky")
	if _, _, err := f.Undeploy(ctx, modules.UndeployRequest{App: app, Types: []string{"A"}}); err != nil {
		t.Fatal(err)
	}
	placedDeploy(f, other, first, nil, 10, "sticky", "sticky")

	// A module whose type has no state any more goes its own way.
	third := f.upload(typ("A", `"placement":"stateless"`, "Do"))
	placedDeploy(f, other, third, nil, 11, "", "stateless")
}

// TestDeployPlacementRefused: what cannot be is refused as a whole, and named.
func TestDeployPlacementRefused(t *testing.T) {
	f := newFixture(t)
	d := f.upload(typ("A", "", "Do"), typ("S", `"placement":"stateless"`, "Do"))
	for name, tc := range map[string]struct {
		placements map[string]string
		types      []string
		want       string
	}{
		"no policy":         {map[string]string{"A": "everywhere"}, nil, "choose one of any, ring, ring:SERVERS, sticky, stateless, static:HOST,HOST,… or checkout:PARTITIONS, or manifest"},
		"no hosts":          {map[string]string{"A": "static"}, nil, "static:a,b,c"},
		"no such type":      {map[string]string{"Z": "any"}, nil, `"Z"`},
		"not deployed now":  {map[string]string{"S": "stateless"}, []string{"A"}, `"S"`},
		"state taken away":  {map[string]string{"A": "stateless"}, nil, "for its module to declare"},
		"state given":       {map[string]string{"S": "ring"}, nil, "for its module to declare"},
		"one good, one bad": {map[string]string{"A": "any", "S": "x"}, nil, "placement of S"},
	} {
		_, _, err := f.Deploy(context.Background(), modules.DeployRequest{App: app, Digest: d, Types: tc.types, Placements: tc.placements})
		var argument *actor.ArgumentError
		if !errors.As(err, &argument) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want …%s…", name, err, tc.want)
		}
	}
	if _, _, err := f.Current(app, "A"); !errors.Is(err, actor.ErrTypeNotFound) {
		t.Errorf("something was deployed: %v", err)
	}
}

// TestDeployGroups: types of one group have the same placement, whichever modules they are of.
func TestDeployGroups(t *testing.T) {
	const group = `"co_locate":{"group":"orders","separator":"/"}`
	ctx := context.Background()
	f := newFixture(t)
	order := f.upload(typ("Order", group, "Do"))
	payment := f.upload(typ("Payment", group, "Do"))
	deploy := func(d actor.Digest, placements map[string]string, wants string, types ...string) []string {
		t.Helper()
		_, warnings, err := f.Deploy(ctx, modules.DeployRequest{App: app, Digest: d, Placements: placements, Types: types})
		argument := (*actor.ArgumentError)(nil)
		switch {
		case wants == "" && err != nil:
			t.Fatal(err)
		case wants != "" && (!errors.As(err, &argument) || !strings.Contains(err.Error(), wants)):
			t.Fatalf("got %v, want an error with %q", err, wants)
		}
		return warnings
	}
	deploy(order, map[string]string{"Order": "sticky"}, "")
	deploy(payment, nil, "Payment and Order are both of group orders, and are placed ring and sticky; deploy them with the same one")
	deploy(payment, map[string]string{"Payment": "any"}, "Payment is placed any")
	deploy(payment, map[string]string{"Payment": "sticky"}, "")
	deploy(order, map[string]string{"Order": "checkout:8"}, "Order and Payment are both of group orders, and are placed checkout:8 and sticky")
	if _, _, err := f.Undeploy(ctx, modules.UndeployRequest{App: app, Types: []string{"Payment"}}); err != nil {
		t.Fatal(err)
	}
	deploy(order, map[string]string{"Order": "checkout:8"}, "") // the other is out of service
	if _, _, err := f.Rollback(ctx, modules.RollbackRequest{App: app, Type: "Payment", Generation: 1}); err == nil {
		t.Error("a rollback gives types of one group different placements")
	}
	if w := deploy(f.upload(typ("Order", "", "Do")), nil, ""); !slices.Contains(w, "Order: its actors are no longer with those of group orders; if another server holds them, atomic calls among them fail with not_atomic, and other calls commit on their own") {
		t.Errorf("warned %q", w)
	}
	if w := deploy(order, nil, ""); !slices.Contains(w, "Order: its actors move to those of group orders") {
		t.Errorf("warned %q", w)
	}
}
