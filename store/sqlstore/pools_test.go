package sqlstore_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/sqlstore"
	"github.com/greenroom-run/greenroom/store/sqlstore/internal/pgproxy"
)

const listStatement = "row_number()"

// staysAlive checks that everything works by which a host keeps its place in the cluster.
func (b *broken) staysAlive(s *sqlstore.Store) {
	b.Helper()
	ctx, length := b.Context(), time.Minute
	h := actor.Host{ID: "alive", Name: "alive", Cluster: "c", Address: "127.0.0.1:1", Roles: []string{"host"}, MinProtocol: 1, MaxProtocol: 1}
	_, err := s.RegisterHost(ctx, h, length)
	b.is("register", err, nil)
	_, err = s.RenewHost(ctx, h.ID, length, 0)
	b.is("renew", err, nil)
	_, _, err = s.Hosts(ctx)
	b.is("hosts", err, nil)
	l, _, err := s.AcquireLease(ctx, "leader", h.ID, length)
	b.is("acquire the lease", err, nil)
	_, err = s.RenewLease(ctx, l, length)
	b.is("renew the lease", err, nil)
	_, _, err = s.Lease(ctx, l.Name)
	b.is("read the lease", err, nil)
	_, _, err = s.Leases(ctx, "l")
	b.is("read the leases", err, nil)
	_, err = s.ClearHost(ctx, "nobody", l.Name, l.Epoch)
	b.is("clear a host", err, nil)
	b.is("release the lease", s.ReleaseLease(ctx, l), nil)
	b.is("check", s.Check(ctx), nil)
	b.is("remove", s.RemoveHost(ctx, h.ID), nil)
}

// TestListsLeaveLeasesTheirConnections: no list, and nothing else that apps ask for, takes
// the connections by which a host stays alive.
func TestListsLeaveLeasesTheirConnections(t *testing.T) {
	b := behindProxy(t, sqlstore.Config{GeneralConns: 1})
	held := b.proxy.Plan(t, pgproxy.Fault{On: listStatement, Do: pgproxy.Hold})
	listed := make(chan error, 1)
	go func() {
		_, _, err := b.s.ListActors(t.Context(), store.ActorQuery{App: "shop", Type: "Cart", Limit: 1})
		listed <- err
	}()
	<-held.Struck()
	b.staysAlive(b.s)
	held.Release()
	b.is("list", <-listed, nil)
}

// TestSettlingWaitsForLockedRowsBesideAllElse settles more commits than there are connections
// for it while their rows are locked: leases, loads and the settling of a free row go on.
func TestSettlingWaitsForLockedRowsBesideAllElse(t *testing.T) {
	b := behindProxy(t, sqlstore.Config{GeneralConns: 1})
	commits := b.group(5)
	free := write(key("free"), b.stored("free"), `{"n":2}`)
	tx := b.begin()
	for _, c := range commits[:4] {
		b.lock(tx, c.Anchor().Key)
	}
	settled := make(chan error, 4)
	for _, c := range commits[:4] {
		go func() { settled <- b.s.Settle(context.WithoutCancel(t.Context()), c) }()
	}
	b.waitForLock()
	b.staysAlive(b.s)
	load(t, b.s, commits[0].Anchor().Key)
	b.is("a row that is free", b.s.Settle(t.Context(), free), actor.ErrStale)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		b.is("a row that was locked", <-settled, actor.ErrStale)
	}
}

// TestStatementsOfOneAppHoldUpNoOther has an app list its actors more often at a time than there
// are connections, with lists that do not end: another app's loads, lists and settings go on, and
// so does a group of loads of several apps. A list that is given up while it waits leaves the
// others their turns.
func TestStatementsOfOneAppHoldUpNoOther(t *testing.T) {
	const conns, flood = 8, 20
	b := behindProxy(t, sqlstore.Config{GeneralConns: conns})
	b.stored("cart")
	held := b.proxy.Plan(t, pgproxy.Fault{On: listStatement, Do: pgproxy.Hold, Times: conns - 1})
	ctx, leave := context.WithCancel(t.Context())
	listed := make(chan error, flood)
	for range flood {
		go func() {
			_, _, err := b.s.ListActors(ctx, store.ActorQuery{App: "flood", Type: "Cart", Limit: 1})
			listed <- err
		}()
	}
	<-held.Struck()
	for range 10 {
		load(t, b.s, key("cart"))
		list, _, err := b.s.ListActors(t.Context(), store.ActorQuery{App: "shop", Type: "Cart", Limit: 1})
		if b.is("list", err, nil); len(list) != 1 {
			t.Errorf("%d actors are listed beside a flood, want 1", len(list))
		}
		_, err = b.s.Settings(t.Context(), "shop")
		b.is("settings", err, nil)
		_, err = b.s.LoadActors(t.Context(), []actor.Key{key("cart"), {App: "third", Type: "Cart", ID: "a"}}, actor.LoadOptions{})
		b.is("load of two apps", err, nil)
	}
	if n := len(listed); n > 0 {
		t.Fatalf("%d lists of the flood have ended", n)
	}
	leave()
	for range flood - (conns - 1) {
		b.is("list that waited", <-listed, context.Canceled)
	}
	held.Release()
	for range conns - 1 {
		<-listed
	}
	load(t, b.s, key("cart"))
}

// TestSettlingOfOneAppHoldsUpNoOther has an app settle many commits at once: that of another app,
// which comes last, does not wait for all of them.
func TestSettlingOfOneAppHoldsUpNoOther(t *testing.T) {
	const flood = 40
	b := behindProxy(t, sqlstore.Config{})
	commits := b.group(flood + 1)[:flood]
	held := b.proxy.Plan(t, pgproxy.Fault{On: fenceStatement, Do: pgproxy.Hold, Times: 2})
	var settled atomic.Int64
	var all sync.WaitGroup
	for _, c := range commits {
		all.Go(func() {
			b.is("settle", b.s.Settle(context.WithoutCancel(t.Context()), c), actor.ErrStale)
			settled.Add(1)
		})
	}
	<-held.Struck()
	before := int64(-1)
	all.Go(func() {
		other := write(actor.Key{App: "other", Type: "Cart", ID: "a"}, actor.Row{}, `{"n":2}`)
		b.is("settle beside a flood", b.s.Settle(context.WithoutCancel(t.Context()), other), actor.ErrStale)
		before = settled.Load()
	})
	for b.s.WaitingToSettle() < flood-2+1 {
		runtime.Gosched()
	}
	held.Release()
	all.Wait()
	if before > flood/2 {
		t.Errorf("of %d commits of one app, %d were settled before one of another", flood, before)
	}
}

// waitForLock returns when a session waits for a locked row.
func (b *broken) waitForLock() {
	b.Helper()
	conn := b.connect()
	for waits := false; !waits; {
		if err := conn.QueryRow(b.Context(), `SELECT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted AND pid <> pg_backend_pid())`).Scan(&waits); err != nil {
			b.Fatal(err)
		}
	}
}
