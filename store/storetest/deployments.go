package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

var deployments = suite{"Deployments", []testCase{
	{"the first deployment is generation 1", func(f *fixture) {
		m, _ := f.put("x")
		d := f.deployment("Cart", 1, m)
		before := f.now()
		f.deploy(d)
		after := f.now()
		f.serves(d)
		got, err := f.s.Deployments(f.ctx(), f.app)
		f.ok(err)
		if at := got[0].CreatedAt; at.Before(before) || at.After(after) {
			f.Fatalf("CreatedAt is %v, not between %v and %v", at, before, after)
		}
	}},
	{"nothing to deploy is nothing to do", func(f *fixture) {
		f.ok(f.s.Deploy(f.ctx(), nil, store.AnyRevision))
	}},
	{"any other than the next generation is a conflict", func(f *fixture) {
		m, _ := f.put("x")
		f.is(f.s.Deploy(f.ctx(), []actor.Deployment{f.deployment("Cart", 2, m)}, store.AnyRevision), actor.ErrDeployConflict)
		f.serves()
		first := f.deployment("Cart", 1, m)
		f.deploy(first)
		for _, g := range []uint64{1, 3} {
			f.is(f.s.Deploy(f.ctx(), []actor.Deployment{f.deployment("Cart", g, m)}, store.AnyRevision), actor.ErrDeployConflict)
		}
		f.serves(first)
	}},
	{"a deployment that rests on another revision is a conflict", func(f *fixture) {
		m, _ := f.put("x")
		revision := func() uint64 {
			ds, err := f.s.Deployments(f.ctx(), f.app)
			f.ok(err)
			return store.Revision(ds)
		}
		none := revision()
		a := f.deployment("A", 1, m)
		f.ok(f.s.Deploy(f.ctx(), []actor.Deployment{a}, none))
		f.is(f.s.Deploy(f.ctx(), []actor.Deployment{f.deployment("B", 1, m)}, none), actor.ErrDeployConflict)
		f.serves(a)
		b, one := f.deployment("B", 1, m), revision()
		f.ok(f.s.Deploy(f.ctx(), []actor.Deployment{b}, one))
		next, _ := f.put("y")
		again, two := f.deployment("A", 2, next), revision()
		f.deploy(again)
		f.is(f.s.Deploy(f.ctx(), []actor.Deployment{f.deployment("B", 2, next)}, two), actor.ErrDeployConflict)
		f.serves(again, b)
	}},
	{"of many deployments of different types by one revision exactly one wins", func(f *fixture) {
		const rivals = 6
		m, _ := f.put("x")
		var want []actor.Deployment
		for round := range 5 {
			var winner, winners atomic.Int32
			of := func(i int) actor.Deployment { return f.deployment(fmt.Sprintf("T%d%d", round, i), 1, m) }
			f.inParallel(rivals, func(i int) error {
				err := f.s.Deploy(f.ctx(), []actor.Deployment{of(i)}, store.Revision(want))
				if err == nil {
					winners.Add(1)
					winner.Store(int32(i))
					return nil
				}
				if !errors.Is(err, actor.ErrDeployConflict) {
					return err
				}
				return nil
			})
			if winners.Load() != 1 {
				f.Fatalf("round %d was won %d times", round, winners.Load())
			}
			want = append(want, of(int(winner.Load())))
			f.serves(want...)
		}
	}},
	{"several types are deployed all or none", func(f *fixture) {
		m, _ := f.put("x")
		next, _ := f.put("y")
		a, b := f.deployment("A", 1, m), f.deployment("B", 1, m)
		f.deploy(a, b)
		f.serves(a, b)
		f.is(f.s.Deploy(f.ctx(), []actor.Deployment{f.deployment("A", 2, next), f.deployment("B", 3, next), f.deployment("C", 1, next)}, store.AnyRevision), actor.ErrDeployConflict)
		f.serves(a, b)
		missing, _ := f.module("missing")
		f.is(f.s.Deploy(f.ctx(), []actor.Deployment{f.deployment("A", 2, next), f.deployment("B", 2, missing)}, store.AnyRevision), actor.ErrModuleNotFound)
		f.serves(a, b)
		f.deploy(f.deployment("B", 2, next))
		f.serves(a, f.deployment("B", 2, next))
	}},
	{"a malformed request is refused", func(f *fixture) {
		m, _ := f.put("x")
		d := f.deployment("Cart", 1, m)
		other, noType, zero, never, long, control, bytes, unprintable, many := d, d, d, d, d, d, d, d, d
		other.App, other.Type = f.app+".other", "B"
		noType.Type = ""
		zero.Generation = 0
		never.Digest = ""
		unprintable.Placement = "static:a b"
		many.Placement = strings.Repeat("p", store.MaxPlacement+1)
		long.Message = strings.Repeat("m", store.MaxDeployMessage+1)
		control.Message = "a\x00b"
		bytes.Message = "\xff"
		for _, ds := range [][]actor.Deployment{{d, other}, {d, d}, {noType}, {zero}, {never}, {long}, {control}, {bytes}, {unprintable}, {many}} {
			f.argument(f.s.Deploy(f.ctx(), ds, store.AnyRevision))
		}
		f.serves()
	}},
	{"a placement is kept with its deployment alone", func(f *fixture) {
		m, _ := f.put("x")
		first, second := f.deployment("Cart", 1, m), f.deployment("Cart", 2, m)
		first.Placement = "static:" + strings.Repeat("a", store.MaxPlacement-len("static:"))
		f.deploy(first)
		f.serves(first)
		f.deploy(second)
		f.serves(second)
		history, err := f.s.DeploymentHistory(f.ctx(), f.app, "Cart", 0, 10)
		f.ok(err)
		if len(history) != 2 || history[0].Placement != "" || history[1].Placement != first.Placement {
			f.Fatalf("history is %+v", history)
		}
	}},
	{"a type that was taken out of service is deployed as one, and holds no module", func(f *fixture) {
		m, _ := f.put("x")
		next, _ := f.put("y")
		a, b := f.deployment("A", 1, m), f.deployment("B", 1, m)
		f.deploy(a, b)
		out := f.deployment("A", 2, actor.Module{})
		out.Message = "moved"
		f.deploy(out, f.deployment("B", 2, next))
		f.serves(out, f.deployment("B", 2, next))
		f.ok(f.s.DeleteModule(f.ctx(), f.app, m.Digest))
		f.is(f.s.DeleteModule(f.ctx(), f.app, next.Digest), actor.ErrModuleInUse)
		f.is(f.s.Deploy(f.ctx(), []actor.Deployment{f.deployment("A", 2, next)}, store.AnyRevision), actor.ErrDeployConflict)
		f.is(f.s.Deploy(f.ctx(), []actor.Deployment{f.deployment("A", 4, actor.Module{})}, store.AnyRevision), actor.ErrDeployConflict)
		f.deploy(f.deployment("A", 3, next))
		f.serves(f.deployment("A", 3, next), f.deployment("B", 2, next))
	}},
	{"apps come in byte order with what they have, page by page", func(f *fixture) {
		app := func(suffix string) *fixture { return newFixture(f.T, f.s, f.app+suffix) }
		modules, both, out := app("-a.modules"), app("-b"), app("-b.out")
		modules.put("x")
		modules.put("y")
		m, _ := both.put("x")
		both.put("y")
		both.put("z")
		both.deploy(both.deployment("A", 1, m), both.deployment("B", 1, m), both.deployment("C", 1, m))
		both.deploy(both.deployment("B", 2, actor.Module{}))
		m, _ = out.put("x")
		out.deploy(out.deployment("A", 1, m))
		out.deploy(out.deployment("A", 2, actor.Module{}))
		out.ok(out.s.DeleteModule(f.ctx(), out.app, m.Digest))
		newest := func(f *fixture) (at time.Time) {
			ds, err := f.s.Deployments(f.ctx(), f.app)
			f.ok(err)
			for _, d := range ds {
				if d.CreatedAt.After(at) {
					at = d.CreatedAt
				}
			}
			return at
		}
		want := []store.AppInfo{
			{App: modules.app, Modules: 2},
			{App: both.app, Types: 2, Modules: 3, DeployedAt: newest(both)},
			{App: out.app, DeployedAt: newest(out)},
		}
		for _, page := range []int{1, 2, 100} {
			var got []store.AppInfo
			for after, more := f.app, true; more; {
				infos, err := f.s.ListApps(f.ctx(), after, page)
				f.ok(err)
				more = len(infos) == page
				for _, info := range infos {
					if info.App <= after {
						f.Fatalf("%s comes after %s", info.App, after)
					}
					if after = info.App; !strings.HasPrefix(info.App, f.app+"-") {
						more = false
						break
					}
					got = append(got, info)
				}
			}
			if !slices.Equal(got, want) {
				f.Fatalf("pages of %d give\n %+v, want\n %+v", page, got, want)
			}
		}
		all, err := f.s.ListApps(f.ctx(), "", store.MaxList)
		f.ok(err)
		if len(all) < store.MaxList && !slices.Contains(all, want[1]) {
			f.Fatalf("the apps from the first are %+v, without %+v", all, want[1])
		}
		for _, limit := range []int{0, store.MaxList + 1} {
			_, err := f.s.ListApps(f.ctx(), "", limit)
			f.argument(err)
		}
	}},
	{"the history is complete, newest first, page by page", func(f *fixture) {
		m, _ := f.put("x")
		old, _ := f.put("old")
		var want []actor.Deployment
		for g := range uint64(9) {
			d := f.deployment("Cart", g+1, m)
			if g%2 == 0 {
				d.Digest = old.Digest
			}
			d.StateSchema = uint32(g)
			switch g {
			case 2:
				d.Message = "größer:\n\tthe basket's \"limit\""
			case 3:
				d.Digest = "" // taken out of service
			case 4:
				d.Message = strings.Repeat("m", store.MaxDeployMessage)
			case 5:
				d.RolledBackFrom = 4
			}
			f.deploy(d)
			want = append([]actor.Deployment{d}, want...)
		}
		f.deploy(f.deployment("Car", 1, m))
		for _, page := range []int{1, 2, 9, 100} {
			var got []actor.Deployment
			for before := uint64(0); ; before = got[len(got)-1].Generation {
				ds, err := f.s.DeploymentHistory(f.ctx(), f.app, "Cart", before, page)
				f.ok(err)
				got = append(got, ds...)
				if len(ds) < page {
					break
				}
			}
			f.sameDeployments(got, want)
		}
		got, err := f.s.DeploymentHistory(f.ctx(), f.app, "Cart", 1, 10)
		f.ok(err)
		f.sameDeployments(got, nil)
		got, err = f.s.DeploymentHistory(f.ctx(), f.app, "Nothing", 0, 10)
		f.ok(err)
		f.sameDeployments(got, nil)
		for _, limit := range []int{0, store.MaxList + 1} {
			_, err := f.s.DeploymentHistory(f.ctx(), f.app, "Cart", 0, limit)
			f.argument(err)
		}
	}},
	{"apps are kept apart, and can be listed together", func(f *fixture) {
		m, wasm := f.put("x")
		other := m
		other.App = f.app + "-other"
		f.ok(f.s.PutModule(f.ctx(), other, bytes.NewReader(wasm), 0))
		ours, theirs := f.deployment("Cart", 1, m), f.deployment("Cart", 1, other)
		theirs.App = other.App
		f.deploy(ours)
		f.deploy(theirs)
		f.serves(ours)
		all, err := f.s.Deployments(f.ctx(), "")
		f.ok(err)
		var got []actor.Deployment
		for i, d := range all {
			if i > 0 && (all[i-1].App > d.App || all[i-1].App == d.App && all[i-1].Type >= d.Type) {
				f.Fatalf("%s/%s comes before %s/%s", all[i-1].App, all[i-1].Type, d.App, d.Type)
			}
			if d.App == f.app || d.App == other.App {
				got = append(got, d)
			}
		}
		f.sameDeployments(got, []actor.Deployment{ours, theirs})
	}},
	{"types come in byte order", func(f *fixture) {
		m, _ := f.put("x")
		a, b, c, d := f.deployment("A", 1, m), f.deployment("A.b", 1, m), f.deployment("Aa", 1, m), f.deployment("a", 1, m)
		f.deploy(d, b, c, a)
		f.serves(a, b, c, d)
	}},
	{"of many deployments of one generation exactly one wins", func(f *fixture) {
		const rivals = 6
		var ms [rivals]actor.Module
		for i := range ms {
			ms[i], _ = f.put(fmt.Sprint(i))
		}
		for g := uint64(1); g <= 5; g++ {
			var winners atomic.Int32
			var winner atomic.Int32
			f.inParallel(rivals, func(i int) error {
				err := f.s.Deploy(f.ctx(), []actor.Deployment{f.deployment("Cart", g, ms[i]), f.deployment("Shop", g, ms[i])}, store.AnyRevision)
				if err == nil {
					winners.Add(1)
					winner.Store(int32(i))
					return nil
				}
				if !errors.Is(err, actor.ErrDeployConflict) {
					return err
				}
				return nil
			})
			if winners.Load() != 1 {
				f.Fatalf("generation %d was won %d times", g, winners.Load())
			}
			m := ms[winner.Load()]
			f.serves(f.deployment("Cart", g, m), f.deployment("Shop", g, m))
		}
	}},
	{"deploying against deleting never leaves a type without its module", func(f *fixture) {
		for i := range 20 {
			m, _ := f.put(fmt.Sprint(i))
			typ := fmt.Sprintf("Type%02d", i)
			var deployed, deleted error
			f.together(
				func() { deployed = f.s.Deploy(f.ctx(), []actor.Deployment{f.deployment(typ, 1, m)}, store.AnyRevision) },
				func() { deleted = f.s.DeleteModule(f.ctx(), f.app, m.Digest) },
			)
			if deployed != nil {
				f.is(deployed, actor.ErrModuleNotFound)
				f.ok(deleted)
				continue
			}
			f.is(deleted, actor.ErrModuleInUse)
			_, err := f.s.ModuleBytes(f.ctx(), f.app, m.Digest)
			f.ok(err)
		}
	}},
}}
