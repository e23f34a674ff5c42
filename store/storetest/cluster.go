package storetest

import (
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

var hosts = suite{"Hosts", []testCase{
	{"a host that registers is listed, with the store's times", func(f *fixture) {
		before := f.now()
		want := f.host("a")
		want.Name, want.Address, want.Roles, want.Version, want.MinProtocol, want.MaxProtocol = "name", "127.0.0.1:1", []string{"host", "scheduler"}, "v1", 2, 3
		got, err := f.s.RegisterHost(f.ctx(), want, time.Minute)
		f.ok(err)
		if got.StartedAt.Before(before) || !got.ExpiresAt.Equal(got.StartedAt.Add(time.Minute)) {
			f.Fatalf("started %v, expires %v; registered after %v for a minute", got.StartedAt, got.ExpiresAt, before)
		}
		f.sameHost(f.listed("a"), got)
		want.StartedAt, want.ExpiresAt = got.StartedAt, got.ExpiresAt
		f.sameHost(got, want)
	}},
	{"a host of no role has none", func(f *fixture) {
		f.register("a", time.Minute)
		if got := f.listed("a").Roles; len(got) != 0 {
			f.Fatalf("roles are %q", got)
		}
	}},
	{"registering again is the same host, renewed", func(f *fixture) {
		first := f.register("a", time.Minute)
		again := f.register("a", time.Hour)
		if !again.StartedAt.Equal(first.StartedAt) || !again.ExpiresAt.After(first.ExpiresAt.Add(50*time.Minute)) {
			f.Fatalf("registered as %v, then as %v", first, again)
		}
		f.sameHost(f.listed("a"), again)
	}},
	{"a host of another cluster is refused", func(f *fixture) {
		f.register("a", time.Minute)
		h := f.host("b")
		h.Cluster = "another"
		_, err := f.s.RegisterHost(f.ctx(), h, time.Minute)
		f.is(err, actor.ErrClusterName)
		f.unlisted("b")
	}},
	{"renewing moves the end of the lease, also after it, and notes the sticky actors", func(f *fixture) {
		first := f.register("a", 0)
		now, err := f.s.RenewHost(f.ctx(), f.id("a"), time.Minute, 7)
		f.ok(err)
		if got := f.listed("a"); now.Before(first.ExpiresAt) || !got.ExpiresAt.Equal(now.Add(time.Minute)) || got.Sticky != 7 {
			f.Fatalf("renewed at %v with 7 sticky actors: %+v", now, got)
		}
	}},
	{"a host without a row cannot renew", func(f *fixture) {
		_, err := f.s.RenewHost(f.ctx(), f.id("a"), time.Minute, 0)
		f.is(err, actor.ErrHostGone)
		f.register("a", time.Minute)
		f.ok(f.s.RemoveHost(f.ctx(), f.id("a")))
		f.ok(f.s.RemoveHost(f.ctx(), f.id("a")))
		_, err = f.s.RenewHost(f.ctx(), f.id("a"), time.Minute, 0)
		f.is(err, actor.ErrHostGone)
		f.unlisted("a")
	}},
	{"a host is cleared only when its lease is over, by who holds the lease it names", func(f *fixture) {
		l := f.take("leader", "a", time.Minute)
		clears := func(id string, epoch uint64, want bool) {
			f.Helper()
			gone, err := f.s.ClearHost(f.ctx(), f.id(id), l.Name, epoch)
			f.ok(err)
			if gone != want {
				f.Fatalf("clearing %s at epoch %d: %t, want %t", id, epoch, gone, want)
			}
		}
		f.register("current", time.Minute)
		f.register("over", 0)
		clears("current", l.Epoch, false)
		clears("over", l.Epoch-1, false)
		clears("over", l.Epoch+1, false)
		f.listed("over")
		clears("over", l.Epoch, true)
		f.unlisted("over")
		clears("over", l.Epoch, true)
		clears("never", l.Epoch, true)
		f.listed("current")

		f.register("late", 0)
		f.ok(f.s.ReleaseLease(f.ctx(), l))
		clears("late", l.Epoch, false)
	}},
	{"a host that renews and one that clears: one of them wins", func(f *fixture) {
		l := f.take("leader", "a", time.Minute)
		for i := range 20 {
			id := string(rune('a' + i))
			f.register(id, 0)
			var gone bool
			var renewed, cleared error
			f.together(
				func() { _, renewed = f.s.RenewHost(f.ctx(), f.id(id), time.Minute, 0) },
				func() { gone, cleared = f.s.ClearHost(f.ctx(), f.id(id), l.Name, l.Epoch) },
			)
			f.ok(cleared)
			if gone {
				f.is(renewed, actor.ErrHostGone)
				f.unlisted(id)
			} else {
				f.ok(renewed)
				f.listed(id)
			}
		}
	}},
}}

var leases = suite{"Leases", []testCase{
	{"a lease that nobody took is unknown", func(f *fixture) {
		_, found, err := f.s.Lease(f.ctx(), f.app)
		f.ok(err)
		if found {
			f.Fatal("found")
		}
	}},
	{"it has one holder at a time, and a higher epoch each time", func(f *fixture) {
		first := f.take("l", "a", time.Minute)
		f.busy("l", "b")
		f.ok(f.s.ReleaseLease(f.ctx(), first))
		second := f.take("l", "b", 0) // over at once
		third := f.take("l", "a", time.Minute)
		if second.Epoch <= first.Epoch || third.Epoch <= second.Epoch {
			f.Fatalf("epochs are %d, %d, %d", first.Epoch, second.Epoch, third.Epoch)
		}
		got, found, err := f.s.Lease(f.ctx(), first.Name)
		f.ok(err)
		if !found || got != third {
			f.Fatalf("lease is %v, want %v", got, third)
		}
	}},
	{"its holder may take it again, at a higher epoch", func(f *fixture) {
		first := f.take("l", "a", time.Minute)
		if again := f.take("l", "a", time.Minute); again.Epoch <= first.Epoch {
			f.Fatalf("epochs are %d, %d", first.Epoch, again.Epoch)
		}
		f.renews(first, false)
	}},
	{"renewing moves its end, also after it, unless another took it", func(f *fixture) {
		l := f.take("l", "a", 0)
		f.renews(l, true)
		f.busy("l", "b")
		f.ok(f.s.ReleaseLease(f.ctx(), l))
		f.take("l", "b", time.Minute)
		f.renews(l, false)
		f.ok(f.s.ReleaseLease(f.ctx(), l)) // not its own any more
		f.busy("l", "c")
	}},
	{"another epoch or holder renews nothing", func(f *fixture) {
		l := f.take("l", "a", time.Minute)
		other := l
		other.Epoch++
		f.renews(other, false)
		other = l
		other.Holder = f.id("b")
		f.renews(other, false)
		f.renews(l, true)
	}},
	{"names are kept apart", func(f *fixture) {
		f.take("l", "a", time.Minute)
		f.take("m", "b", time.Minute)
	}},
	{"those of a prefix are listed in order, with the store's time", func(f *fixture) {
		before := f.now()
		f.take("list", "z", time.Minute)
		b, a := f.take("list/b", "x", time.Minute), f.take("list/a", "y", time.Minute)
		f.take("lisu", "z", time.Minute)
		f.ok(f.s.ReleaseLease(f.ctx(), a))
		got, now, err := f.s.Leases(f.ctx(), f.app+".list/")
		f.ok(err)
		if now.Before(before) || len(got) != 2 || got[0].Name != a.Name || got[0].Holder != a.Holder || got[0].Epoch != a.Epoch || got[0].ExpiresAt.After(now) || got[1] != b {
			f.Fatalf("leases at %v are %+v", now, got)
		}
		if got, now, err = f.s.Leases(f.ctx(), f.app+".none/"); err != nil || len(got) != 0 || now.Before(before) {
			f.Fatalf("leases at %v are %+v, %v", now, got, err)
		}
	}},
	{"of many that want it one gets it", func(f *fixture) {
		var got atomic.Int32
		f.inParallel(8, func(i int) error {
			_, taken, err := f.s.AcquireLease(f.ctx(), f.app+".l", f.id(string(rune('a'+i))), time.Minute)
			if taken {
				got.Add(1)
			}
			return err
		})
		if got.Load() != 1 {
			f.Fatalf("%d got it", got.Load())
		}
	}},
}}
