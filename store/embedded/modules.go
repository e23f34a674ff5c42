package embedded

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/fair"
	"github.com/greenroom-run/greenroom/store"
)

// modules keeps modules, with their bytes in chunks.
type modules struct {
	*writer
	// uploads has one place, for who writes or removes chunks of a module: those take several
	// batches. Apps have it in turn.
	uploads *fair.Places
}

// chunkSize is how much of a module one batch writes, so that turns commit in
// between.
const chunkSize = 1 << 20

// moduleRecord is a module as it is stored, apart from its bytes.
type moduleRecord struct {
	Size      int64  `json:"size"`
	Manifest  []byte `json:"manifest"`
	CreatedAt int64  `json:"created_at"` // microseconds since 1970
}

func (r moduleRecord) module(app string, d actor.Digest) actor.Module {
	return actor.Module{App: app, Digest: d, Size: r.Size, Manifest: r.Manifest, CreatedAt: time.UnixMicro(r.CreatedAt).UTC()}
}

// PutModule implements [store.Modules]. The chunks are written first, under a
// mark by which Open finds what was never finished; the description, written
// last, makes the module visible, and its sync covers the chunks before it. What makes
// room goes with that write.
func (s *modules) PutModule(ctx context.Context, m actor.Module, wasm actor.Code, most int64) error {
	if err := store.ValidateModule(m, wasm); err != nil {
		return err
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	leave, err := s.uploads.Enter(ctx, m.App, "")
	if err != nil {
		return err
	}
	defer leave()
	err = s.read(ctx, m.App, m.Digest, nil)
	switch {
	case err == nil:
		return s.storeAgain(ctx, m.App, m.Digest)
	case errors.Is(err, actor.ErrModuleDamaged):
		most = 0 // it takes the place of its damaged bytes
	case !errors.Is(err, actor.ErrModuleNotFound):
		return err
	}
	var others []store.StoredModule
	if most > 0 {
		if others, err = s.stored(ctx, m.App, m.Digest); err != nil {
			return err
		}
	}
	bytes := store.StoredBytes(m.Size, len(m.Manifest))
	gone, err := store.MakeRoom(m.App, others, bytes, most)
	if err != nil {
		return err
	}
	chunks := chunkPrefix(m.App, m.Digest)
	err = s.write(ctx, writeOptions{noSync: true}, func(tx *tx) error {
		tx.set(uploadKey(m.App, m.Digest), nil)
		tx.deleteRange(chunks, prefixEnd(chunks))
		return nil
	})
	if err != nil {
		return err
	}
	buf := make([]byte, min(chunkSize, m.Size))
	for n := 0; int64(n)*chunkSize < m.Size; n++ {
		chunk, err := store.ModuleChunk(wasm, n, buf)
		if err != nil {
			return err
		}
		err = s.write(ctx, writeOptions{noSync: true}, func(tx *tx) error {
			tx.set(chunkKey(m.App, m.Digest, n), chunk)
			return nil
		})
		if err != nil {
			return err
		}
	}
	key := moduleKey(m.App, m.Digest)
	var full error
	err = s.write(ctx, writeOptions{}, func(tx *tx) error {
		tx.delete(uploadKey(m.App, m.Digest))
		if len(gone) > 0 { // and serve now, perhaps
			if err := markUse(ctx, tx.db, m.App, others, tx.now); err != nil {
				return err
			}
			if gone, full = store.MakeRoom(m.App, others, bytes, most); full != nil {
				tx.deleteRange(chunks, prefixEnd(chunks))
				return nil //nolint:nilerr // full is returned below, once this is written
			}
		}
		for _, d := range gone {
			removeModule(tx, m.App, d)
		}
		return tx.setRecord(key, moduleRecord{Size: m.Size, Manifest: m.Manifest, CreatedAt: tx.now})
	})
	return cmp.Or(err, full)
}

// storeAgain counts a module as new that is there.
func (s *modules) storeAgain(ctx context.Context, app string, d actor.Digest) error {
	return s.write(ctx, writeOptions{}, func(tx *tx) error {
		r, err := readModuleRecord(tx.db, app, d)
		if err != nil {
			return err
		}
		r.CreatedAt = tx.now
		return tx.setRecord(moduleKey(app, d), r)
	})
}

// stored reads the modules of an app but except. Their number changes for the owner of
// uploads alone, and what serves whenever others deploy.
func (s *modules) stored(ctx context.Context, app string, except actor.Digest) ([]store.StoredModule, error) {
	prefix := modulePrefix(app)
	var stored []store.StoredModule
	err := s.scan(ctx, prefix, prefixEnd(prefix), func(key, value []byte) (more bool, err error) {
		var r moduleRecord
		_ = decodeRecord(key, value, &r) // what is damaged counts least, and goes first
		if d := actor.Digest(key[len(prefix):]); d != except {
			stored = append(stored, store.StoredModule{Digest: d, Bytes: store.StoredBytes(r.Size, len(r.Manifest)), UsedAt: time.UnixMicro(r.CreatedAt)})
		}
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	return stored, markUse(ctx, s.db, app, stored, s.clock.read())
}

// markUse is [store.MarkUse] at a time in microseconds since 1970.
func markUse(ctx context.Context, r pebble.Reader, app string, stored []store.StoredModule, now int64) error {
	current, err := currentDeployments(ctx, r, app)
	if err != nil {
		return err
	}
	var history []actor.Deployment
	for _, d := range current {
		recent, err := deploymentsBefore(ctx, r, app, d.Type, d.Generation+1, store.RecentDeployments)
		if err != nil {
			return err
		}
		history = append(history, recent...)
	}
	store.MarkUse(stored, history, time.UnixMicro(now))
	return nil
}

// removeModule removes a module with its chunks.
func removeModule(t *tx, app string, d actor.Digest) {
	chunks := chunkPrefix(app, d)
	t.delete(moduleKey(app, d))
	t.deleteRange(chunks, prefixEnd(chunks))
	t.stamp()
}

func (s *modules) Module(ctx context.Context, app string, d actor.Digest) (actor.Module, error) {
	if err := s.enter(ctx); err != nil {
		return actor.Module{}, err
	}
	defer s.leave()
	r, err := readModuleRecord(s.db, app, d)
	if err != nil {
		return actor.Module{}, err
	}
	return r.module(app, d), s.await(ctx, s.syncs.latest.Load())
}

func readModuleRecord(r pebble.Reader, app string, d actor.Digest) (moduleRecord, error) {
	key := moduleKey(app, d)
	value, err := get(r, key)
	if err != nil {
		return moduleRecord{}, unavailable(err)
	}
	if value == nil {
		return moduleRecord{}, fmt.Errorf("module %s of app %s: %w", d.Short(), app, actor.ErrModuleNotFound)
	}
	var record moduleRecord
	if err := decodeRecord(key, value, &record); err != nil {
		return moduleRecord{}, fmt.Errorf("%w: %w", err, actor.ErrModuleDamaged)
	}
	return record, nil
}

func (s *modules) ModuleBytes(ctx context.Context, app string, d actor.Digest) ([]byte, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	var wasm bytes.Buffer
	if err := s.read(ctx, app, d, &wasm); err != nil {
		return nil, err
	}
	return wasm.Bytes(), nil
}

// read reads a module at one moment, and checks its bytes. Without into they are
// in memory chunk by chunk alone.
func (s *modules) read(ctx context.Context, app string, d actor.Digest, into *bytes.Buffer) error {
	snap := s.db.NewSnapshot()
	defer func() { _ = snap.Close() }()
	f := s.syncs.latest.Load()
	if _, err := readModuleRecord(snap, app, d); err != nil {
		return err
	}
	prefix := chunkPrefix(app, d)
	it, err := snap.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: prefix, UpperBound: prefixEnd(prefix)})
	if err != nil {
		return unavailable(err)
	}
	sum := sha256.New()
	err = visitAll(ctx, it, func(_, chunk []byte) (more bool, err error) {
		_, _ = sum.Write(chunk) // never fails
		if into != nil {
			into.Write(chunk)
		}
		return true, nil
	})
	switch {
	case pebble.IsCorruptionError(err):
		return fmt.Errorf("module %s of app %s (%w): %w", d.Short(), app, err, actor.ErrModuleDamaged)
	case err != nil:
		return err
	case hex.EncodeToString(sum.Sum(nil)) != string(d):
		return fmt.Errorf("module %s of app %s: %w", d.Short(), app, actor.ErrModuleDamaged)
	}
	return s.await(ctx, f)
}

func (s *modules) ListModules(ctx context.Context, app string, after actor.Digest, limit int) ([]actor.Module, error) {
	if err := store.ValidateLimit(limit); err != nil {
		return nil, err
	}
	prefix := modulePrefix(app)
	from := append(bytes.Clone(prefix), after...)
	if after != "" {
		from = append(from, 0)
	}
	var modules []actor.Module
	err := s.list(ctx, from, prefixEnd(prefix), func(key, value []byte) (more bool, err error) {
		var r moduleRecord
		if err := decodeRecord(key, value, &r); err != nil {
			return false, fmt.Errorf("%w: %w", err, actor.ErrModuleDamaged)
		}
		modules = append(modules, r.module(app, actor.Digest(key[len(prefix):])))
		return len(modules) < limit, nil
	})
	if err != nil {
		return nil, err
	}
	return modules, nil
}

func (s *modules) DeleteModule(ctx context.Context, app string, d actor.Digest) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	leave, err := s.uploads.Enter(ctx, app, "")
	if err != nil {
		return err
	}
	defer leave()
	return s.write(ctx, writeOptions{frees: true}, func(tx *tx) error {
		if value, err := tx.get(moduleKey(app, d)); err != nil {
			return unavailable(err)
		} else if value == nil {
			return fmt.Errorf("module %s of app %s: %w", d.Short(), app, actor.ErrModuleNotFound)
		}
		current, err := currentDeployments(ctx, tx.db, app)
		if err != nil {
			return err
		}
		for _, c := range current {
			if c.Digest == d {
				return fmt.Errorf("module %s of app %s serves %s: %w", d.Short(), app, c.Type, actor.ErrModuleInUse)
			}
		}
		removeModule(tx, app, d)
		return nil
	})
}

// clearUploads removes the chunks of uploads that never became modules.
func clearUploads(db *pebble.DB, batch *pebble.Batch) error {
	prefix := []byte(uploadSpace)
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: prefixEnd(prefix)})
	if err != nil {
		return err
	}
	return visitAll(context.Background(), it, func(mark, _ []byte) (more bool, err error) {
		name := mark[len(prefix):]
		module, err := get(db, append([]byte(moduleSpace), name...))
		if err != nil {
			return false, err
		}
		if module == nil {
			chunks := append([]byte(chunkSpace), name...)
			if err := batch.DeleteRange(chunks, prefixEnd(chunks), nil); err != nil {
				return false, err
			}
		}
		return true, batch.Delete(bytes.Clone(mark), nil)
	})
}
