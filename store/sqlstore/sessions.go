package sqlstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
	"github.com/jackc/pgx/v5"

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

// identityKey is where a connection keeps its session's identity.
const identityKey = "greenroom session"

// sessionIdentity is what no two sessions of a PostgreSQL server have in common.
const sessionIdentity = `s.pid || '/' || extract(epoch FROM s.backend_start)`

// sessions names the sessions of a store, and keeps which sessions are to be ended.
type sessions struct {
	dialect dialect
	place   string                 // of the tables, in names of sessions
	name    atomic.Pointer[string] // application_name once this store has a host

	mu   sync.Mutex
	lost map[string]struct{} // this store's, by what identifies them
	dead bool                // those of hosts whose leases are over
	// cleared: a host is being cleared. The sessions of hosts that are over are looked for at
	// once, and until the database has answered.
	cleared bool
	wake    chan struct{} // of one
}

func newSessions(ctx context.Context, conn *pgx.Conn, d dialect) (*sessions, error) {
	place, err := findPlace(ctx, conn)
	return &sessions{dialect: d, place: place, lost: make(map[string]struct{}), wake: make(chan struct{}, 1)}, err
}

// ofHost returns the name of the sessions of a host.
func (s *sessions) ofHost(id actor.HostID) string {
	return sessionName + "/" + s.place + "/" + string(id)
}

// rename has all sessions opened from now on carry a host's ID, and reports whether they
// did not do so before.
func (s *sessions) rename(id actor.HostID) bool {
	name := s.ofHost(id)
	if strings.Trim(string(id), "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_") != "" || len(name) > 63 {
		return false // not an ID that the databases would keep as it is
	}
	before := s.name.Swap(&name)
	return before == nil || *before != name
}

// beforeConnect gives a connection that is to be opened the name of this store's host.
func (s *sessions) beforeConnect(_ context.Context, cfg *pgx.ConnConfig) error {
	if name := s.name.Load(); name != nil && cfg.RuntimeParams["application_name"] == sessionName {
		cfg.RuntimeParams["application_name"] = *name
	}
	return nil
}

// beforeClose is called before a connection is closed.
func (s *sessions) beforeClose(conn *pgx.Conn) {
	if session, ok := conn.PgConn().CustomData()[identityKey].(string); ok && conn.IsClosed() {
		s.lose(session)
	}
}

// lose notes that the connection of a session broke.
func (s *sessions) lose(session string) {
	s.mu.Lock()
	s.lost[session] = struct{}{}
	s.mu.Unlock()
	s.notify()
}

// blocked notes that somebody waits for a row that may be a dead host's.
func (s *sessions) blocked() {
	s.mu.Lock()
	s.dead = true
	s.mu.Unlock()
	s.notify()
}

// clear notes that a host is cleared, whose actors others are about to get.
func (s *sessions) clear() {
	s.mu.Lock()
	s.dead, s.cleared = true, true
	s.mu.Unlock()
	s.notify()
}

func (s *sessions) urgent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cleared
}

func (s *sessions) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// take returns what is to be done, and leaves nothing.
func (s *sessions) take() (lost []string, dead, cleared bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lost, dead, cleared = slices.Collect(maps.Keys(s.lost)), s.dead, s.cleared
	clear(s.lost)
	s.dead, s.cleared = false, false
	return lost, dead, cleared
}
