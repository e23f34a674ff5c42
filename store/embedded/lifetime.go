package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/greenroom-run/greenroom/actor"
)

// lifetime counts the calls of an open store, and ends it: by closing, or for good by a
// failure (Failures in protocol.md).
type lifetime struct {
	log *slog.Logger
	dir string

	failed   chan struct{} // closed by fail
	failOnce sync.Once
	failure  error // set before failed is closed

	mu      sync.Mutex
	closing bool
	calls   int
	drained chan struct{} // closed when closing and no call is left
}

func newLifetime(log *slog.Logger, dir string) *lifetime {
	return &lifetime{log: log, dir: dir, failed: make(chan struct{}), drained: make(chan struct{})}
}

// drain refuses new calls, and returns when no call is left.
func (l *lifetime) drain() {
	l.mu.Lock()
	l.closing = true
	if l.calls == 0 {
		close(l.drained)
	}
	l.mu.Unlock()
	<-l.drained
}

// enter begins a call; leave ends it. Between the two the database stays open.
func (l *lifetime) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing {
		return fmt.Errorf("the embedded store is closed: %w", actor.ErrUnavailable)
	}
	select {
	case <-l.failed:
		return l.unavailable()
	default:
	}
	l.calls++
	return nil
}

func (l *lifetime) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls--
	if l.closing && l.calls == 0 {
		close(l.drained)
	}
}

// fail ends the life of the store.
func (l *lifetime) fail(err error) {
	l.failOnce.Do(func() {
		l.failure = err
		close(l.failed)
		l.log.Error("embedded store failed; the process must be started anew", "dir", l.dir, "error", err)
	})
}

// unavailable says why a failed store does not answer.
func (l *lifetime) unavailable() error {
	<-l.failed
	return fmt.Errorf("the embedded store failed and must be started anew (%w): %w", l.failure, actor.ErrUnavailable)
}

// unavailable turns an error of the storage engine into the contract'l. Context
// errors stay what they are, and ambiguity no longer shows.
func unavailable(err error) error {
	switch {
	case err == nil || errors.Is(err, actor.ErrUnavailable) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, actor.ErrAmbiguous):
		return fmt.Errorf("%s: %w", err.Error(), actor.ErrUnavailable)
	default:
		return fmt.Errorf("%w: %w", err, actor.ErrUnavailable)
	}
}
