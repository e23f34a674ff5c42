package storetest

import (
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// clusterFixture tests hosts and leases.
type clusterFixture struct{ *base }

// id is a host of this test alone.
func (f *clusterFixture) id(name string) actor.HostID { return actor.HostID(f.app + "." + name) }

func (f *clusterFixture) host(name string) actor.Host {
	return actor.Host{ID: f.id(name), Cluster: clusterName}
}

func (f *clusterFixture) register(name string, length time.Duration) actor.Host {
	f.Helper()
	h, err := f.s.RegisterHost(f.ctx(), f.host(name), length)
	f.ok(err)
	return h
}

func (f *clusterFixture) find(name string) (actor.Host, bool) {
	f.Helper()
	before := f.now()
	list, now, err := f.s.Hosts(f.ctx())
	f.ok(err)
	if now.Before(before) {
		f.Fatalf("the list is of %v, asked for after %v", now, before)
	}
	for i, h := range list {
		if i > 0 && list[i-1].ID >= h.ID {
			f.Fatalf("host %q comes before %q", list[i-1].ID, h.ID)
		}
	}
	for _, h := range list {
		if h.ID == f.id(name) {
			return h, true
		}
	}
	return actor.Host{}, false
}

func (f *clusterFixture) listed(name string) actor.Host {
	f.Helper()
	h, found := f.find(name)
	if !found {
		f.Fatalf("host %s is not listed", name)
	}
	return h
}

func (f *clusterFixture) unlisted(name string) {
	f.Helper()
	if h, found := f.find(name); found {
		f.Fatalf("host %s is listed: %v", name, h)
	}
}

func (f *clusterFixture) sameHost(got, want actor.Host) {
	f.Helper()
	times := got.StartedAt.Equal(want.StartedAt) && got.ExpiresAt.Equal(want.ExpiresAt)
	roles := len(got.Roles) == len(want.Roles)
	for i := range got.Roles {
		roles = roles && got.Roles[i] == want.Roles[i]
	}
	if !times || !roles || got.ID != want.ID || got.Name != want.Name || got.Cluster != want.Cluster || got.Address != want.Address ||
		got.Version != want.Version || got.Sticky != want.Sticky || got.MinProtocol != want.MinProtocol || got.MaxProtocol != want.MaxProtocol {
		f.Fatalf("host is\n  %+v, want\n  %+v", got, want)
	}
}

// take takes a lease that is to be had.
func (f *clusterFixture) take(name, holder string, length time.Duration) actor.Lease {
	f.Helper()
	before := f.now()
	l, taken, err := f.s.AcquireLease(f.ctx(), f.app+"."+name, f.id(holder), length)
	f.ok(err)
	if !taken || l.Name != f.app+"."+name || l.Holder != f.id(holder) || l.Epoch == 0 || l.ExpiresAt.Before(before.Add(length)) {
		f.Fatalf("taken: %t, %+v", taken, l)
	}
	return l
}

// busy checks that a lease is not to be had.
func (f *clusterFixture) busy(name, holder string) {
	f.Helper()
	l, taken, err := f.s.AcquireLease(f.ctx(), f.app+"."+name, f.id(holder), time.Minute)
	f.ok(err)
	if taken {
		f.Fatalf("taken: %+v", l)
	}
}

func (f *clusterFixture) renews(l actor.Lease, want bool) {
	f.Helper()
	held, err := f.s.RenewLease(f.ctx(), l, time.Minute)
	f.ok(err)
	if held != want {
		f.Fatalf("renewing %+v: %t, want %t", l, held, want)
	}
}

// clusterName is that of the store that the tests of a Run share.
const clusterName = "storetest"
