package modules_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/modules"
	"github.com/greenroom-run/greenroom/store"
)

// bounded is a fixture whose app stores a few small modules at most. Its service is not started.
func bounded(t *testing.T, most int64) *fixture {
	t.Helper()
	f := newFixture(t)
	s, err := modules.New(modules.Config{Store: f.store, Inspector: f.inspector, MaxStoredBytes: most * store.LeastStored})
	if err != nil {
		t.Fatal(err)
	}
	f.Service = s
	return f
}

func (f *fixture) force(digests ...actor.Digest) {
	f.t.Helper()
	for _, d := range digests {
		if _, _, err := f.Deploy(context.Background(), modules.DeployRequest{App: app, Digest: d, Force: true}); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *fixture) isGone(d actor.Digest) {
	f.t.Helper()
	if _, err := f.Module(context.Background(), app, d); !errors.Is(err, actor.ErrModuleNotFound) {
		f.t.Errorf("module %s should have made room: %v", d.Short(), err)
	}
}

// The module that served right before the present one is kept when modules make room, though
// it was uploaded first, so that a rollback goes back to it.
func TestRollbackAfterModulesMadeRoom(t *testing.T) {
	f := bounded(t, 3)
	a, b, c := f.upload(typ("A", "", "One")), f.upload(typ("A", "", "Two")), f.upload(typ("A", "", "Three"))
	f.force(a, b, a, c)
	f.passed.Add(int64(time.Hour))
	f.upload(typ("A", "", "Four"))
	f.isGone(b)
	if d, err := f.rollback(0); err != nil || d.Digest != a {
		t.Errorf("the rollback went to %s of %s, %s, %s: %v", d.Digest.Short(), a.Short(), b.Short(), c.Short(), err)
	}
}

// A rollback without a generation never goes silently to an older module than the previous one.
func TestRollbackNamesTheGenerationWhoseModuleIsGone(t *testing.T) {
	f := newFixture(t)
	a, b, c := f.upload(typ("A", "", "One")), f.upload(typ("A", "", "Two")), f.upload(typ("A", "", "Three"))
	f.force(a, b, c)
	if err := f.Delete(context.Background(), app, b); err != nil {
		t.Fatal(err)
	}
	if _, err := f.rollback(0); !errors.Is(err, actor.ErrModuleNotFound) || !strings.Contains(err.Error(), "generation 2") {
		t.Errorf("got %v", err)
	}
	if f.serving("A").Digest != c {
		t.Error("another module serves")
	}
	if d, err := f.rollback(1); err != nil || d.Digest != a {
		t.Errorf("by name: %+v, %v", d, err)
	}
}

// A module that is uploaded again counts as new: another upload leaves it to be deployed.
func TestModuleUploadedAgainCountsAsNew(t *testing.T) {
	f := bounded(t, 3)
	var uploaded []actor.Digest
	for _, method := range []string{"One", "Two", "Three", "One", "Four"} {
		uploaded = append(uploaded, f.upload(typ("A", "", method)))
		f.passed.Add(int64(time.Second))
	}
	f.force(uploaded[0])
	f.isGone(uploaded[1])
	if f.inspector.calls != 4 {
		t.Errorf("%d inspections of 4 modules", f.inspector.calls)
	}
}

// A module that another host serves, which has not seen the next deployments yet, is there for
// that host to load.
func TestModuleThatAnotherHostServesIsKept(t *testing.T) {
	ctx := context.Background()
	f := bounded(t, 4)
	a := f.upload(typ("A", "", "One"))
	f.force(a)
	other := f.service(time.Hour) // reads what is deployed now, and again later
	f.force(f.upload(typ("A", "", "Two")), f.upload(typ("A", "", "Three")))
	unused := f.upload(typ("A", "", "Four"))
	f.upload(typ("A", "", "Five"))
	f.isGone(unused)
	d, _, err := other.Current(app, "A")
	if err != nil || d.Digest != a {
		t.Fatal(d, err)
	}
	if _, err := f.ModuleBytes(ctx, app, a); err != nil {
		t.Errorf("a host serves it: %v", err)
	}
	f.passed.Add(int64(time.Hour))
	f.upload(typ("A", "", "Six"))
	f.isGone(a)
}
