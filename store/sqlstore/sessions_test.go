package sqlstore_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store/sqlstore"
	"github.com/greenroom-run/greenroom/store/sqlstore/internal/pgproxy"
)

// stuck returns how many sessions wait for the rest of a unit, and how many of these have
// written or locked something.
func (b *broken) stuck() (waiting, holding int) {
	b.Helper()
	if err := b.connect().QueryRow(b.Context(), `SELECT count(*), count(backend_xid) FROM pg_stat_activity
		WHERE datname = current_database() AND state = 'active' AND wait_event = 'ClientRead'`).Scan(&waiting, &holding); err != nil {
		b.Fatal(err)
	}
	return waiting, holding
}

// locked reports whether somebody holds the lock of a row.
func (b *broken) locked(table, where string) bool {
	b.Helper()
	conn, err := pgx.Connect(b.Context(), b.database)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = conn.Close(b.Context()) }()
	_, err = conn.Exec(b.Context(), `SELECT 1 FROM `+table+` WHERE `+where+` FOR UPDATE NOWAIT`)
	var server *pgconn.PgError
	if err != nil && (!errors.As(err, &server) || server.Code != "55P03") {
		b.Fatal(err)
	}
	return err != nil
}

// untilLocked waits until what has arrived of a unit was run.
func (b *broken) untilLocked(table, where string) {
	b.Helper()
	for !b.locked(table, where) {
	}
}

// onEach runs a test on both databases.
func onEach(t *testing.T, test func(t *testing.T, database func(*testing.T) string)) {
	for name, database := range engines(t) {
		if strings.HasSuffix(name, "serializable") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			if name != "cockroachdb" { // one at a time, which is enough for it
				t.Parallel()
			}
			test(t, database)
		})
	}
}

// hosts registers the store as a host and the one around the proxy as the leader.
func (b *broken) hosts(length time.Duration) (leader actor.Lease) {
	b.Helper()
	register := func(s *sqlstore.Store, id actor.HostID, length time.Duration) {
		h := actor.Host{ID: id, Name: string(id), Cluster: "c", Address: "127.0.0.1:1", Roles: []string{"host"}, MinProtocol: 1, MaxProtocol: 1}
		if _, err := s.RegisterHost(b.Context(), h, length); err != nil {
			b.Fatal(err)
		}
	}
	register(b.s, "victim", length)
	register(b.around, "leader", time.Hour)
	leader, _, err := b.around.AcquireLease(b.Context(), "leader", "leader", time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	return leader
}

// expire ends the lease of the victim.
func (b *broken) expire() {
	b.Helper()
	b.exec(`UPDATE greenroom_host SET expires_at = now() WHERE id = 'victim'`)
}

// becomesFree has the healthy host commit what was lost anew, until it is not refused for a
// locked row any more.
func (b *broken) becomesFree(lost actor.Commit) {
	b.Helper()
	for {
		err := b.around.Commit(b.Context(), []actor.Commit{actor.CommitOf(lost.Rows...)})[0]
		if err == nil {
			return
		}
		if !errors.Is(err, actor.ErrUnavailable) {
			b.Fatal(err)
		}
	}
}

// vanishing is a group of an old and a new actor, cut where part says.
func (b *broken) vanishing(id string, part func([]byte) int) []actor.Commit {
	b.Helper()
	commits := []actor.Commit{write(key(id), b.stored(id), `{"n":2}`), write(key(id+"-new"), actor.Row{}, `{"n":2}`)}
	planned := b.proxy.Plan(b.T, pgproxy.Fault{On: writeStatement, Do: pgproxy.Vanish, Part: part})
	go b.s.Commit(context.WithoutCancel(b.Context()), commits)
	<-planned.Struck()
	return commits
}

func withoutSync(unit []byte) int { return len(unit) - 5 }

// TestGroupThatArrivesInPartHasLockedNothing cuts a group after each message, up to the
// last whose rest has anything of size in it.
func TestGroupThatArrivesInPartHasLockedNothing(t *testing.T) {
	b := behindProxy(t, sqlstore.Config{CommitConns: 16})
	b.s.Commit(t.Context(), []actor.Commit{write(key("x"), actor.Row{}, `{}`), write(key("y"), actor.Row{}, `{}`)}) // prepares
	binds := 1
	for n := 0; n < binds; n++ {
		commits := b.vanishing(fmt.Sprint("a", n), func(unit []byte) int {
			var ends []int
			for at := 0; at < len(unit); {
				kind := unit[at]
				at += 1 + int(binary.BigEndian.Uint32(unit[at+1:]))
				if kind == 'B' {
					ends = append(ends, at)
				}
			}
			binds = len(ends)
			return ends[n]
		})
		for waiting := 0; waiting <= n; waiting, _ = b.stuck() {
			if t.Context().Err() != nil {
				t.Fatal("the part of the unit was never read")
			}
		}
		if _, holding := b.stuck(); holding != 0 {
			t.Fatalf("with %d of %d statements arrived whole, a session holds locks", n+1, binds)
		}
		b.becomesFree(commits[0])
	}
	if binds < 2 {
		t.Fatalf("a group of an old and a new actor has %d statements", binds)
	}
}

// TestSessionsEndWithTheLeaseOfTheirHost: what a host holds that vanished in the middle of a
// message is free once the leader has cleared it, and not before.
func TestSessionsEndWithTheLeaseOfTheirHost(t *testing.T) {
	onEach(t, sessionsEndWithTheLease)
}

func sessionsEndWithTheLease(t *testing.T, database func(*testing.T) string) {
	url := database(t)
	for name, part := range map[string]func([]byte) int{
		"without its Sync":          withoutSync,
		"without its last byte":     func(unit []byte) int { return len(unit) - 1 },
		"in the middle of an order": func(unit []byte) int { return bytes.LastIndexByte(unit, 'E') + 3 },
	} {
		t.Run(name, func(t *testing.T) {
			b := behindProxyTo(t, url, sqlstore.Config{})
			if b.s.Name() == "cockroachdb" && name == "without its last byte" {
				t.Skip("CockroachDB commits when it sees that a Sync begins")
			}
			leader := b.hosts(time.Hour)
			commits := b.vanishing("a", part)
			b.untilLocked("greenroom_actor", "id = 'a'")
			gone, err := b.around.ClearHost(t.Context(), "victim", leader.Name, leader.Epoch)
			if gone || err != nil {
				t.Fatalf("a host with a lease was cleared: %t, %v", gone, err)
			}
			if !b.locked("greenroom_actor", "id = 'a'") {
				t.Fatal("a session of a host with a lease was ended")
			}
			b.expire()
			if gone, err = b.around.ClearHost(t.Context(), "victim", leader.Name, leader.Epoch); !gone || err != nil {
				t.Fatalf("a host without a lease was not cleared: %t, %v", gone, err)
			}
			b.becomesFree(commits[0])
			b.became(commits[1], false)
		})
	}
}

// TestHostsAreClearedBesideTheirSessions: a leader whose database takes its time to list
// sessions clears one host after the other meanwhile, and the sessions are ended all the same.
func TestHostsAreClearedBesideTheirSessions(t *testing.T) { onEach(t, clearedBeside) }

func clearedBeside(t *testing.T, database func(*testing.T) string) {
	b := behindProxyTo(t, database(t), sqlstore.Config{TurnTimeout: time.Minute})
	b.s.SetOrphanTimeout(time.Hour)
	for s, ids := range map[*sqlstore.Store][]actor.HostID{b.s: {"leader"}, b.around: {"other", "victim"}} {
		for _, id := range ids { // the sessions of the store are named for the last
			h := actor.Host{ID: id, Name: string(id), Cluster: "c", Address: "127.0.0.1:1", Roles: []string{"host"}, MinProtocol: 1, MaxProtocol: 1}
			if _, err := s.RegisterHost(b.Context(), h, time.Hour); err != nil {
				t.Fatal(err)
			}
		}
	}
	leader, _, err := b.s.AcquireLease(t.Context(), "leader", "leader", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	b.stored("a")
	frozen, thawed, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := b.around.LockedTurn(context.WithoutCancel(t.Context()), key("a"), func(_ context.Context, row actor.Row) (*actor.Commit, error) {
			close(frozen)
			<-thawed
			c := write(key("a"), row, `{"n":2}`)
			return &c, nil
		})
		ended <- err
	}()
	<-frozen
	list := "pg_terminate_backend"
	if b.s.Name() == "cockroachdb" {
		list = "CANCEL SESSIONS"
	}
	held := b.proxy.Plan(t, pgproxy.Fault{On: list, Do: pgproxy.Hold})
	b.exec(`UPDATE greenroom_host SET expires_at = now() WHERE id IN ('victim', 'other')`)
	within, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, id := range []actor.HostID{"other", "victim"} {
		if gone, err := b.s.ClearHost(within, id, leader.Name, leader.Epoch); !gone || err != nil {
			t.Errorf("%s was not cleared: %t, %v", id, gone, err)
		}
	}
	<-held.Struck()
	held.Release()
	_, err = b.s.LockedTurn(t.Context(), key("a"), func(_ context.Context, row actor.Row) (*actor.Commit, error) {
		c := write(key("a"), row, `{"n":3}`)
		return &c, nil
	})
	b.is("the next turn", err, nil)
	close(thawed)
	b.is("the frozen turn", <-ended, actor.ErrUnavailable)
}

// TestRenewalThatArrivesInPart locks the host's own row, and still the host is cleared.
func TestRenewalThatArrivesInPart(t *testing.T) { onEach(t, renewalInPart) }

func renewalInPart(t *testing.T, database func(*testing.T) string) {
	b := behindProxyTo(t, database(t), sqlstore.Config{})
	leader := b.hosts(0) // it is over, as the renewal does not count
	planned := b.proxy.Plan(t, pgproxy.Fault{On: "UPDATE greenroom_host", Do: pgproxy.Vanish, Part: withoutSync})
	go func() { _, _ = b.s.RenewHost(context.WithoutCancel(t.Context()), "victim", time.Hour, 0) }()
	<-planned.Struck()
	if b.s.Name() != "cockroachdb" { // which buffers the write until its commit
		b.untilLocked("greenroom_host", "id = 'victim'")
	}
	for {
		gone, err := b.around.ClearHost(t.Context(), "victim", leader.Name, leader.Epoch)
		if gone {
			return
		}
		if !errors.Is(err, actor.ErrUnavailable) {
			t.Fatal(err)
		}
	}
}

// TestWaitingForARowEndsTheSessionsOfDeadHosts: without a leader, too, a row comes free.
func TestWaitingForARowEndsTheSessionsOfDeadHosts(t *testing.T) { onEach(t, waitingForARow) }

func waitingForARow(t *testing.T, database func(*testing.T) string) {
	b := behindProxyTo(t, database(t), sqlstore.Config{})
	b.hosts(time.Hour)
	commits := b.vanishing("a", withoutSync)
	b.untilLocked("greenroom_actor", "id = 'a'")
	b.expire()
	b.becomesFree(commits[0])
}

// TestFrozenTurnHoldsItsRowForALease: a turn that stands still has its row until its host is
// cleared, however long turns may take.
func TestFrozenTurnHoldsItsRowForALease(t *testing.T) { onEach(t, frozenTurn) }

func frozenTurn(t *testing.T, database func(*testing.T) string) {
	b := behindProxyTo(t, database(t), sqlstore.Config{TurnTimeout: time.Minute})
	leader := b.hosts(time.Hour)
	b.stored("a")
	frozen, thawed, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := b.s.LockedTurn(context.WithoutCancel(t.Context()), key("a"), func(_ context.Context, row actor.Row) (*actor.Commit, error) {
			close(frozen)
			<-thawed
			c := write(key("a"), row, `{"n":2}`)
			return &c, nil
		})
		ended <- err
	}()
	<-frozen
	b.expire()
	if gone, err := b.around.ClearHost(t.Context(), "victim", leader.Name, leader.Epoch); !gone || err != nil {
		t.Fatalf("not cleared: %t, %v", gone, err)
	}
	_, err := b.around.LockedTurn(t.Context(), key("a"), func(_ context.Context, row actor.Row) (*actor.Commit, error) {
		c := write(key("a"), row, `{"n":3}`)
		return &c, nil
	})
	b.is("the next turn", err, nil)
	close(thawed)
	b.is("the frozen turn", <-ended, actor.ErrUnavailable)
}

// TestOneConnectionOfALivingHostDies: the store gives it up, ends its session, and settles.
func TestOneConnectionOfALivingHostDies(t *testing.T) { onEach(t, oneConnectionDies) }

func oneConnectionDies(t *testing.T, database func(*testing.T) string) {
	b := behindProxyTo(t, database(t), sqlstore.Config{StatementTimeout: 2 * time.Second})
	b.hosts(time.Hour)
	b.stored("a")
	planned := b.proxy.Plan(t, pgproxy.Fault{On: writeStatement, Do: pgproxy.Vanish, Part: withoutSync})
	commits := []actor.Commit{write(key("a"), b.load(key("a")), `{"n":2}`), write(key("new"), actor.Row{}, `{"n":2}`)}
	answers := make(chan []error, 1)
	go func() { answers <- b.s.Commit(t.Context(), commits) }()
	<-planned.Struck()
	b.untilLocked("greenroom_actor", "id = 'a'")
	b.staysAlive(b.s)
	for i, err := range <-answers {
		b.is(commits[i].Anchor().Key.ID, err, actor.ErrStale)
		b.became(commits[i], false)
	}
}

// TestSessionsOfAnotherClusterAreLeftAlone: a cluster shares its database's server and user
// with another one, and knows none of its hosts.
func TestSessionsOfAnotherClusterAreLeftAlone(t *testing.T) { onEach(t, anotherCluster) }

func anotherCluster(t *testing.T, database func(*testing.T) string) {
	url := database(t)
	s := open(t, url)
	other := database(t)
	if s.Name() != "cockroachdb" { // whose sessions do not say which database they use
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		_, err = conn.Exec(t.Context(), `CREATE SCHEMA other`)
		if err = errors.Join(err, conn.Close(t.Context())); err != nil {
			t.Fatal(err)
		}
		other = with(url, "search_path=other")
	}
	stranger := open(t, other)
	register := func(s *sqlstore.Store, id actor.HostID, length time.Duration) {
		h := actor.Host{ID: id, Name: string(id), Cluster: "c", Address: "127.0.0.1:1", Roles: []string{"host"}, MinProtocol: 1, MaxProtocol: 1}
		if _, err := s.RegisterHost(t.Context(), h, length); err != nil {
			t.Fatal(err)
		}
	}
	register(s, "living", time.Hour)
	register(stranger, "dead", 0)
	register(stranger, "leader", time.Hour)
	leader, _, err := stranger.AcquireLease(t.Context(), "leader", "leader", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.LockedTurn(t.Context(), key("a"), func(ctx context.Context, row actor.Row) (*actor.Commit, error) {
		if gone, err := stranger.ClearHost(ctx, "dead", leader.Name, leader.Epoch); !gone || err != nil {
			t.Errorf("not cleared: %t, %v", gone, err)
		}
		c := write(key("a"), row, `{"n":1}`)
		return &c, nil
	})
	if err != nil {
		t.Fatalf("another cluster has ended a session of a living host: %v", err)
	}
}
