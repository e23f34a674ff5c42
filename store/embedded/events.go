package embedded

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
)

// pebbleLogger hands Pebble's own log to slog.
type pebbleLogger struct {
	log  *slog.Logger
	fail func(error)
}

func (l *pebbleLogger) Infof(format string, args ...any) {
	l.log.Debug("storage engine", "text", fmt.Sprintf(format, args...))
}

func (l *pebbleLogger) Errorf(format string, args ...any) {
	l.log.Error("storage engine reports an error", "text", fmt.Sprintf(format, args...))
}

// Fatalf must not return, since Pebble holds locks and has lost a write. It
// would be wrong to end the process from in here: the store is failed instead,
// which every call notices, and the goroutine stops for ever with Pebble's locks
// held, so that Pebble writes nothing more.
func (l *pebbleLogger) Fatalf(format string, args ...any) {
	l.fail(fmt.Errorf(format, args...))
	select {}
}

// flushHealth knows whether the last flush failed. Pebble reports a flush that
// had nothing to write as an error, too, and tells the two apart only by
// repeating the real one as a background error.
type flushHealth struct {
	mu     sync.Mutex
	last   error // of the last flush
	failed error // the last background error
	logged string
}

func (h *flushHealth) ended(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = err
}

// confirm notes a background error, and reports whether it is news: Pebble
// tries again at once, and would fill the log.
func (h *flushHealth) confirm(err error) (news bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed = err
	news = h.logged != err.Error()
	h.logged = err.Error()
	return news
}

// check returns the error of the last flush if it failed.
func (h *flushHealth) check() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.last != nil && errors.Is(h.last, h.failed) {
		return h.last
	}
	return nil
}
