package modules_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/modules"
	"github.com/greenroom-run/greenroom/store"
)

func TestUpload(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t)
	wasm := module(typ("Cart", "", "Add"))
	var stages []modules.Stage
	progress := func(s modules.Stage) { stages = append(stages, s) }
	m, err := f.Upload(ctx, app, bytes.NewReader(wasm), progress)
	if err != nil {
		t.Fatal(err)
	}
	if m.App != app || m.Digest != actor.DigestOf(wasm) || m.Size != int64(len(wasm)) || m.CreatedAt.IsZero() {
		t.Errorf("module %+v", m)
	}
	if !slices.Equal(stages, []modules.Stage{modules.StageValidating, modules.StageStoring}) {
		t.Errorf("stages %v", stages)
	}
	stages = nil
	again, err := f.Upload(ctx, app, bytes.NewReader(wasm), progress)
	if err != nil || again.CreatedAt.Before(m.CreatedAt) || len(stages) > 0 || f.inspector.calls != 1 {
		t.Errorf("the same again: %+v, %v, stages %v, %d inspections", again, err, stages, f.inspector.calls)
	}
	if got, err := f.Bytes(ctx, app, m.Digest[:8]); err != nil || !bytes.Equal(got, wasm) {
		t.Errorf("bytes: %q, %v", got, err)
	}
	if _, err := f.Module(ctx, "other", m.Digest); !errors.Is(err, actor.ErrModuleNotFound) {
		t.Errorf("another app sees it: %v", err)
	}
}

func TestUploadRefused(t *testing.T) {
	ctx := context.Background()
	for name, tc := range map[string]struct {
		app     string
		wasm    []byte
		inspect error
		put     error
		ok      func(error) bool
	}{
		"faults": {app: app, wasm: []byte(`{"abi":2,"types":[]}`), ok: func(err error) bool {
			var invalid *actor.InvalidModuleError
			return errors.As(err, &invalid) && len(invalid.Faults) == 2
		}},
		"too large": {app: app, wasm: make([]byte, 4097), ok: func(err error) bool { return errors.Is(err, actor.ErrModuleTooLarge) }},
		"app": {app: "a/b", wasm: module(typ("T", "", "Do")), ok: func(err error) bool {
			var arg *actor.ArgumentError
			return errors.As(err, &arg) && arg.Field == "app"
		}},
		"no capacity": {app: app, wasm: module(typ("T", "", "Do")), inspect: actor.ErrOverloaded, ok: func(err error) bool { return errors.Is(err, actor.ErrOverloaded) }},
		"store":       {app: app, wasm: module(typ("T", "", "Do")), put: actor.ErrUnavailable, ok: func(err error) bool { return errors.Is(err, actor.ErrUnavailable) }},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.inspector.err = tc.inspect
			if tc.put != nil {
				f.store.put = func(context.Context, actor.Module, actor.Code, int64) error { return tc.put }
			}
			if _, err := f.Upload(ctx, tc.app, bytes.NewReader(tc.wasm), nil); !tc.ok(err) {
				t.Errorf("got %v", err)
			}
			if ms, err := f.store.ListModules(ctx, app, "", 10); err != nil || len(ms) > 0 {
				t.Errorf("something was stored: %v, %v", ms, err)
			}
		})
	}
}

func TestUploadSettlesALostAnswer(t *testing.T) {
	f := newFixture(t)
	lost := 3
	f.store.put = func(ctx context.Context, m actor.Module, wasm actor.Code, most int64) error {
		err := f.store.Modules.PutModule(ctx, m, wasm, most)
		if lost--; lost >= 0 {
			return actor.ErrAmbiguous
		}
		return err
	}
	f.upload(typ("T", "", "Do"))
}

func TestModuleBytesAreChecked(t *testing.T) {
	f := newFixture(t)
	d := f.upload(typ("T", "", "Do"))
	f.store.bytes = func(b []byte) []byte { return append(b, 0) }
	if _, err := f.ModuleBytes(context.Background(), app, d); !errors.Is(err, actor.ErrModuleDamaged) {
		t.Errorf("got %v", err)
	}
}

func TestDigestPrefix(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t)
	// Two modules whose digests begin alike could not be found in time; the
	// store is asked for names alone, so names are enough.
	alike := []actor.Digest{
		"aaaaaa0000000000000000000000000000000000000000000000000000000000",
		"aaaaaa0000000000000000000000000000000000000000000000000000000001",
		"aaaaaa1000000000000000000000000000000000000000000000000000000000",
		"aaaaab0000000000000000000000000000000000000000000000000000000000",
	}
	names := &nameStore{faulty: f.store, names: alike}
	s, err := modules.New(modules.Config{Store: names, Inspector: f.inspector})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		prefix string
		want   actor.Digest
		err    string
	}{
		{prefix: "aaaaab", want: alike[3]},
		{prefix: "AAAAAB", want: alike[3]},
		{prefix: "aaaaaa1", want: alike[2]},
		{prefix: string(alike[0][:63]), err: "digest " + string(alike[0][:63]) + " is ambiguous; give more digits: it may be " + string(alike[0]) + ", " + string(alike[1])},
		{prefix: string(alike[1]), want: alike[1]},
		{prefix: "aaaaaa", err: "digest aaaaaa is ambiguous; give more digits: it may be " + string(alike[0]) + ", " + string(alike[1]) + ", " + string(alike[2])},
		{prefix: "aaaaa", err: "digest has 5 digits; give at least the first 6"},
		{prefix: "", err: "digest has 0 digits; give at least the first 6"},
		{prefix: "aaaaag", err: "digest has at place 6 something other than 0-9 and a-f"},
		{prefix: string(alike[0]) + "0", err: "digest has 65 digits; a SHA-256 has 64"},
		{prefix: "000000", err: "find module 000000 in app shop: no module has this digest"},
		{prefix: "ffffff", err: "find module ffffff in app shop: no module has this digest"},
	} {
		m, err := s.Module(ctx, app, actor.Digest(tc.prefix))
		text := ""
		if err != nil {
			text = err.Error()
		}
		if m.Digest != tc.want || text != tc.err {
			t.Errorf("%q: got %q, %q\nwant %q, %q", tc.prefix, m.Digest, text, tc.want, tc.err)
		}
	}
}

// nameStore has modules without bytes, listed as a store lists them.
type nameStore struct {
	*faulty
	names []actor.Digest
}

func (s *nameStore) Module(_ context.Context, app string, d actor.Digest) (actor.Module, error) {
	if slices.Contains(s.names, d) {
		return actor.Module{App: app, Digest: d}, nil
	}
	return actor.Module{}, actor.ErrModuleNotFound
}

func (s *nameStore) ListModules(_ context.Context, app string, after actor.Digest, limit int) ([]actor.Module, error) {
	var ms []actor.Module
	for _, d := range s.names {
		if d > after && len(ms) < limit {
			ms = append(ms, actor.Module{App: app, Digest: d})
		}
	}
	return ms, nil
}

func TestListAndDelete(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t)
	var all []actor.Digest
	for _, name := range []string{"A", "B", "C"} {
		all = append(all, f.upload(typ(name, "", "Do")))
	}
	slices.Sort(all)
	var listed []actor.Digest
	for after := actor.Digest(""); ; {
		page, err := f.List(ctx, app, after, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, m := range page {
			listed = append(listed, m.Digest)
		}
		after = listed[len(listed)-1]
	}
	if !slices.Equal(listed, all) {
		t.Errorf("got %v, want %v", listed, all)
	}
	f.deploy(all[0])
	if err := f.Delete(ctx, app, all[0]); !errors.Is(err, actor.ErrModuleInUse) {
		t.Errorf("a deployed module: %v", err)
	}
	if err := f.Delete(ctx, app, all[1][:10]); err != nil {
		t.Error(err)
	}
	if err := f.Delete(ctx, app, all[1]); !errors.Is(err, actor.ErrModuleNotFound) {
		t.Errorf("deleted again: %v", err)
	}
}

// One app's uploads use up its own bound alone: another app's are taken meanwhile, and the
// refusal says what to do.
func TestUploadsOfAnAppAreBoundedTogether(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t)
	s, err := modules.New(modules.Config{Store: f.store, Inspector: f.inspector, MaxStoredBytes: 3 * store.LeastStored})
	if err != nil {
		t.Fatal(err)
	}
	upload := func(app, typeName string) (actor.Digest, error) {
		m, err := s.Upload(ctx, app, bytes.NewReader(module(typ(typeName, "", "Do"))), nil)
		return m.Digest, err
	}
	for n := range 9 {
		if _, err := upload(app, fmt.Sprint("T", n)); err != nil {
			t.Fatal(err)
		}
		if _, err := upload("quiet", fmt.Sprint("T", n%3)); err != nil {
			t.Errorf("the other app: %v", err)
		}
	}
	kept, err := s.List(ctx, app, "", 0)
	if err != nil || len(kept) != 3 {
		t.Fatalf("the app has %d modules: %v", len(kept), err)
	}
	for _, m := range kept {
		if _, _, err := s.Deploy(ctx, modules.DeployRequest{App: app, Digest: m.Digest}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := upload(app, "T9"); !errors.Is(err, actor.ErrModulesFull) || !strings.Contains(err.Error(), "--max-stored-modules") || !strings.Contains(err.Error(), "49152") {
		t.Errorf("an upload beside modules that all serve: %v", err)
	}
	if _, err := upload(app, "T8"); err != nil {
		t.Errorf("a module that is there: %v", err)
	}
	if quiet, err := s.List(ctx, "quiet", "", 0); err != nil || len(quiet) != 3 {
		t.Errorf("the other app has %d modules: %v", len(quiet), err)
	}
}
