package modules_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/modules"
	"github.com/greenroom-run/greenroom/store"
)

func TestDeploy(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t)
	if _, _, err := f.Current(app, "A"); !errors.Is(err, actor.ErrTypeNotFound) {
		t.Errorf("before: %v", err)
	}
	first := f.upload(typ("A", `"state_schema":3`, "Do"), typ("B", "", "Do"))
	ds, warnings, err := f.Deploy(ctx, modules.DeployRequest{App: app, Digest: first[:6]})
	if err != nil || len(warnings) > 0 || len(ds) != 2 {
		t.Fatalf("got %v, %v, %v", ds, warnings, err)
	}
	if d := ds[0]; d.Type != "A" || d.Generation != 1 || d.Digest != first || d.StateSchema != 3 || d.CreatedAt.IsZero() || d.RolledBackFrom != 0 {
		t.Errorf("deployment %+v", d)
	}
	if got := f.serving("A"); got != ds[0] {
		t.Errorf("serving %+v, deployed %+v", got, ds[0])
	}
	_, spec, _ := f.Current(app, "A")
	if spec.Placement != "ring" || spec.Instance != "shared" || spec.Pool != "user" {
		t.Errorf("defaults are not filled in: %+v", spec)
	}
	if _, _, err := f.Current("other", "A"); !errors.Is(err, actor.ErrTypeNotFound) {
		t.Errorf("another app: %v", err)
	}

	// The same again is no change.
	again, warnings, err := f.Deploy(ctx, modules.DeployRequest{App: app, Digest: first})
	if err != nil || len(warnings) > 0 || !slices.Equal(again, ds) {
		t.Errorf("the same again: %v, %v, %v", again, warnings, err)
	}
	// One type alone, then the rest: only B makes a generation then.
	second := f.upload(typ("A", `"state_schema":3`, "Do", "More"), typ("B", "", "Do", "More"))
	f.deploy(second, "A")
	if a, b := f.serving("A"), f.serving("B"); a.Generation != 2 || a.Digest != second || b.Generation != 1 {
		t.Errorf("A %+v, B %+v", a, b)
	}
	f.deploy(second)
	if a, b := f.serving("A"), f.serving("B"); a.Generation != 2 || b.Generation != 2 || b.Digest != second {
		t.Errorf("A %+v, B %+v", a, b)
	}
	types, err := f.Types(ctx, app)
	if err != nil || len(types) != 2 || types[0].Spec.Name != "A" || types[1].Deployment != f.serving("B") {
		t.Errorf("types %+v, %v", types, err)
	}
	history, err := f.History(ctx, app, "A", 0, 0)
	if err != nil || len(history) != 2 || history[0].Generation != 2 || history[1].Digest != first {
		t.Errorf("history %+v, %v", history, err)
	}
	if rest, err := f.History(ctx, app, "A", 2, 1); err != nil || len(rest) != 1 || rest[0].Generation != 1 {
		t.Errorf("second page %+v, %v", rest, err)
	}
	if _, err := f.History(ctx, app, "Z", 0, 0); !errors.Is(err, actor.ErrTypeNotFound) {
		t.Errorf("history of nothing: %v", err)
	}
}

func TestDeployRefused(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t)
	old := f.upload(typ("A", `"state_schema":1`, "Do"), typ("B", "", "Do"))
	newer := f.upload(typ("A", `"state_schema":2`, "Do"), typ("B", "", "Do"))
	f.deploy(newer)
	for name, tc := range map[string]struct {
		req  modules.DeployRequest
		is   error
		text string
	}{
		"unknown module": {modules.DeployRequest{App: app, Digest: "abcdef"}, actor.ErrModuleNotFound, "abcdef"},
		"unknown type":   {modules.DeployRequest{App: app, Digest: old, Types: []string{"Z"}}, nil, `actor type "Z" is not in module ` + old.Short() + "; it has A, B"},
		"no app":         {modules.DeployRequest{Digest: old}, nil, "app is empty"},
		"older schema":   {modules.DeployRequest{App: app, Digest: old}, actor.ErrSchemaRollback, "declares state schema 1 and would replace generation 1 with schema 2"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := f.Deploy(ctx, tc.req)
			if err == nil || tc.is != nil && !errors.Is(err, tc.is) || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("got %v", err)
			}
			if a, b := f.serving("A"), f.serving("B"); a.Generation != 1 || b.Generation != 1 {
				t.Errorf("a refused deployment left a trace: %+v, %+v", a, b)
			}
		})
	}
	ds, warnings, err := f.Deploy(ctx, modules.DeployRequest{App: app, Digest: old, Force: true})
	if err != nil || ds[0].StateSchema != 1 || ds[0].Generation != 2 {
		t.Errorf("forced: %v, %v", ds, err)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "state schema falls from 2 to 1") {
		t.Errorf("warnings %q", warnings)
	}
}

func TestDeployWarnings(t *testing.T) {
	f := newFixture(t)
	f.deploy(f.upload(
		typ("A", "", "Do", `{"name":"View","read_only":true}`, "Old"),
		typ("B", `"placement":"ring"`, "Do"),
		typ("C", "", "Do"),
		typ("D", "", "Do"),
	))
	got := f.deploy(f.upload(
		typ("A", `"state_schema":1`, "Do", "View"),
		typ("B", `"placement":"sticky"`, "Do"),
		typ("D", `"state_schema":1,"migrate":true`, "Do", "New"),
	))
	want := []string{
		"A: the method View is no longer read-only",
		"A: the method Old is gone",
		"A: state schema rises from 0 to 1 without a migrate hook",
		"B: placement changes from ring to sticky",
		"C: stays on module ",
	}
	if len(got) != len(want) {
		t.Fatalf("got %q", got)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("got %q, want %q", got[i], want[i])
		}
	}
}

func TestRollback(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t)
	back := func(generation uint64, force bool) (actor.Deployment, error) {
		d, _, err := f.Rollback(ctx, modules.RollbackRequest{App: app, Type: "A", Generation: generation, Force: force})
		return d, err
	}
	if _, err := back(0, false); !errors.Is(err, actor.ErrTypeNotFound) {
		t.Errorf("nothing deployed: %v", err)
	}
	one, two, three := f.upload(typ("A", "", "One")), f.upload(typ("A", "", "Two")), f.upload(typ("A", `"state_schema":5`, "Three"))
	f.deploy(one)
	if _, err := back(0, false); !errors.Is(err, actor.ErrNoGeneration) {
		t.Errorf("nothing to go back to: %v", err)
	}
	f.deploy(two)
	if d, err := back(0, false); err != nil || d.Digest != one || d.Generation != 3 || d.RolledBackFrom != 2 || d != f.serving("A") {
		t.Errorf("got %+v, %v", d, err)
	}
	if d, err := back(1, false); err != nil || d != f.serving("A") || d.Generation != 3 {
		t.Errorf("to what serves already: %+v, %v", d, err)
	}
	if _, err := back(9, false); !errors.Is(err, actor.ErrNoGeneration) || !strings.Contains(err.Error(), "generation 9 (the current one is 3)") {
		t.Errorf("a generation that was not: %v", err)
	}
	f.deploy(three)
	if _, err := back(0, false); !errors.Is(err, actor.ErrSchemaRollback) {
		t.Errorf("across a schema: %v", err)
	}
	if d, err := back(2, true); err != nil || d.Digest != two || d.Generation != 5 || d.RolledBackFrom != 4 {
		t.Errorf("forced: %+v, %v", d, err)
	}
	if err := f.Delete(ctx, app, one); err != nil {
		t.Fatal(err)
	}
	if _, err := back(1, false); !errors.Is(err, actor.ErrModuleNotFound) {
		t.Errorf("to a module that was deleted: %v", err)
	}
}

// The newest other module may be many generations back.
func TestRollbackFarBack(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t)
	one, two := f.upload(typ("A", "", "One")), f.upload(typ("A", "", "Two"))
	f.deploy(one)
	var ds []actor.Deployment
	for g := range uint64(150) {
		ds = append(ds, actor.Deployment{App: app, Type: "A", Generation: g + 2, Digest: two})
	}
	for _, d := range ds {
		if err := f.store.Deploy(ctx, []actor.Deployment{d}, store.AnyRevision); err != nil {
			t.Fatal(err)
		}
	}
	d, _, err := f.Rollback(ctx, modules.RollbackRequest{App: app, Type: "A"})
	if err != nil || d.Digest != one || d.Generation != 152 {
		t.Errorf("got %+v, %v", d, err)
	}
}

func TestDeployTogether(t *testing.T) {
	f := newFixture(t)
	var digests []actor.Digest
	for n := range 6 {
		digests = append(digests, f.upload(typ("A", "", fmt.Sprintf("M%d", n)), typ("B", "", "Do")))
	}
	var wg sync.WaitGroup
	for _, d := range digests {
		wg.Go(func() {
			if _, _, err := f.Deploy(context.Background(), modules.DeployRequest{App: app, Digest: d}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	a, b := f.serving("A"), f.serving("B")
	if a.Generation != 6 || b.Generation != 6 || a.Digest != b.Digest {
		t.Errorf("A %+v, B %+v", a, b)
	}
}

func TestDeployConflictWithoutEnd(t *testing.T) {
	f := newFixture(t)
	d := f.upload(typ("A", "", "Do"))
	f.store.set(func() {
		f.store.deploy = func(context.Context, []actor.Deployment, uint64) error { return actor.ErrDeployConflict }
	})
	if _, _, err := f.Deploy(context.Background(), modules.DeployRequest{App: app, Digest: d}); !errors.Is(err, actor.ErrDeployConflict) {
		t.Errorf("got %v", err)
	}
}

// loseFirstAnswer has the store lose the answer to the next deployment, which it applies or not.
func (f *fixture) loseFirstAnswer(applied bool) {
	lost := false
	f.store.set(func() {
		f.store.deploy = func(ctx context.Context, ds []actor.Deployment, revision uint64) error {
			if lost {
				return f.store.Modules.Deploy(ctx, ds, revision)
			}
			lost = true
			if applied {
				if err := f.store.Modules.Deploy(ctx, ds, revision); err != nil {
					return err
				}
			}
			return fmt.Errorf("connection lost: %w", actor.ErrAmbiguous)
		}
	})
}

// Whether a deployment whose answer was lost happened or not, it happens once,
// and its warnings reach the deployer.
func TestDeploySettlesALostAnswer(t *testing.T) {
	for _, applied := range []bool{true, false} {
		t.Run(fmt.Sprintf("applied=%t", applied), func(t *testing.T) {
			f := newFixture(t)
			f.deploy(f.upload(typ("A", "", "Do", "Old")))
			d := f.upload(typ("A", "", "Do"))
			f.loseFirstAnswer(applied)
			if ws := f.deploy(d); len(ws) != 1 || !strings.Contains(ws[0], "Old is gone") {
				t.Errorf("warnings %q", ws)
			}
			if got := f.serving("A"); got.Generation != 2 || got.Digest != d {
				t.Errorf("serving %+v", got)
			}
		})
	}
}

// A module whose manifest got damaged must not keep a good one from replacing it.
func TestDamagedManifestCanBeReplaced(t *testing.T) {
	f := newFixture(t)
	bad, good := f.upload(typ("A", "", "Do")), f.upload(typ("A", "", "Do", "More"))
	f.deploy(bad)
	f.store.module = func(m actor.Module) actor.Module {
		if m.Digest == bad {
			m.Manifest = []byte("{")
		}
		return m
	}
	other := f.service(1 << 40)
	if _, _, err := other.Current(app, "A"); !errors.Is(err, actor.ErrModuleDamaged) {
		t.Errorf("got %v", err)
	}
	if _, _, err := other.Deploy(context.Background(), modules.DeployRequest{App: app, Digest: good}); err != nil {
		t.Error(err)
	}
	if d, _, err := other.Current(app, "A"); err != nil || d.Generation != 2 {
		t.Errorf("got %+v, %v", d, err)
	}
}

// What the SDK found about a type is said whenever the type is deployed.
func TestDeploySaysWhatTheModuleWarnsOf(t *testing.T) {
	f := newFixture(t)
	d := f.upload(typ("A", `"warnings":["unexported fields are not state: cache"]`, "Do"), typ("B", `"warnings":["b"]`, "Do"))
	want := []string{"A: unexported fields are not state: cache"}
	for range 2 {
		if got := f.deploy(d, "A"); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestDeployWarnsOfAtomicMethods whose callers may be at other servers.
func TestDeployWarnsOfAtomicMethods(t *testing.T) {
	f := newFixture(t)
	calling := map[actor.Digest]bool{}
	var unread error
	s, err := modules.New(modules.Config{
		Store: f.store, Inspector: f.inspector, PollInterval: time.Hour,
		Imports: func(_ context.Context, _ string, d actor.Digest) ([]string, error) {
			return map[bool][]string{true: {"reply", "call"}}[calling[d] && unread == nil], unread
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	const atomic = `{"name":"Debit","atomic":"required"}`
	module := func(calls bool, types ...string) actor.Digest {
		d := f.upload(types...)
		calling[d] = calls
		return d
	}
	apart, together := typ("Account", "", atomic, "Get"), typ("Account", `"co_locate":{"group":"bank"}`, atomic, "Get")
	for i, step := range []struct {
		module     actor.Digest
		placements map[string]string
		warned     string
	}{
		{module(true, typ("Shop", "", "Buy"), apart), nil, "Account: calls of Debit must be in their callers' transactions, and its actors are in no co_locate group"},
		{module(false, together), nil, "no other type that can call is in its co_locate group bank"},
		{module(true, typ("Shop", `"co_locate":{"group":"bank"}`, "Buy", "Sell")), nil, ""},
		{module(false, together, typ("Other", "", "Do")), nil, ""},
		{module(false, typ("Free", `"placement":"any"`, atomic)), nil, ""},
		{module(true, typ("One", "", atomic), typ("Two", "", "Do")), map[string]string{"One": "static:n1", "Two": "static:n1"}, ""},
		{module(true, typ("One", "", atomic), typ("Two", "", "Go")), map[string]string{"One": "static:n1,n2", "Two": "static:n1,n2"}, "its actors are in no co_locate group"},
		{module(false, typ("Alone", "", atomic)), map[string]string{"Alone": "static:n1"}, "its actors are in no co_locate group"},
		// A type that may call itself.
		{module(true, typ("Alone", "", atomic, "Do")), map[string]string{"Alone": "static:n1"}, ""},
		{module(true, typ("Alone", "", atomic), typ("Far", "", "Do")), map[string]string{"Alone": "static:n1"}, "its actors are in no co_locate group"},
		{module(true, typ("Whole", `"co_locate":{"group":"whole"}`, atomic)), nil, "no other type that can call is in its co_locate group whole"},
		{module(true, typ("Part", `"co_locate":{"group":"part","separator":"/"}`, atomic)), nil, ""},
		{module(true, typ("Part", `"co_locate":{"group":"part","separator":"/"}`, atomic), typ("Far", "", "Go")), nil, "no other type that can call is in its co_locate group part"},
	} {
		_, warnings, err := s.Deploy(t.Context(), modules.DeployRequest{App: app, Digest: step.module, Placements: step.placements})
		warnings = slices.DeleteFunc(warnings, func(w string) bool { return !strings.Contains(w, "must be in their callers'") })
		if err != nil || len(warnings) > 1 || strings.Join(warnings, "") == "" && step.warned != "" || !strings.Contains(strings.Join(warnings, ""), step.warned) || step.warned == "" && len(warnings) > 0 {
			t.Errorf("step %d: %q, %v", i, warnings, err)
		}
	}
	// A module whose code is damaged cannot call. One that cannot be read now may.
	again := module(true, typ("Alone", "", atomic, "More"))
	for _, unread = range []error{errors.New("no connection"), actor.ErrModuleDamaged} {
		_, warnings, err := s.Deploy(t.Context(), modules.DeployRequest{App: app, Digest: again})
		if damaged := errors.Is(unread, actor.ErrModuleDamaged); damaged && (err != nil || len(warnings) != 1) || !damaged && !errors.Is(err, unread) {
			t.Errorf("%v: %q, %v", unread, warnings, err)
		}
	}
}

// TestDeployBesideOlderHosts: what a host of the cluster does not know is not deployed, whatever
// it is, nor rolled back to.
func TestDeployBesideOlderHosts(t *testing.T) {
	f := newFixture(t)
	var hosts []actor.Host
	var imports []string
	s, err := modules.New(modules.Config{
		Store: f.store, Inspector: f.inspector, PollInterval: time.Hour,
		Hosts:   func(context.Context) ([]actor.Host, error) { return slices.Clone(hosts), nil },
		Imports: func(context.Context, string, actor.Digest) ([]string, error) { return imports, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	plain := f.upload(typ("T", "", "M"))
	atomic := f.upload(typ("T", "", `{"name":"M","atomic":"required"}`))
	deploy := func(d actor.Digest) error {
		_, _, err := s.Deploy(t.Context(), modules.DeployRequest{App: app, Digest: d})
		return err
	}
	for _, d := range []actor.Digest{atomic, plain} {
		if err := deploy(d); err != nil { // alone
			t.Fatal(err)
		}
	}
	hosts = []actor.Host{{Name: "new", MaxProtocol: 99}, {Name: "n1", Address: "10.0.0.1:1", Version: "v1.2", MaxProtocol: 4}}
	const who = "the host n1 at 10.0.0.1:1, which runs version v1.2, does not know "
	if err := deploy(plain); err != nil {
		t.Error(err)
	}
	if err := deploy(atomic); !errors.Is(err, actor.ErrHostTooOld) || !strings.Contains(err.Error(), who+"the member types.methods.atomic of its manifest; upgrade it first") {
		t.Error(err)
	}
	if _, _, err := s.Rollback(t.Context(), modules.RollbackRequest{App: app, Type: "T"}); !errors.Is(err, actor.ErrHostTooOld) {
		t.Error(err)
	}
	for function, refused := range map[string]bool{"state_get": false, "timer_set": false, "call": true, "what_comes_later": true} {
		imports = []string{function}
		if err := deploy(plain); (err != nil) != refused || refused && !strings.Contains(err.Error(), who+"the host function "+function) {
			t.Errorf("%s: %v", function, err)
		}
	}
}
