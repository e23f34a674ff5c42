package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// orphanDelay is the time between two rounds. Meanwhile sessions whose clients have
	// said goodbye end by themselves.
	orphanDelay = time.Second
	// orphanTimeout bounds a round.
	orphanTimeout = 5 * time.Second
)

// canceled is the code of a statement that a timeout of the database has ended.
const canceled = "57014"

// reaper ends sessions whose clients are gone.
type reaper struct {
	*db
	timeout time.Duration // of one round
	cancel  context.CancelFunc
	done    sync.WaitGroup
}

func newReaper(db *db) *reaper { return &reaper{db: db, timeout: orphanTimeout} }

// start runs the reaper until stop.
func (r *reaper) start(ctx context.Context) {
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r.cancel = cancel
	r.done.Go(func() { r.run(running) })
}

func (r *reaper) stop() {
	r.cancel()
	r.done.Wait()
}

// run ends sessions until the store is closed.
func (r *reaper) run(ctx context.Context) {
	due := false // a host was cleared, and its sessions are perhaps still there
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.sessions.wake:
		}
		delay := time.NewTimer(orphanDelay)
		for early := true; early && !r.sessions.urgent(); {
			select {
			case <-ctx.Done():
				delay.Stop()
				return
			case <-r.sessions.wake:
			case <-delay.C:
				early = false
			}
		}
		delay.Stop()
		lost, dead, cleared := r.sessions.take()
		if len(lost) > 0 {
			if err := r.end(ctx, endLost(r.dialect, lost)); err != nil {
				for _, session := range lost {
					r.sessions.lose(session) // tried again
				}
			}
		}
		if dead {
			// Whoever waits for a row asks again, and who clears a host does not.
			if due = unanswered(r.endDead(ctx)) && (due || cleared); due {
				r.sessions.blocked()
			}
		}
	}
}

// unanswered reports whether the database did not answer in time.
func unanswered(err error) bool {
	var refused *pgconn.PgError
	return err != nil && (!errors.As(err, &refused) || refused.Code == canceled)
}

// endDead ends the sessions of hosts whose leases are over. Its own host's are left:
// a process that runs knows itself which of them it has lost.
func (r *reaper) endDead(ctx context.Context) error {
	own := ""
	if name := r.sessions.name.Load(); name != nil {
		own = *name
	}
	return r.end(ctx, endDead(r.dialect, r.sessions.ofHost(""), own))
}

func (r *reaper) end(ctx context.Context, statement string) error {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	tag, err := r.leases.Exec(ctx, statement, pgx.QueryExecModeSimpleProtocol)
	var refused *pgconn.PgError
	switch n := tag.RowsAffected(); {
	case errors.As(err, &refused):
		r.log.WarnContext(ctx, "sessions of the database that may hold locks were not ended", "error", err)
	case n > 0:
		r.log.InfoContext(ctx, "sessions of the database ended whose clients were lost", "sessions", n)
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

// literal writes text that has neither quotes nor backslashes in it.
func literal(text string) string { return "'" + text + "'" }
