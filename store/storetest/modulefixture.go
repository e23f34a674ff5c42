package storetest

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// moduleFixture tests modules and deployments.
type moduleFixture struct{ *base }

// module is a small module of the fixture's app, and its bytes.
func (f *moduleFixture) module(content string) (actor.Module, []byte) {
	wasm := []byte("\x00asm\x01\x00\x00\x00" + content)
	return f.moduleOf(wasm), wasm
}

func (f *moduleFixture) moduleOf(wasm []byte) actor.Module {
	return actor.Module{
		App: f.app, Digest: actor.DigestOf(wasm), Size: int64(len(wasm)),
		Manifest: []byte(`{"abi": 1, "types": [{"name":"Cart"}] }`),
	}
}

// put stores a small module.
func (f *moduleFixture) put(content string) (actor.Module, []byte) {
	f.Helper()
	m, wasm := f.module(content)
	f.ok(f.s.PutModule(f.ctx(), m, bytes.NewReader(wasm), 0))
	return m, wasm
}

// sized is a module of so many bytes, and putSized stores one.
func (f *moduleFixture) sized(content string, size int) (actor.Module, []byte) {
	wasm := bytes.Repeat([]byte(content+" "), size/(len(content)+1)+1)[:size]
	return f.moduleOf(wasm), wasm
}

func (f *moduleFixture) putSized(content string, size int) (actor.Module, []byte) {
	f.Helper()
	m, wasm := f.sized(content, size)
	f.ok(f.s.PutModule(f.ctx(), m, bytes.NewReader(wasm), 0))
	return m, wasm
}

// stores checks which modules the app has.
func (f *moduleFixture) stores(want ...actor.Module) {
	f.Helper()
	ms, err := f.s.ListModules(f.ctx(), f.app, "", 100)
	f.ok(err)
	var got, wanted []actor.Digest
	for _, m := range ms {
		got = append(got, m.Digest)
	}
	for _, m := range want {
		wanted = append(wanted, m.Digest)
	}
	slices.Sort(wanted)
	if !slices.Equal(got, wanted) {
		f.Fatalf("the app has the modules %v, want %v", got, wanted)
	}
}

// sameModule compares all but the time.
func (f *moduleFixture) sameModule(got, want actor.Module) {
	f.Helper()
	if got.App != want.App || got.Digest != want.Digest || got.Size != want.Size || !bytes.Equal(got.Manifest, want.Manifest) {
		f.Fatalf("module is %+v, want %+v", got, want)
	}
}

func (f *moduleFixture) hasBytes(m actor.Module, want []byte) {
	f.Helper()
	got, err := f.s.ModuleBytes(f.ctx(), m.App, m.Digest)
	f.ok(err)
	if !bytes.Equal(got, want) {
		f.Fatalf("%d bytes were read that are not the %d stored", len(got), len(want))
	}
}

func (f *moduleFixture) deployment(typ string, generation uint64, m actor.Module) actor.Deployment {
	return actor.Deployment{App: f.app, Type: typ, Generation: generation, Digest: m.Digest, StateSchema: 4}
}

func (f *moduleFixture) deploy(ds ...actor.Deployment) {
	f.Helper()
	f.ok(f.s.Deploy(f.ctx(), ds, store.AnyRevision))
}

// serves checks what is deployed in the fixture's app.
func (f *moduleFixture) serves(want ...actor.Deployment) {
	f.Helper()
	got, err := f.s.Deployments(f.ctx(), f.app)
	f.ok(err)
	f.sameDeployments(got, want)
}

// sameDeployments compares all but the time, which must be set.
func (f *moduleFixture) sameDeployments(got, want []actor.Deployment) {
	f.Helper()
	if len(got) != len(want) {
		f.Fatalf("%d deployments, want %d:\n %+v\n %+v", len(got), len(want), got, want)
	}
	for i, d := range got {
		if d.CreatedAt.IsZero() {
			f.Fatalf("%+v has no time", d)
		}
		d.CreatedAt = time.Time{}
		if d != want[i] {
			f.Fatalf("deployment %d is %+v, want %+v", i, d, want[i])
		}
	}
}

func isAny(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}
