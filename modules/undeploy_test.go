package modules_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/modules"
	"github.com/greenroom-run/greenroom/store"
)

func (f *fixture) undeploy(types ...string) ([]actor.Deployment, error) {
	ds, _, err := f.Undeploy(context.Background(), modules.UndeployRequest{App: app, Types: types, Message: "moved"})
	return ds, err
}

func (f *fixture) rollback(to uint64) (actor.Deployment, error) {
	d, _, err := f.Rollback(context.Background(), modules.RollbackRequest{App: app, Type: "A", Generation: to, Message: "sorry"})
	return d, err
}

func TestUndeploy(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t)
	d := f.upload(typ("A", `"state_schema":3`, "Do"), typ("B", "", "Do"))
	if _, err := f.undeploy("A"); !errors.Is(err, actor.ErrTypeNotFound) {
		t.Errorf("never deployed: %v", err)
	}
	f.deploy(d)
	var argument *actor.ArgumentError
	if _, err := f.undeploy(); !errors.As(err, &argument) {
		t.Errorf("no type: %v", err)
	}
	// All or none.
	if _, err := f.undeploy("A", "Z"); !errors.Is(err, actor.ErrTypeNotFound) || !strings.Contains(err.Error(), "no type Z") {
		t.Errorf("one that was never deployed: %v", err)
	}
	f.serving("A")

	changes := f.Changes()
	ds, err := f.undeploy("A", "A")
	if err != nil || len(ds) != 1 || !ds[0].Undeployed() || ds[0].Generation != 2 || ds[0].StateSchema != 3 || ds[0].Message != "moved" || ds[0].CreatedAt.IsZero() {
		t.Fatalf("got %+v, %v", ds, err)
	}
	if f.Changes() == changes {
		t.Error("who remembers what serves is not told")
	}
	if _, _, err := f.Current(app, "A"); !errors.Is(err, actor.ErrTypeNotFound) || !strings.Contains(err.Error(), "out of service") {
		t.Errorf("serving: %v", err)
	}
	if types, err := f.Types(ctx, app); err != nil || len(types) != 1 || types[0].Spec.Name != "B" {
		t.Errorf("types %+v, %v", types, err)
	}
	if !slices.Equal(f.AppsByModule()[d], []string{app}) {
		t.Error("the module that serves B serves nothing")
	}
	again, err := f.undeploy("A")
	if err != nil || !slices.Equal(again, ds) {
		t.Errorf("again: %+v, %v", again, err)
	}
	if history, err := f.History(ctx, app, "A", 0, 0); err != nil || len(history) != 2 || history[0] != ds[0] {
		t.Errorf("history %+v, %v", history, err)
	}
	// Another process sees it, at its start as by a poll.
	if _, _, err := f.service(time.Hour).Current(app, "A"); !errors.Is(err, actor.ErrTypeNotFound) {
		t.Errorf("a new process: %v", err)
	}
	// Its module can go as soon as it serves nothing else.
	if err := f.Delete(ctx, app, d); !errors.Is(err, actor.ErrModuleInUse) {
		t.Errorf("delete what serves B: %v", err)
	}
	if _, err := f.undeploy("B"); err != nil {
		t.Fatal(err)
	}
	if f.AppsByModule()[d] != nil {
		t.Error("what was undeployed serves")
	}
	if err := f.Delete(ctx, app, d); err != nil {
		t.Errorf("delete: %v", err)
	}
	apps, err := f.Apps(ctx, "", 0)
	if err != nil || len(apps) != 1 || apps[0].DeployedAt.IsZero() || apps[0] != (store.AppInfo{App: app, DeployedAt: apps[0].DeployedAt}) {
		t.Errorf("apps %+v, %v", apps, err)
	}
}

// What the actors of an undeployed type stored stays, so what is deployed next must
// be able to read it.
func TestDeployAfterUndeploy(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t)
	older, newer := f.upload(typ("A", `"state_schema":1`, "Do")), f.upload(typ("A", `"state_schema":2`, "Do"))
	f.deploy(newer)
	if _, err := f.undeploy("A"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.Deploy(ctx, modules.DeployRequest{App: app, Digest: older}); !errors.Is(err, actor.ErrSchemaRollback) {
		t.Errorf("an older schema: %v", err)
	}
	ds, warnings, err := f.Deploy(ctx, modules.DeployRequest{App: app, Digest: newer, Message: "back"})
	if err != nil || len(warnings) > 0 || ds[0].Generation != 3 || ds[0].Message != "back" || f.serving("A") != ds[0] {
		t.Errorf("got %+v, %q, %v", ds, warnings, err)
	}
}

func TestRollbackAndUndeploy(t *testing.T) {
	f := newFixture(t)
	one, two := f.upload(typ("A", "", "One")), f.upload(typ("A", "", "Two"))
	f.deploy(one)
	f.deploy(two)
	if _, err := f.undeploy("A"); err != nil {
		t.Fatal(err)
	}
	// Back to the former one.
	d, err := f.rollback(0)
	if err != nil || d.Digest != two || d.Generation != 4 || d.RolledBackFrom != 3 || d.Message != "sorry" || d != f.serving("A") {
		t.Errorf("got %+v, %v", d, err)
	}
	// The undeployment in between is never what is gone back to.
	if d, err := f.rollback(0); err != nil || d.Digest != one || d.Generation != 5 {
		t.Errorf("got %+v, %v", d, err)
	}
	// Nor is it taken for a module that was deleted.
	other := newFixture(t)
	other.deploy(other.upload(typ("A", "", "One")))
	if _, err := other.undeploy("A"); err != nil {
		t.Fatal(err)
	}
	if _, err := other.rollback(0); err != nil {
		t.Fatal(err)
	}
	if _, err := other.rollback(0); !errors.Is(err, actor.ErrNoGeneration) || strings.Contains(err.Error(), "deleted") {
		t.Errorf("nothing to go back to: %v", err)
	}
	if _, err := f.rollback(3); !errors.Is(err, actor.ErrNoGeneration) || !strings.Contains(err.Error(), "undeploy it instead") {
		t.Errorf("to the undeployment: %v", err)
	}
}

// A read of what was deployed before that returns after the undeployment does not
// bring the type back.
func TestLateReadBringsNothingBack(t *testing.T) {
	f := newFixture(t)
	f.deploy(f.upload(typ("A", "", "Do")))
	late, err := f.store.Deployments(context.Background(), app)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.undeploy("A"); err != nil {
		t.Fatal(err)
	}
	f.store.set(func() {
		f.store.deployments = func(context.Context, string) ([]actor.Deployment, error) { return late, nil }
	})
	if err := f.Refresh(context.Background(), app); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.Current(app, "A"); !errors.Is(err, actor.ErrTypeNotFound) {
		t.Errorf("the type came back: %v", err)
	}
}

func TestUndeploySettlesALostAnswer(t *testing.T) {
	for _, applied := range []bool{true, false} {
		f := newFixture(t)
		f.deploy(f.upload(typ("A", "", "Do")))
		f.loseFirstAnswer(applied)
		if ds, err := f.undeploy("A"); err != nil || ds[0].Generation != 2 {
			t.Errorf("applied %t: %+v, %v", applied, ds, err)
		}
	}
}
