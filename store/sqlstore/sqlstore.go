package sqlstore

import (
	"context"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/greenroom-run/greenroom/store"
)

// Store keeps actors, modules and deployments in CockroachDB or PostgreSQL. Each of its parts
// has the statements of one family of tables.
type Store struct {
	*db
	actors
	*commits
	*outcomes
	lockedTurns
	*records
	*modules
	deployments
	settings
	services
	*cluster
	buckets
	reminders
	deadLetters
	actorEvents
	copier

	reaper *reaper
	close  sync.Once
}

var (
	_ store.Store   = (*Store)(nil)
	_ store.Movable = (*Store)(nil)
)

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

	d, err := detect(ctx, conn)
	if err != nil {
		return nil, err
	}
	sessions, err := newSessions(ctx, conn, d)
	if err != nil {
		return nil, err
	}
	if err := (&migrator{dialect: d, log: cfg.Logger}).migrate(ctx, base.ConnConfig); err != nil {
		return nil, withRemedy(err, err, base.ConnConfig)
	}
	pools, err := (&opener{cfg: cfg, dialect: d, conn: conn, sessions: sessions}).open(ctx, base)
	if err != nil {
		pools.close()
		return nil, err
	}
	db := &db{cfg: cfg, log: cfg.Logger, dialect: d, pools: pools, sessions: sessions}
	records := &records{db: db, sweeper: sweeper{db: db, statement: sweepRecords}}
	outcomes := &outcomes{db: db, records: records}
	order := order{db: db, known: store.NewOrder()}
	modules := &modules{db}
	cluster := &cluster{db}
	s := &Store{
		db:          db,
		actors:      actors{db: db, sweeper: &sweeper{db: db, statement: sweepTombstones}},
		commits:     &commits{db: db, outcomes: outcomes, order: order},
		outcomes:    outcomes,
		lockedTurns: lockedTurns{db, outcomes, order},
		records:     records,
		modules:     modules,
		deployments: deployments{db},
		settings:    settings{db},
		services:    services{db},
		cluster:     cluster,
		buckets:     buckets{db},
		reminders:   reminders{db},
		deadLetters: deadLetters{db}, actorEvents: actorEvents{db},
		copier: copier{db: db, modules: modules, cluster: cluster},
		reaper: newReaper(db),
	}
	s.reaper.start(ctx)
	return s, nil
}

// Close waits for the calls in flight and closes all connections.
func (s *Store) Close() error {
	s.close.Do(func() {
		s.reaper.stop()
		s.pools.close()
	})
	return nil
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
