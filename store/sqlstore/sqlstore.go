package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/greenroom-run/greenroom/store"
)

// Config says which database to use and how long anything may take. The zero
// value of a field means its default.
type Config struct {
	// URL is postgres://USER:PASSWORD@HOST:PORT/DATABASE with libpq's parameters.
	// Required. It is secret: it appears in no error and no log.
	URL string
	// Logger gets migrations and settled commits. Defaults to slog.Default().
	Logger *slog.Logger

	// CommitConns is how many groups may be written at once. Defaults to 4,
	// enough for PostgreSQL and for one CockroachDB node; a CockroachDB cluster
	// gains from more.
	CommitConns int
	// TurnConns is how many locked turns may run or wait for their row at once.
	// Defaults to 16.
	TurnConns int
	// GeneralConns is how many other operations may run at once. Defaults to 8.
	// Leases and the settling of lost commits have a few connections of their own.
	GeneralConns int

	// StatementTimeout bounds a statement, on the server and here. Defaults to
	// 10 s.
	StatementTimeout time.Duration
	// TurnTimeout bounds a locked turn with all its waiting, on the server.
	// Defaults to 30 s; a little more than the longest turn deadline is right.
	TurnTimeout time.Duration
	// LockWait is how long a commit waits for a row that others hold locked
	// before it is refused as unavailable. Defaults to 2 s. The other commits of
	// its call are durable by then, but their answers wait with it.
	LockWait time.Duration
}

// MaxTimeout is the longest of [Config]'s timeouts. It keeps every statement far
// below the hour for which tombstones are kept, since a tombstone must outlive any
// write that it refuses.
const MaxTimeout = 10 * time.Minute

// WithDefaults returns c with its zero fields filled in.
func (c Config) WithDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	setDefault(&c.CommitConns, 4)
	setDefault(&c.TurnConns, 16)
	setDefault(&c.GeneralConns, 8)
	setDefault(&c.StatementTimeout, 10*time.Second)
	setDefault(&c.TurnTimeout, 30*time.Second)
	setDefault(&c.LockWait, 2*time.Second)
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (c Config) validate() error {
	for name, n := range map[string]int{"CommitConns": c.CommitConns, "TurnConns": c.TurnConns, "GeneralConns": c.GeneralConns} {
		if n < 1 || n > 10_000 {
			return fmt.Errorf("sqlstore: %s is %d; give 1 to 10000, or 0 for the default", name, n)
		}
	}
	for name, d := range map[string]time.Duration{"StatementTimeout": c.StatementTimeout, "TurnTimeout": c.TurnTimeout, "LockWait": c.LockWait} {
		if d < time.Millisecond || d > MaxTimeout {
			return fmt.Errorf("sqlstore: %s is %v; give 1ms to %v, or 0 for the default", name, d, MaxTimeout)
		}
	}
	return nil
}

// Store keeps actors, modules and deployments in CockroachDB or PostgreSQL.
type Store struct {
	cfg     Config
	log     *slog.Logger
	dialect dialect

	// Pools apart, so that no kind of work can use up the connections that
	// another needs to make progress.
	commits  *pgxpool.Pool
	turns    *pgxpool.Pool
	general  *pgxpool.Pool
	leases   *pgxpool.Pool // what keeps this host alive, and nothing that apps cause
	settling *pgxpool.Pool // writes that may meet locked rows again and again

	parts sync.Pool // of *groupParts

	place   string                 // of the tables, in names of sessions
	session atomic.Pointer[string] // application_name once this store has a host
	orphans orphans
	retries atomic.Uint64

	sweep       sweeper
	recordSweep sweeper
	close       sync.Once
}

var _ store.Store = (*Store)(nil)

// Open connects, finds out which database it is, brings its schema up to date
// and returns the store. Several processes may open one database at once.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	base, err := parseURL(cfg.URL)
	if err != nil {
		return nil, err
	}
	return open(ctx, cfg, base)
}

// open is Open with a URL that was read.
func open(ctx context.Context, cfg Config, base *pgxpool.Config) (*Store, error) {
	conn, err := pgx.ConnectConfig(ctx, base.ConnConfig)
	if err != nil {
		return nil, withRemedy(asStoreError(ctx, "connect", distinctLines{err}), err, base.ConnConfig)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()

	s := &Store{cfg: cfg, log: cfg.Logger, orphans: orphans{lost: make(map[string]struct{}), wake: make(chan struct{}, 1), timeout: orphanTimeout}}
	if s.dialect, err = detect(ctx, conn); err != nil {
		return nil, err
	}
	if s.place, err = findPlace(ctx, conn); err != nil {
		return nil, err
	}
	s.parts.New = func() any { return newGroupParts(s.dialect) }
	if err := s.migrate(ctx, base.ConnConfig); err != nil {
		return nil, withRemedy(err, err, base.ConnConfig)
	}
	if err := s.openPools(ctx, conn, base); err != nil {
		_ = s.Close()
		return nil, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.orphans.stop = stop
	s.orphans.done.Go(func() { s.endOrphans(running) })
	return s, nil
}

// Name returns "cockroachdb" or "postgresql".
func (s *Store) Name() string { return s.dialect.String() }

// Shared implements [store.Store].
func (s *Store) Shared() bool { return true }

// Close waits for the calls in flight and closes all connections.
func (s *Store) Close() error {
	s.close.Do(func() {
		if s.orphans.stop != nil {
			s.orphans.stop()
		}
		s.orphans.done.Wait()
		for _, pool := range s.pools() {
			if pool != nil {
				pool.Close()
			}
		}
	})
	return nil
}

func (s *Store) pools() []*pgxpool.Pool {
	return []*pgxpool.Pool{s.turns, s.commits, s.settling, s.general, s.leases}
}

// Now returns database time, to the microsecond.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	var now time.Time
	err := s.read(ctx, "read the time", func(ctx context.Context) error {
		return s.general.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now)
	})
	return now.UTC(), err
}

// Check writes a row, since a database may well answer reads while its disk is
// full or it follows another one.
func (s *Store) Check(ctx context.Context) error {
	return s.read(ctx, "check", func(ctx context.Context) error {
		tag, err := s.leases.Exec(ctx, `UPDATE greenroom_schema SET checked_at = clock_timestamp() WHERE name = $1`, schemaName)
		if err == nil && tag.RowsAffected() != 1 {
			return errors.New("the table greenroom_schema has lost its row")
		}
		return err
	})
}
