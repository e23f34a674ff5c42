package storetest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// readCode counts the bytes that are read of a module.
type readCode struct {
	*bytes.Reader
	read int
}

func (c *readCode) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.Reader.ReadAt(p, off)
	c.read += n
	return n, err
}

var modules = suite{"Modules", []testCase{
	{"a stored module is read as it was", func(f *fixture) {
		m, wasm := f.module("x")
		before := f.now()
		f.ok(f.s.PutModule(f.ctx(), m, bytes.NewReader(wasm), 0))
		after := f.now()
		got, err := f.s.Module(f.ctx(), f.app, m.Digest)
		f.ok(err)
		f.sameModule(got, m)
		if got.CreatedAt.Before(before) || got.CreatedAt.After(after) {
			f.Fatalf("CreatedAt is %v, not between %v and %v", got.CreatedAt, before, after)
		}
		f.hasBytes(m, wasm)
	}},
	{"a module that is not stored is not found", func(f *fixture) {
		m, _ := f.module("x")
		_, err := f.s.Module(f.ctx(), f.app, m.Digest)
		f.is(err, actor.ErrModuleNotFound)
		_, err = f.s.ModuleBytes(f.ctx(), f.app, m.Digest)
		f.is(err, actor.ErrModuleNotFound)
		f.is(f.s.DeleteModule(f.ctx(), f.app, m.Digest), actor.ErrModuleNotFound)
	}},
	{"storing again changes nothing, and counts as new", func(f *fixture) {
		m, wasm := f.put("x")
		first, err := f.s.Module(f.ctx(), f.app, m.Digest)
		f.ok(err)
		m.Manifest = []byte(`{"other":true}`)
		code := &readCode{Reader: bytes.NewReader(wasm)}
		f.ok(f.s.PutModule(f.ctx(), m, code, 0))
		if code.read > len(wasm) { // for more than the digest
			f.Fatal("bytes that are there were written again")
		}
		again, err := f.s.Module(f.ctx(), f.app, m.Digest)
		f.ok(err)
		f.sameModule(again, first)
		if again.CreatedAt.Before(first.CreatedAt) {
			f.Fatalf("CreatedAt moved back from %v to %v", first.CreatedAt, again.CreatedAt)
		}
	}},
	{"bytes that are not the digest's are refused", func(f *fixture) {
		m, wasm := f.module("x")
		f.argument(f.s.PutModule(f.ctx(), m, bytes.NewReader(append(wasm, 0)), 0))
		m.Size++
		f.argument(f.s.PutModule(f.ctx(), m, bytes.NewReader(wasm), 0))
		_, err := f.s.Module(f.ctx(), f.app, m.Digest)
		f.is(err, actor.ErrModuleNotFound)
	}},
	{"32 MiB are stored, and read byte for byte", func(f *fixture) {
		wasm := make([]byte, 32<<20)
		_, _ = rand.NewChaCha8([32]byte{1}).Read(wasm)
		m := f.moduleOf(wasm)
		f.ok(f.s.PutModule(f.ctx(), m, bytes.NewReader(wasm), 0))
		f.hasBytes(m, wasm)
		f.ok(f.s.DeleteModule(f.ctx(), f.app, m.Digest))
		_, err := f.s.ModuleBytes(f.ctx(), f.app, m.Digest)
		f.is(err, actor.ErrModuleNotFound)
	}},
	{"sizes around a chunk are stored", func(f *fixture) {
		for _, size := range []int{1, 1<<20 - 1, 1 << 20, 1<<20 + 1} {
			wasm := bytes.Repeat([]byte{'w'}, size)
			m := f.moduleOf(wasm)
			f.ok(f.s.PutModule(f.ctx(), m, bytes.NewReader(wasm), 0))
			f.hasBytes(m, wasm)
		}
	}},
	{"modules own their bytes", func(f *fixture) {
		m, wasm := f.put("x")
		clear(wasm)
		clear(m.Manifest)
		want, bytes := f.module("x")
		got, err := f.s.Module(f.ctx(), f.app, m.Digest)
		f.ok(err)
		f.sameModule(got, want)
		clear(got.Manifest)
		got, err = f.s.Module(f.ctx(), f.app, m.Digest)
		f.ok(err)
		f.sameModule(got, want)
		f.hasBytes(want, bytes)
	}},
	{"modules come in order of digest, page by page", func(f *fixture) {
		var want []actor.Digest
		for i := range 7 {
			m, _ := f.put(fmt.Sprint(i))
			want = append(want, m.Digest)
		}
		slices.Sort(want)
		for _, page := range []int{1, 3, 7, 100} {
			var got []actor.Digest
			for after := actor.Digest(""); ; after = got[len(got)-1] {
				ms, err := f.s.ListModules(f.ctx(), f.app, after, page)
				f.ok(err)
				for _, m := range ms {
					if m.App != f.app || m.Size == 0 || len(m.Manifest) == 0 || m.CreatedAt.IsZero() {
						f.Fatalf("incomplete module %+v", m)
					}
					got = append(got, m.Digest)
				}
				if len(ms) < page {
					break
				}
			}
			if !slices.Equal(got, want) {
				f.Fatalf("pages of %d give %v, want %v", page, got, want)
			}
		}
		for _, limit := range []int{0, store.MaxList + 1} {
			_, err := f.s.ListModules(f.ctx(), f.app, "", limit)
			f.argument(err)
		}
	}},
	{"apps have modules of their own", func(f *fixture) {
		m, wasm := f.put("x")
		other := f.app + ".other"
		_, err := f.s.Module(f.ctx(), other, m.Digest)
		f.is(err, actor.ErrModuleNotFound)
		_, err = f.s.ModuleBytes(f.ctx(), other, m.Digest)
		f.is(err, actor.ErrModuleNotFound)
		d := f.deployment("Cart", 1, m)
		d.App = other
		f.is(f.s.Deploy(f.ctx(), []actor.Deployment{d}, store.AnyRevision), actor.ErrModuleNotFound)
		theirs := m
		theirs.App = other
		f.ok(f.s.PutModule(f.ctx(), theirs, bytes.NewReader(wasm), 0))
		f.ok(f.s.DeleteModule(f.ctx(), other, m.Digest))
		f.hasBytes(m, wasm)
		ms, err := f.s.ListModules(f.ctx(), other, "", 10)
		f.ok(err)
		if len(ms) != 0 {
			f.Fatalf("the other app has %v", ms)
		}
	}},
	{"a deleted module is gone, and can be stored again", func(f *fixture) {
		m, wasm := f.put("x")
		f.ok(f.s.DeleteModule(f.ctx(), f.app, m.Digest))
		_, err := f.s.Module(f.ctx(), f.app, m.Digest)
		f.is(err, actor.ErrModuleNotFound)
		ms, err := f.s.ListModules(f.ctx(), f.app, "", 10)
		f.ok(err)
		if len(ms) != 0 {
			f.Fatalf("still listed: %v", ms)
		}
		f.ok(f.s.PutModule(f.ctx(), m, bytes.NewReader(wasm), 0))
		f.hasBytes(m, wasm)
	}},
	{"a deployed module cannot be deleted, one that was can", func(f *fixture) {
		old, _ := f.put("old")
		m, wasm := f.put("new")
		f.deploy(f.deployment("Cart", 1, old))
		f.is(f.s.DeleteModule(f.ctx(), f.app, old.Digest), actor.ErrModuleInUse)
		f.deploy(f.deployment("Cart", 2, m))
		f.ok(f.s.DeleteModule(f.ctx(), f.app, old.Digest))
		f.is(f.s.DeleteModule(f.ctx(), f.app, m.Digest), actor.ErrModuleInUse)
		f.hasBytes(m, wasm)
	}},
	{"storing, reading and deleting at once shows whole modules alone", func(f *fixture) {
		wasm := bytes.Repeat([]byte("greenroom"), 300_000)
		m := f.moduleOf(wasm)
		const rounds = 6
		f.inParallel(4, func(i int) error {
			for range rounds {
				switch i {
				case 0, 1:
					if err := f.s.PutModule(f.ctx(), m, bytes.NewReader(wasm), 0); err != nil {
						return err
					}
				case 2:
					if err := f.s.DeleteModule(f.ctx(), f.app, m.Digest); err != nil && !isAny(err, actor.ErrModuleNotFound) {
						return err
					}
				default:
					got, err := f.s.ModuleBytes(f.ctx(), f.app, m.Digest)
					if err != nil && !isAny(err, actor.ErrModuleNotFound) {
						return err
					}
					if err == nil && !bytes.Equal(got, wasm) {
						return fmt.Errorf("read %d bytes that are not the module's", len(got))
					}
				}
			}
			return nil
		})
		f.ok(f.s.PutModule(f.ctx(), m, bytes.NewReader(wasm), 0))
		f.hasBytes(m, wasm)
	}},
}}

var storedModules = suite{"StoredModules", []testCase{
	{"modules that serve nothing make room, the oldest first", func(f *fixture) {
		first, _ := f.putSized("first", 40<<10)
		second, _ := f.putSized("second", 40<<10)
		third, _ := f.putSized("third", 40<<10)
		f.deploy(f.deployment("Cart", 1, first))
		fourth, wasm := f.sized("fourth", 40<<10)
		f.ok(f.s.PutModule(f.ctx(), fourth, bytes.NewReader(wasm), 3*store.StoredBytes(fourth.Size, len(fourth.Manifest))))
		f.stores(first, third, fourth)
		_, err := f.s.ModuleBytes(f.ctx(), f.app, second.Digest)
		f.is(err, actor.ErrModuleNotFound)
		f.hasBytes(fourth, wasm)
		fifth, wasm := f.sized("fifth", 80<<10)
		f.ok(f.s.PutModule(f.ctx(), fifth, bytes.NewReader(wasm), 130<<10))
		f.stores(first, fifth)
	}},
	{"what serves makes no room, and nothing is removed in vain", func(f *fixture) {
		serves, _ := f.putSized("serves", 60<<10)
		unused, _ := f.putSized("unused", 20<<10)
		f.deploy(f.deployment("Cart", 1, serves))
		m, wasm := f.sized("more", 50<<10)
		err := f.s.PutModule(f.ctx(), m, bytes.NewReader(wasm), 100<<10)
		f.is(err, actor.ErrModulesFull)
		for _, number := range []int64{serves.Size + int64(len(serves.Manifest)), m.Size + int64(len(m.Manifest)), 100 << 10} {
			if !strings.Contains(err.Error(), fmt.Sprint(number)) {
				f.Fatalf("%q does not say %d", err, number)
			}
		}
		f.stores(serves, unused)
		again, wasm := f.sized("serves", 60<<10)
		f.ok(f.s.PutModule(f.ctx(), again, bytes.NewReader(wasm), 1)) // it is there
		_, wasm = f.sized("more", 50<<10)
		f.ok(f.s.PutModule(f.ctx(), m, bytes.NewReader(wasm), 0))
	}},
	{"what was stored again makes room as what is new", func(f *fixture) {
		first, wasm := f.putSized("first", 40<<10)
		second, _ := f.putSized("second", 40<<10)
		f.ok(f.s.PutModule(f.ctx(), first, bytes.NewReader(wasm), 100<<10))
		third, wasm := f.sized("third", 40<<10)
		f.ok(f.s.PutModule(f.ctx(), third, bytes.NewReader(wasm), 100<<10))
		f.stores(first, third)
		_, err := f.s.ModuleBytes(f.ctx(), f.app, second.Digest)
		f.is(err, actor.ErrModuleNotFound)
	}},
	{"what a rollback goes back to, and what has just ceased to serve, makes no room", func(f *fixture) {
		var deployed []actor.Module
		for n := range uint64(3) {
			m, _ := f.putSized(fmt.Sprint("deployed ", n), 40<<10)
			f.deploy(f.deployment("Cart", n+1, m))
			deployed = append(deployed, m)
		}
		f.ok(f.s.Deploy(f.ctx(), []actor.Deployment{{App: f.app, Type: "Cart", Generation: 4}}, store.AnyRevision))
		_, _ = f.putSized("unused", 40<<10)
		m, wasm := f.sized("new", 40<<10)
		f.is(f.s.PutModule(f.ctx(), m, bytes.NewReader(wasm), 150<<10), actor.ErrModulesFull)
		f.ok(f.s.PutModule(f.ctx(), m, bytes.NewReader(wasm), 170<<10))
		f.stores(append(deployed, m)...)
	}},
	{"small modules count as well", func(f *fixture) {
		var last []actor.Module
		for n := range 8 {
			m, wasm := f.module(fmt.Sprint(n))
			f.ok(f.s.PutModule(f.ctx(), m, bytes.NewReader(wasm), 4*store.LeastStored))
			last = append(last, m)
		}
		f.stores(last[4:]...)
	}},
	{"many uploads at once stay within the bound, and no other app's is held up", func(f *fixture) {
		const most, size, rivals = 100 << 10, 40 << 10, 2
		for round := range 20 {
			app, other := newFixture(f.T, f.s, fmt.Sprint(f.app, ".", round)), newFixture(f.T, f.s, fmt.Sprint(f.app, ".other", round))
			serves, _ := app.putSized("serves", size)
			app.deploy(app.deployment("Cart", 1, serves))
			f.inParallel(rivals+1, func(i int) error {
				of := app
				if i == rivals {
					of = other
				}
				m, wasm := of.sized(fmt.Sprint("rival ", i), size)
				return f.s.PutModule(f.ctx(), m, bytes.NewReader(wasm), most)
			})
			ms, err := f.s.ListModules(f.ctx(), app.app, "", 100)
			f.ok(err)
			if len(ms) != 2 || ms[0].Digest != serves.Digest && ms[1].Digest != serves.Digest {
				f.Fatalf("with room for two, and one that serves, the app has %d modules", len(ms))
			}
		}
	}},
	{"making room against deploying never leaves a type without its module", func(f *fixture) {
		for i := range 20 {
			app := newFixture(f.T, f.s, fmt.Sprint(f.app, ".", i))
			old, _ := app.putSized("old", 40<<10)
			m, wasm := app.sized("new", 40<<10)
			var deployed, stored error
			f.together(
				func() {
					deployed = f.s.Deploy(f.ctx(), []actor.Deployment{app.deployment("Cart", 1, old)}, store.AnyRevision)
				},
				func() { stored = f.s.PutModule(f.ctx(), m, bytes.NewReader(wasm), 60<<10) },
			)
			if deployed != nil {
				f.is(deployed, actor.ErrModuleNotFound)
				f.ok(stored)
				app.stores(m)
				continue
			}
			f.is(stored, actor.ErrModulesFull)
			app.stores(old)
		}
	}},
}}
