package storetest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

var modules = suite{"Modules", []testCase{
	{"a stored module is read as it was", func(f *fixture) {
		m, wasm := f.module("x")
		before := f.now()
		f.ok(f.s.PutModule(f.ctx(), m, bytes.NewReader(wasm)))
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
	{"storing again changes nothing", func(f *fixture) {
		m, wasm := f.put("x")
		first, err := f.s.Module(f.ctx(), f.app, m.Digest)
		f.ok(err)
		m.Manifest = []byte(`{"other":true}`)
		f.ok(f.s.PutModule(f.ctx(), m, bytes.NewReader(wasm)))
		again, err := f.s.Module(f.ctx(), f.app, m.Digest)
		f.ok(err)
		f.sameModule(again, first)
		if !again.CreatedAt.Equal(first.CreatedAt) {
			f.Fatalf("CreatedAt moved from %v to %v", first.CreatedAt, again.CreatedAt)
		}
	}},
	{"bytes that are not the digest's are refused", func(f *fixture) {
		m, wasm := f.module("x")
		f.argument(f.s.PutModule(f.ctx(), m, bytes.NewReader(append(wasm, 0))))
		m.Size++
		f.argument(f.s.PutModule(f.ctx(), m, bytes.NewReader(wasm)))
		_, err := f.s.Module(f.ctx(), f.app, m.Digest)
		f.is(err, actor.ErrModuleNotFound)
	}},
	{"32 MiB are stored, and read byte for byte", func(f *fixture) {
		wasm := make([]byte, 32<<20)
		_, _ = rand.NewChaCha8([32]byte{1}).Read(wasm)
		m := f.moduleOf(wasm)
		f.ok(f.s.PutModule(f.ctx(), m, bytes.NewReader(wasm)))
		f.hasBytes(m, wasm)
		f.ok(f.s.DeleteModule(f.ctx(), f.app, m.Digest))
		_, err := f.s.ModuleBytes(f.ctx(), f.app, m.Digest)
		f.is(err, actor.ErrModuleNotFound)
	}},
	{"sizes around a chunk are stored", func(f *fixture) {
		for _, size := range []int{1, 1<<20 - 1, 1 << 20, 1<<20 + 1} {
			wasm := bytes.Repeat([]byte{'w'}, size)
			m := f.moduleOf(wasm)
			f.ok(f.s.PutModule(f.ctx(), m, bytes.NewReader(wasm)))
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
		f.is(f.s.Deploy(f.ctx(), []actor.Deployment{d}), actor.ErrModuleNotFound)
		theirs := m
		theirs.App = other
		f.ok(f.s.PutModule(f.ctx(), theirs, bytes.NewReader(wasm)))
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
		f.ok(f.s.PutModule(f.ctx(), m, bytes.NewReader(wasm)))
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
					if err := f.s.PutModule(f.ctx(), m, bytes.NewReader(wasm)); err != nil {
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
		f.ok(f.s.PutModule(f.ctx(), m, bytes.NewReader(wasm)))
		f.hasBytes(m, wasm)
	}},
}}
