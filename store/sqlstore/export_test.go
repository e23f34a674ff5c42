package sqlstore

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-run/greenroom/actor"
)

// Stuck returns the places of the commits of which others have rows locked.
func (s *Store) Stuck(ctx context.Context, commits []actor.Commit) ([]int, error) {
	var group []*attempt
	places := make(map[*attempt]int)
	for i := range commits {
		a := &attempt{commit: &commits[i]}
		places[a] = i
		group = append(group, a)
	}
	free, stuck, err := s.commits.probe(ctx, group)
	var at []int
	for _, a := range stuck {
		at = append(at, places[a])
		delete(places, a)
	}
	for _, a := range free {
		delete(places, a)
	}
	if len(places) > 0 {
		panic("a commit is neither free nor stuck")
	}
	return at, err
}

// StepsBefore returns how many steps of the schema come before the first that has a text.
func StepsBefore(text string) int {
	return slices.IndexFunc(migrations, func(step string) bool { return strings.Contains(step, text) })
}

// PlanOfRecentReminders returns how PostgreSQL reads recent reminders, as a session of this
// store has it planned.
func (s *Store) PlanOfRecentReminders(ctx context.Context) (string, error) {
	conn, err := s.general.pool.Acquire(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, `PREPARE recent (int8, text, int8, int8, int8) AS `+recentReminders); err != nil {
		return "", err
	}
	rows, _ := conn.Query(ctx, `EXPLAIN EXECUTE recent (1, 'abcdefgh', 7, 99, 100)`)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err == nil {
		_, err = conn.Exec(ctx, `DEALLOCATE recent`)
	}
	return strings.Join(lines, "\n"), err
}

// Spans are those that CockroachDB reads for statements that read a part of a bucket, if
// their parameters are 1 or t1, 2 or t2, and so on.
var Spans = map[string]string{
	recentReminders: "[/1/'t2'/3 - /1/'t2'/4]",
	dueReminders:    "[/1/'t2'/3/4/6 - /1/'t2'/3/5]",
}

// WaitingToSettle returns how many wait for a connection for settling.
func (s *Store) WaitingToSettle() int { return s.settling.places.Waiting() }

// Session opens a connection with the settings that those of the store's pools have.
func (s *Store) Session(ctx context.Context) (*pgx.Conn, error) {
	return pgx.ConnectConfig(ctx, s.general.pool.Config().ConnConfig)
}

// Statements are the texts that stores have sent.
type Statements struct {
	mu    sync.Mutex
	texts map[string]struct{}
}

// OpenRecorded is Open for a store whose statements are recorded.
func OpenRecorded(ctx context.Context, cfg Config, into *Statements) (*Store, error) {
	base, err := parseURL(cfg.URL)
	if err != nil {
		return nil, err
	}
	base.ConnConfig.Tracer = into
	return open(ctx, cfg.WithDefaults(), base)
}

func (s *Statements) add(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.texts == nil {
		s.texts = make(map[string]struct{})
	}
	s.texts[text] = struct{}{}
}

// Texts returns the statements, sorted.
func (s *Statements) Texts() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.texts))
}

// TraceQueryStart implements [pgx.QueryTracer].
func (s *Statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	s.add(q.SQL)
	return ctx
}

// TraceQueryEnd implements [pgx.QueryTracer].
func (*Statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TracePrepareStart implements [pgx.PrepareTracer].
func (s *Statements) TracePrepareStart(ctx context.Context, _ *pgx.Conn, p pgx.TracePrepareStartData) context.Context {
	s.add(p.SQL)
	return ctx
}

// TracePrepareEnd implements [pgx.PrepareTracer].
func (*Statements) TracePrepareEnd(context.Context, *pgx.Conn, pgx.TracePrepareEndData) {}

// TraceBatchStart implements [pgx.BatchTracer].
func (s *Statements) TraceBatchStart(ctx context.Context, _ *pgx.Conn, b pgx.TraceBatchStartData) context.Context {
	for _, q := range b.Batch.QueuedQueries {
		s.add(q.SQL)
	}
	return ctx
}

// TraceBatchQuery implements [pgx.BatchTracer].
func (*Statements) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements [pgx.BatchTracer].
func (*Statements) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// SetOrphanTimeout sets how long a look for orphaned sessions may take. It is for a store
// that has not lost any yet.
func (s *Store) SetOrphanTimeout(d time.Duration) { s.reaper.timeout = d }
