package sqlstore_test

import (
	"context"
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
	conn := b.connect()
	for waits := false; !waits; {
		if err := conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted AND pid <> pg_backend_pid())`).Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
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
