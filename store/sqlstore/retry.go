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
		again := s.dialect.judge(err) == conflict || isUnsure(err)
		if !again && !broke && s.lost(err) {
			again, broke = true, true
		}
		if isContract(err) || !again || pause(limited, attempt) != nil {
			break
		}
	}
	return asStoreError(ctx, name, err)
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
