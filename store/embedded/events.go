package embedded

import (
	"fmt"
	"log/slog"

	"github.com/cockroachdb/pebble/v2"
)

// pebbleLogger hands Pebble's own log to slog.
type pebbleLogger struct {
	log   *slog.Logger
	wedge func(error)
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
	l.wedge(fmt.Errorf(format, args...))
	select {}
}

// listener notices what concerns operators and the health of writes. Pebble's
// default ends the process on corruption; here a damaged file harms those alone
// whose rows are in it.
func (s *Store) listener() *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			s.log.Error("flush or compaction failed", "error", err)
		},
		FlushEnd: func(info pebble.FlushInfo) {
			if info.Err != nil {
				text := info.Err.Error()
				s.flushError.Store(&text)
			} else if s.flushError.Swap(nil) != nil {
				s.log.Info("flush succeeded; writes are taken again")
			}
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			s.log.Error("data file is damaged; rows in it cannot be read", "file", info.Path, "error", info.Details)
		},
		DiskSlow: func(info pebble.DiskSlowInfo) {
			s.log.Warn("disk is slow", "file", info.Path, "duration", info.Duration)
		},
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
			s.log.Warn("writes wait for the disk", "reason", info.Reason)
		},
	}
}
