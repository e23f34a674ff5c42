package sqlstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// maxAttempts bounds retries of serialization failures. With the pauses
	// below, the last comes some 4 s after the first.
	maxAttempts = 40
	firstPause  = time.Millisecond
	longPause   = 128 * time.Millisecond
)

// pause waits before the attempt after the given one (from 0), longer each time
// and by a random part, so that writers who met once do not meet again. It
// returns the context's error if that ends first.
func pause(ctx context.Context, attempt int) error {
	limit := min(longPause, firstPause<<min(attempt, 16))
	timer := time.NewTimer(limit/2 + rand.N(limit))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// read runs op, and again after a serialization failure, where the server does not
// know what it has done, or, once, on another connection if the one it got is
// dead. op must be a read, or a write that is the same when done twice.
func (s *Store) read(ctx context.Context, name string, op func(ctx context.Context) error) error {
	return s.repeat(ctx, name, op, func(v verdict) bool { return v == conflict })
}

// untilFree is read for sessions with a short lock_timeout: if a row is locked for longer,
// it gives its connection to others for a moment and tries again.
func (s *Store) untilFree(ctx context.Context, name string, op func(ctx context.Context) error) error {
	return s.repeat(ctx, name, op, func(v verdict) bool { return v == conflict || v == blocked })
}

func (s *Store) repeat(ctx context.Context, name string, op func(ctx context.Context) error, passes func(verdict) bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, 2*s.cfg.StatementTimeout)
	defer cancel()
	var err error
	broke := false
	for attempt := range maxAttempts {
		if err = op(limited); err == nil {
			return nil
		}
		again := passes(s.dialect.judge(err)) || isUnsure(err)
		if !again && !broke && s.lost(err) {
			again, broke = true, true
		}
		if isContract(err) || !again || pause(limited, attempt) != nil {
			break
		}
		s.countRetry(err)
	}
	if !isContract(err) && ctx.Err() == nil {
		s.orphans.blocked() // it may have waited for a row; CockroachDB's reads do as well
	}
	return asStoreError(ctx, name, err)
}

// Retries returns how often a serialization failure (40001) had a statement or a
// transaction tried again here. What CockroachDB retries by itself does not show.
func (s *Store) Retries() uint64 { return s.retries.Load() }

// countRetry counts that what failed is tried again.
func (s *Store) countRetry(err error) {
	var server *pgconn.PgError
	if errors.As(err, &server) && server.Code == "40001" {
		s.retries.Add(1)
	}
}

// isUnsure recognizes a server's own word that it does not know whether it has done
// what it was asked for.
func isUnsure(err error) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && server.Code == "40003"
}

// lost reports whether the connection broke. A pool hands out connections that
// a restarted server forgot, so the first such failure says nothing about the
// server as it is now.
func (s *Store) lost(err error) bool {
	v := s.dialect.judge(err)
	return v == unknown || v == unsent && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}
