package embedded

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"path/filepath"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/fair"
	"github.com/greenroom-run/greenroom/store"
)

// Store is an open folder. Each of its parts keeps one family of keys.
type Store struct {
	*writer
	actors
	commits
	*lockedTurns
	records
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

	logs  *logFS
	lock  *pebble.Lock
	close func() error
}

var (
	_ store.Store   = (*Store)(nil)
	_ store.Movable = (*Store)(nil)
)

// Open opens the folder of cfg, making it if it is missing, and replays what a
// crash left in the log. ctx bounds nothing but the start.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	dir, err := makeDir(cfg.FS, cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("embedded store: make folder %s: %w", cfg.Dir, err)
	}
	lock, err := pebble.LockDirectory(dir, cfg.FS)
	if err != nil {
		return nil, fmt.Errorf("embedded store: folder %s is locked by another Greenroom, or not writable (%w); stop that one, or give this one a folder of its own", dir, err)
	}
	life := newLifetime(cfg.Logger, dir)
	core := &core{lifetime: life, clock: clock{now: cfg.Now}, syncs: pendingSyncs{seed: maphash.MakeSeed()}}
	w := &writer{
		core:  core,
		space: spaceGuard{fs: cfg.FS, dir: dir, minimum: cfg.MinFreeBytes},
		tasks: make(chan *task),
		quit:  make(chan struct{}),
	}
	w.tx = newTx(core, &w.heads, &w.seen)
	w.space.written.Store(spaceStep)
	m := &modules{writer: w, uploads: fair.NewPlaces(1)}
	s := &Store{
		writer: w, actors: actors{w}, commits: commits{w}, lockedTurns: &lockedTurns{writer: w}, records: records{w}, modules: m,
		deployments: deployments{w}, settings: settings{w}, services: services{w}, cluster: newCluster(core), buckets: buckets{w}, reminders: reminders{w},
		deadLetters: deadLetters{w}, actorEvents: actorEvents{w}, copier: copier{w, m},
		logs: &logFS{FS: cfg.FS, fail: life.fail}, lock: lock,
	}
	s.close = sync.OnceValue(s.closeFolder)
	if s.db, err = pebble.Open(dir, s.options(cfg)); err != nil {
		return nil, errors.Join(fmt.Errorf("embedded store: open %s: %w", dir, err), lock.Close())
	}
	if err := s.prepare(); err != nil {
		return nil, errors.Join(fmt.Errorf("embedded store: open %s: %w", dir, err), s.db.Close(), lock.Close())
	}
	s.logs.on.Store(true)
	w.start()
	return s, nil
}

// makeDir makes the folder and returns one name for it, whichever way it was
// named: the lock counts processes by file and the Opens of a process by name.
func makeDir(fs vfs.FS, dir string) (string, error) {
	if err := fs.MkdirAll(dir, 0o750); err != nil {
		return "", err
	}
	if fs != vfs.Default {
		return dir, nil
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

func (s *Store) options(cfg Config) *pebble.Options {
	o := &pebble.Options{
		FS:        s.logs,
		Lock:      s.lock,
		CacheSize: cfg.CacheBytes,
		// A fixed format: a newer Pebble must not make a folder unreadable for
		// the binary before it. This one marks how far the log was synced, so
		// that damage in the log can be distinguished from its torn end.
		FormatMajorVersion:          pebble.FormatWALSyncChunks,
		MemTableSize:                uint64(cfg.MemTableBytes),
		MemTableStopWritesThreshold: 3,
		// Eight flushes, not two, until the first level is merged into the next:
		// keys of records are random, so each merge rewrites all of that one. A
		// read asks as many filters more.
		L0CompactionThreshold: 16,
		L0StopWritesThreshold: 1000,
		MaxOpenFiles:          1000,
		Logger:                &pebbleLogger{log: cfg.Logger, fail: s.fail},
		EventListener:         s.listener(),
	}
	// Most loads of a cold key find nothing: a new actor. The filter, 10 bits
	// per key, answers those from memory: see finder.
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		o.Levels[i].Compression = func() *sstable.CompressionProfile { return sstable.SnappyCompression }
	}
	// What is in the first level is soon merged into the next one: compressing it
	// would cost more than the little disk that it saves.
	o.Levels[0].Compression = func() *sstable.CompressionProfile { return sstable.NoCompression }
	return o
}

// prepare checks the layout, sets the clock, and clears away what an upload that
// was cut off has left.
func (s *Store) prepare() error {
	batch := s.db.NewBatch()
	defer func() { _ = batch.Close() }()
	format, err := get(s.db, []byte(formatKey))
	switch {
	case err != nil:
		return err
	case format == nil:
		if err := batch.Set([]byte(formatKey), []byte(layoutVersion), nil); err != nil {
			return err
		}
	case string(format) == unfinishedLayout:
		return store.ErrUnfinishedCopy
	case string(format) != layoutVersion:
		return fmt.Errorf("the data has layout %q, and this version of Greenroom knows %q; use the version that wrote it", format, layoutVersion)
	}
	last, err := get(s.db, []byte(clockKey))
	if err != nil {
		return err
	}
	if len(last) == 8 {
		s.clock.last = int64(binary.BigEndian.Uint64(last))
	}
	if s.seen.unread, err = lastExpiry(s.db); err != nil {
		return err
	}
	if err := clearUploads(s.db, batch); err != nil {
		return err
	}
	return s.db.Apply(batch, pebble.Sync)
}

// Name returns "embedded".
func (s *Store) Name() string { return "embedded" }

// Shared implements [store.Store]: the folder is locked against other processes.
func (s *Store) Shared() bool { return false }

// Now returns database time: the host's clock, never going back.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	if err := s.enter(ctx); err != nil {
		return time.Time{}, err
	}
	defer s.leave()
	return time.UnixMicro(s.clock.read()).UTC(), nil
}

// Check makes a durable write.
func (s *Store) Check(ctx context.Context) error {
	err := s.update(ctx, writeOptions{}, func(tx *tx) error {
		tx.stamp()
		return nil
	})
	if errors.Is(err, actor.ErrAmbiguous) {
		return unavailable(err) // nobody needs to know whether it was written
	}
	return err
}

// Close waits for the calls in flight and releases the folder. A failed store keeps the
// folder locked until the process ends, since its engine may hang in the middle of a write,
// and nobody else may write meanwhile; the error states this.
func (s *Store) Close() error { return s.close() }

func (s *Store) closeFolder() error {
	s.drain()
	close(s.quit)
	select {
	case <-s.failed:
		return fmt.Errorf("embedded store: %s stays locked until the process ends: %w", s.dir, s.failure)
	default:
	}
	s.writer.done.Wait()
	s.logs.on.Store(false)
	if err := errors.Join(s.db.Close(), s.lock.Close()); err != nil {
		return fmt.Errorf("embedded store: close %s: %w", s.dir, err)
	}
	return nil
}
