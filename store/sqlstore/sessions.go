package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/greenroom-run/greenroom/actor"
)

// A session of the database may outlive whoever opened it, with its row locks: where a
// machine or a connection is gone, the database waits for the rest of a message or for the
// next one, and no timeout of statements or locks ends that. So
//
//   - sessions have the database probe silent clients (tcp_keepalives_idle and the like);
//   - the application_name of a session names the host that opened it, and the database and
//     schema of the host's row. The leader, beside clearing a host, and whoever waits for a
//     row end the sessions of hosts whose leases are over;
//   - a store ends its own sessions whose connections broke.
//
// To end a session is safe at any time: what it was about to commit is settled. To clear a
// host before its sessions are ended is as safe: what they commit yet is refused by the
// versions that its actors have under their next owners. These may only wait for a row.

// sessionName is the application_name of sessions; those of a host have behind it the place
// of the tables and the host's ID.
const sessionName = "greenroom"

// findPlace returns what tells apart the tables of clusters that share a server and a user:
// one does not know the hosts of another, and CockroachDB does not say which database a
// session uses.
func findPlace(ctx context.Context, conn *pgx.Conn) (string, error) {
	var database, schema string
	if err := conn.QueryRow(ctx, `SELECT current_database()::text, COALESCE(current_schema()::text, '')`).Scan(&database, &schema); err != nil {
		return "", asStoreError(ctx, "ask for the database's name", err)
	}
	return fmt.Sprintf("%016x", xxhash.Sum64String(database+"\x00"+schema)), nil
}

// hostSession returns the name of the sessions of a host.
func (s *Store) hostSession(id actor.HostID) string {
	return sessionName + "/" + s.place + "/" + string(id)
}

const (
	// orphanDelay is between two looks for orphans. Meanwhile sessions whose clients have
	// said goodbye end by themselves.
	orphanDelay = time.Second
	// orphanTimeout bounds a look.
	orphanTimeout = 5 * time.Second
)

// canceled is the code of a statement that a timeout of the database has ended.
const canceled = "57014"

// orphans are sessions to be ended.
type orphans struct {
	mu   sync.Mutex
	lost map[string]struct{} // this store's, by what identifies them
	dead bool                // look for those of hosts that are over
	// cleared: a host is being cleared. The sessions of hosts that are over are looked for at
	// once, and until the database has answered.
	cleared bool
	timeout time.Duration // of one look

	wake chan struct{} // of one
	stop context.CancelFunc
	done sync.WaitGroup
}

// lose notes that the connection of a session broke.
func (o *orphans) lose(session string) {
	o.mu.Lock()
	o.lost[session] = struct{}{}
	o.mu.Unlock()
	o.look()
}

// blocked notes that somebody waits for a row that may be a dead host's.
func (o *orphans) blocked() {
	o.mu.Lock()
	o.dead = true
	o.mu.Unlock()
	o.look()
}

// clear notes that a host is cleared, whose actors others are about to get.
func (o *orphans) clear() {
	o.mu.Lock()
	o.dead, o.cleared = true, true
	o.mu.Unlock()
	o.look()
}

func (o *orphans) urgent() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.cleared
}

func (o *orphans) look() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// take returns what is to be done, and leaves nothing.
func (o *orphans) take() (lost []string, dead, cleared bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	lost, dead, cleared = slices.Collect(maps.Keys(o.lost)), o.dead, o.cleared
	clear(o.lost)
	o.dead, o.cleared = false, false
	return lost, dead, cleared
}

// endOrphans ends sessions until the store is closed.
func (s *Store) endOrphans(ctx context.Context) {
	due := false // a host was cleared, and its sessions are perhaps still there
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.orphans.wake:
		}
		delay := time.NewTimer(orphanDelay)
		for early := true; early && !s.orphans.urgent(); {
			select {
			case <-ctx.Done():
				delay.Stop()
				return
			case <-s.orphans.wake:
			case <-delay.C:
				early = false
			}
		}
		delay.Stop()
		lost, dead, cleared := s.orphans.take()
		if len(lost) > 0 {
			if err := s.endSessions(ctx, endLost(s.dialect, lost)); err != nil {
				for _, session := range lost {
					s.orphans.lose(session) // tried again
				}
			}
		}
		if dead {
			// Whoever waits for a row asks again, and who clears a host does not.
			if due = unanswered(s.endDeadSessions(ctx)) && (due || cleared); due {
				s.orphans.blocked()
			}
		}
	}
}

// unanswered reports whether the database did not answer in time.
func unanswered(err error) bool {
	var refused *pgconn.PgError
	return err != nil && (!errors.As(err, &refused) || refused.Code == canceled)
}

// endDeadSessions ends the sessions of hosts whose leases are over. Its own host's are left:
// a process that runs knows itself which of them it has lost.
func (s *Store) endDeadSessions(ctx context.Context) error {
	own := ""
	if name := s.session.Load(); name != nil {
		own = *name
	}
	return s.endSessions(ctx, endDead(s.dialect, s.hostSession(""), own))
}

func (s *Store) endSessions(ctx context.Context, statement string) error {
	ctx, cancel := context.WithTimeout(ctx, s.orphans.timeout)
	defer cancel()
	tag, err := s.leases.Exec(ctx, statement, pgx.QueryExecModeSimpleProtocol)
	var refused *pgconn.PgError
	switch n := tag.RowsAffected(); {
	case errors.As(err, &refused):
		s.log.WarnContext(ctx, "sessions of the database that may hold locks were not ended", "error", err)
	case n > 0:
		s.log.InfoContext(ctx, "sessions of the database ended whose clients were lost", "sessions", n)
	}
	return err
}

// endDead returns the statement that ends the sessions of hosts without a lease, whose names
// have a host's ID behind the prefix.
func endDead(d dialect, prefix, own string) string {
	condition := fmt.Sprintf(`s.application_name LIKE '%[1]s%%' AND s.application_name <> %[2]s
		AND NOT EXISTS (SELECT 1 FROM greenroom_host AS h WHERE h.id = substr(s.application_name, %[3]d) AND h.expires_at > now())`,
		prefix, literal(own), len(prefix)+1)
	if d == cockroach {
		return `CANCEL SESSIONS IF EXISTS (SELECT s.session_id FROM [SHOW CLUSTER SESSIONS] AS s
			WHERE s.user_name = current_user AND s.status <> 'CLOSED' AND ` + condition + `)`
	}
	return `SELECT pg_terminate_backend(s.pid) FROM pg_stat_activity AS s
		WHERE s.usename = current_user AND s.datname = current_database() AND ` + condition
}

// endLost returns the statement that ends sessions by what identifies them.
func endLost(d dialect, sessions []string) string {
	list := make([]string, len(sessions))
	for i, session := range sessions {
		list[i] = literal(session)
	}
	if d == cockroach {
		return `CANCEL SESSIONS IF EXISTS (VALUES (` + strings.Join(list, `), (`) + `))`
	}
	return `SELECT pg_terminate_backend(s.pid) FROM pg_stat_activity AS s WHERE ` + sessionIdentity + ` IN (` + strings.Join(list, `, `) + `)`
}

// sessionIdentity is what no two sessions of a PostgreSQL server have in common.
const sessionIdentity = `s.pid || '/' || extract(epoch FROM s.backend_start)`

// identify returns what a session is ended by.
func (s *Store) identify(ctx context.Context, conn *pgx.Conn) (session string, err error) {
	statement := `SHOW session_id`
	if s.dialect == postgres {
		statement = `SELECT ` + sessionIdentity + ` FROM pg_stat_activity AS s WHERE s.pid = pg_backend_pid()`
	}
	err = conn.QueryRow(ctx, statement, pgx.QueryExecModeSimpleProtocol).Scan(&session)
	return session, err
}

// literal writes text that has neither quotes nor backslashes in it.
func literal(text string) string { return "'" + text + "'" }

// identityKey is where a connection keeps its session's identity.
const identityKey = "greenroom session"

// noteLost is called before a connection is closed.
func (s *Store) noteLost(conn *pgx.Conn) {
	if session, ok := conn.PgConn().CustomData()[identityKey].(string); ok && conn.IsClosed() {
		s.orphans.lose(session)
	}
}

// nameSession gives a connection that is to be opened the name of this store's host.
func (s *Store) nameSession(_ context.Context, cfg *pgx.ConnConfig) error {
	if name := s.session.Load(); name != nil && cfg.RuntimeParams["application_name"] == sessionName {
		cfg.RuntimeParams["application_name"] = *name
	}
	return nil
}

// nameSessions has all sessions opened from now on carry a host's ID. Those that there are
// end when nobody uses them any more.
func (s *Store) nameSessions(id actor.HostID) {
	name := s.hostSession(id)
	if strings.Trim(string(id), "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_") != "" || len(name) > 63 {
		return // not an ID that the databases would keep as it is
	}
	if before := s.session.Swap(&name); before != nil && *before == name {
		return
	}
	for _, pool := range s.pools() {
		pool.Reset()
	}
}
