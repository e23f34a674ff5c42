package sqlstore

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"
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
	// GeneralConns is how many other operations may run at once. Apps share them; of 8 or
	// more, one app leaves some to others. Defaults to 8.
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
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.CommitConns = cmp.Or(c.CommitConns, 4)
	c.TurnConns = cmp.Or(c.TurnConns, 16)
	c.GeneralConns = cmp.Or(c.GeneralConns, 8)
	c.StatementTimeout = cmp.Or(c.StatementTimeout, 10*time.Second)
	c.TurnTimeout = cmp.Or(c.TurnTimeout, 30*time.Second)
	c.LockWait = cmp.Or(c.LockWait, 2*time.Second)
	return c
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
