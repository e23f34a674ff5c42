package sqlstore

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// modules keeps modules, with their bytes in chunks.
type modules struct{ *db }

const (
	// chunkSize is far below the 16 MiB that CockroachDB takes in one message,
	// and a size that its ranges handle well.
	chunkSize = 1 << 20
	// uploadLife is how long chunks without a module are kept. An upload that
	// takes longer is refused.
	uploadLife = time.Hour
)

// PutModule writes the chunks under an upload of their own, and then, in one
// statement, turns the upload into the module: a crash in between leaves an
// upload that a later one removes, never a module without its bytes.
func (s *modules) PutModule(ctx context.Context, m actor.Module, wasm actor.Code, most int64) error {
	if err := store.ValidateModule(m, wasm); err != nil {
		return err
	}
	damaged, err := s.readModule(ctx, m.App, m.Digest, nil)
	switch {
	case err == nil:
		there, err := s.execFor(ctx, share(m.App), "store module again", `UPDATE greenroom_module SET created_at = clock_timestamp()
			WHERE app = $1 AND digest = $2`, m.App, string(m.Digest))
		if err != nil || there > 0 {
			return err
		}
		damaged = uuid{} // it has been removed meanwhile
	case !errors.Is(err, actor.ErrModuleNotFound) && !errors.Is(err, actor.ErrModuleDamaged):
		return err
	}
	if err := s.removeExpiredUploads(ctx, share(m.App)); err != nil {
		return err
	}
	if damaged == (uuid{}) { // or else it takes the place of its damaged bytes
		if err := s.transaction(ctx, share(m.App), "store module: look for room", func(ctx context.Context, tx pgx.Tx) error {
			_, err := roomFor(ctx, tx, m, most)
			return err
		}); err != nil {
			return err
		}
	}
	upload := uuid(newUUID())
	if _, err := s.execFor(ctx, share(m.App), "store module: begin", `INSERT INTO greenroom_module_upload (upload, expires_at)
		VALUES ($1, clock_timestamp() + $2::interval) ON CONFLICT (upload) DO NOTHING`, upload, uploadLife); err != nil {
		return err
	}
	buf := make([]byte, min(chunkSize, m.Size))
	for n := 0; int64(n)*chunkSize < m.Size; n++ {
		chunk, err := store.ModuleChunk(wasm, n, buf)
		if err != nil {
			return err
		}
		if _, err := s.execFor(ctx, share(m.App), "store module: write a chunk", `INSERT INTO greenroom_module_chunk (upload, n, data)
			VALUES ($1, $2, $3) ON CONFLICT (upload, n) DO NOTHING`, upload, n, chunk); err != nil {
			return err
		}
	}
	gone, err := s.finishUpload(ctx, m, upload, damaged, most)
	for _, unused := range gone {
		if err := s.removeUpload(ctx, share(m.App), unused); err != nil {
			s.log.WarnContext(ctx, "chunks of no module left for later", "error", err)
		}
	}
	return err
}

// finishUpload makes the upload a module, and returns the uploads whose chunks are of no
// module now: its own, if it is refused or not needed, and those of modules that made room.
// Run again, after its first answer was lost, it finds the module there. It replaces the
// bytes of a module that has those of the damaged upload, if that is not zero.
func (s *modules) finishUpload(ctx context.Context, m actor.Module, upload, damaged uuid, most int64) (gone []uuid, err error) {
	var stored bool
	var full error
	err = s.transaction(ctx, share(m.App), "store module: finish", func(ctx context.Context, tx pgx.Tx) error {
		stored, full = false, nil
		// Uploads of an app follow each other: each finds room beside those before.
		if err := lockApp(ctx, tx, m.App, 1); err != nil {
			return err
		}
		var present uuid
		err := tx.QueryRow(ctx, `SELECT upload FROM greenroom_module WHERE app = $1 AND digest = $2 FOR UPDATE`,
			m.App, string(m.Digest)).Scan(&present)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
		case err != nil:
			return err
		case present == upload:
			stored = true
			return errDone
		case present != damaged: // a rival's, which is as good
			stored, gone = true, []uuid{upload}
			return abandonUpload(ctx, tx, upload)
		}
		tag, err := tx.Exec(ctx, `DELETE FROM greenroom_module_upload WHERE upload = $1`, upload)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		if present != (uuid{}) {
			stored = true
			if _, err := tx.Exec(ctx, `UPDATE greenroom_module SET upload = $3 WHERE app = $1 AND digest = $2`,
				m.App, string(m.Digest), upload); err != nil {
				return err
			}
			return abandonUpload(ctx, tx, damaged)
		}
		gone, full = makeRoom(ctx, tx, m, most)
		if errors.Is(full, actor.ErrModulesFull) {
			stored, gone = true, []uuid{upload}
			return abandonUpload(ctx, tx, upload)
		}
		if full != nil {
			return full
		}
		stored = true
		_, err = tx.Exec(ctx, `INSERT INTO greenroom_module (app, digest, size, manifest, created_at, upload)
			VALUES ($1, $2, $3, $4, clock_timestamp(), $5)`,
			m.App, string(m.Digest), m.Size, notNull(m.Manifest), upload)
		return err
	})
	if err == nil && !stored {
		err = fmt.Errorf("store module: %w: the upload took longer than %v; upload it again", actor.ErrUnavailable, uploadLife)
	}
	return gone, cmp.Or(err, full)
}

// storedBytes is [store.StoredBytes] of a row of greenroom_module.
var storedBytes = fmt.Sprintf(`greatest(size + octet_length(manifest), %d)`, store.LeastStored)

// roomFor returns the modules to be removed so that the app has room for another one, by
// [store.MakeRoom].
func roomFor(ctx context.Context, tx pgx.Tx, m actor.Module, most int64) ([]actor.Digest, error) {
	if most == 0 {
		return nil, nil
	}
	var all int64
	var now time.Time
	if err := tx.QueryRow(ctx, `SELECT coalesce(sum(`+storedBytes+`), 0)::int8, clock_timestamp() FROM greenroom_module WHERE app = $1`, m.App).Scan(&all, &now); err != nil {
		return nil, err
	}
	bytes := store.StoredBytes(m.Size, len(m.Manifest))
	if all+bytes <= most {
		return nil, nil
	}
	rows, err := tx.Query(ctx, `SELECT digest, `+storedBytes+`, created_at FROM greenroom_module WHERE app = $1`, m.App)
	if err != nil {
		return nil, err
	}
	stored, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (store.StoredModule, error) {
		var found store.StoredModule
		var digest string
		err := row.Scan(&digest, &found.Bytes, &found.UsedAt)
		found.Digest = actor.Digest(digest)
		return found, err
	})
	if err != nil {
		return nil, err
	}
	rows, err = tx.Query(ctx, `SELECT `+deploymentColumns+` FROM greenroom_type AS t
		JOIN greenroom_deployment AS d ON d.app = t.app AND d.type = t.type AND d.generation > t.generation - $2::int8
		WHERE t.app = $1 ORDER BY d.type, d.generation DESC`, m.App, store.RecentDeployments)
	if err != nil {
		return nil, err
	}
	history, err := pgx.CollectRows(rows, scanDeployment)
	if err != nil {
		return nil, err
	}
	store.MarkUse(stored, history, now)
	return store.MakeRoom(m.App, stored, bytes, most)
}

// makeRoom removes modules that are not kept, so that the app has room for another one, and
// returns their uploads.
func makeRoom(ctx context.Context, tx pgx.Tx, m actor.Module, most int64) ([]uuid, error) {
	digests, err := roomFor(ctx, tx, m, most)
	if err != nil || len(digests) == 0 {
		return nil, err
	}
	// Deploy holds the rows of its modules. What has become of them meanwhile is seen by
	// the next statement alone.
	if _, err := tx.Exec(ctx, `SELECT m.digest FROM unnest($2::text[]) AS d (digest)
		JOIN greenroom_module AS m ON m.app = $1 AND m.digest = d.digest ORDER BY m.digest FOR UPDATE OF m`, m.App, digests); err != nil {
		return nil, err
	}
	again, err := roomFor(ctx, tx, m, most)
	if err != nil {
		return nil, err
	}
	if !slices.Equal(again, digests) {
		return nil, restartError{}
	}
	rows, err := tx.Query(ctx, `WITH gone AS (DELETE FROM greenroom_module WHERE app = $1 AND digest = ANY($2::text[]) RETURNING upload),
			abandoned AS (INSERT INTO greenroom_module_upload (upload, expires_at) SELECT upload, clock_timestamp() FROM gone RETURNING upload)
		SELECT upload FROM abandoned`, m.App, digests)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[uuid])
}

// removeExpiredUploads removes chunks that no module has, of crashed uploads and
// of deleted modules.
func (s *modules) removeExpiredUploads(ctx context.Context, of share) error {
	expired, err := query(ctx, s.db, of, "find expired uploads", pgx.RowTo[uuid], `SELECT upload FROM greenroom_module_upload
		WHERE upload > '00000000-0000-0000-0000-000000000000' AND expires_at < clock_timestamp() LIMIT 16`) // any of them, as a range
	for _, upload := range expired {
		if err == nil {
			err = s.removeUpload(ctx, of, upload)
		}
	}
	return err
}

// abandonUpload marks chunks that no module has any more, to be removed.
func abandonUpload(ctx context.Context, tx pgx.Tx, upload uuid) error {
	_, err := tx.Exec(ctx, `INSERT INTO greenroom_module_upload (upload, expires_at) VALUES ($1, clock_timestamp())
		ON CONFLICT (upload) DO UPDATE SET expires_at = excluded.expires_at`, upload)
	return err
}

// removeUpload takes the upload's row out first, if it has expired: once that is
// committed, finishUpload can no longer make a module of it.
func (s *modules) removeUpload(ctx context.Context, of share, upload uuid) error {
	return s.transaction(ctx, of, "remove an upload", func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `DELETE FROM greenroom_module_upload WHERE upload = $1 AND expires_at < clock_timestamp()`, upload)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		_, err = tx.Exec(ctx, `DELETE FROM greenroom_module_chunk WHERE upload = $1`, upload)
		return err
	})
}

const moduleColumns = `app, digest, size, manifest, created_at`

func scanModule(row pgx.CollectableRow) (actor.Module, error) {
	var m actor.Module
	var digest string
	err := row.Scan(&m.App, &digest, &m.Size, &m.Manifest, &m.CreatedAt)
	m.Digest, m.CreatedAt = actor.Digest(digest), m.CreatedAt.UTC()
	return m, err
}

// Module reads a module's description.
func (s *modules) Module(ctx context.Context, app string, d actor.Digest) (actor.Module, error) {
	found, err := query(ctx, s.db, share(app), "read module", scanModule, `SELECT `+moduleColumns+` FROM greenroom_module WHERE app = $1 AND digest = $2`, app, string(d))
	switch {
	case err != nil:
		return actor.Module{}, err
	case len(found) == 0:
		return actor.Module{}, fmt.Errorf("read module: %w", actor.ErrModuleNotFound)
	}
	return found[0], nil
}

// ModuleBytes reads all chunks in one statement, so that a module deleted
// meanwhile is read whole or not found.
func (s *modules) ModuleBytes(ctx context.Context, app string, d actor.Digest) ([]byte, error) {
	var wasm bytes.Buffer
	if _, err := s.readModule(ctx, app, d, &wasm); err != nil {
		return nil, err
	}
	return wasm.Bytes(), nil
}

// readModule reads a module and checks its bytes, and returns the upload that they are
// of. Without into they are in memory chunk by chunk alone.
func (s *modules) readModule(ctx context.Context, app string, d actor.Digest, into *bytes.Buffer) (upload uuid, err error) {
	sum := sha256.New()
	err = s.readFor(ctx, share(app), "read module", func(ctx context.Context, conn *pgxpool.Conn) error {
		sum.Reset()
		if into != nil {
			into.Reset()
		}
		found := false
		var chunk []byte
		if err := each(ctx, conn, []any{&upload, &chunk}, func() error {
			found = true
			_, _ = sum.Write(chunk) // never fails
			if into != nil {
				into.Write(chunk)
			}
			return nil
		}, `SELECT m.upload, c.data FROM greenroom_module AS m
			LEFT JOIN greenroom_module_chunk AS c ON c.upload = m.upload
			WHERE m.app = $1 AND m.digest = $2 ORDER BY c.n`, app, string(d)); err != nil {
			return err
		}
		if !found {
			return actor.ErrModuleNotFound
		}
		return nil
	})
	if err == nil && hex.EncodeToString(sum.Sum(nil)) != string(d) {
		err = fmt.Errorf("read module %s: %w; upload it again", d.Short(), actor.ErrModuleDamaged)
	}
	return upload, err
}

// ListModules reads a page of an app's modules.
func (s *modules) ListModules(ctx context.Context, app string, after actor.Digest, limit int) ([]actor.Module, error) {
	if err := store.ValidateLimit(limit); err != nil {
		return nil, err
	}
	return query(ctx, s.db, share(app), "list modules", scanModule, `SELECT `+moduleColumns+` FROM greenroom_module
		WHERE app = $1 AND digest > $2 ORDER BY app, digest LIMIT $3`, app, string(after), limit)
}

// DeleteModule removes the module's row and leaves its chunks as an expired
// upload, whose removal may fail and be done later.
func (s *modules) DeleteModule(ctx context.Context, app string, d actor.Digest) error {
	var upload uuid
	removed := false // by a COMMIT whose answer may have been lost
	err := s.transaction(ctx, share(app), "delete module", func(ctx context.Context, tx pgx.Tx) error {
		// Deploy holds the same row while it looks at the module, so what serves
		// now cannot change between the next statements.
		err := tx.QueryRow(ctx, `SELECT upload FROM greenroom_module WHERE app = $1 AND digest = $2 FOR UPDATE`, app, string(d)).Scan(&upload)
		if errors.Is(err, pgx.ErrNoRows) {
			if removed {
				return errDone
			}
			return actor.ErrModuleNotFound
		}
		if err != nil {
			return err
		}
		var serves bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM greenroom_type WHERE app = $1 AND digest = $2)`, app, string(d)).Scan(&serves); err != nil {
			return err
		}
		if serves {
			return actor.ErrModuleInUse
		}
		if _, err := tx.Exec(ctx, `DELETE FROM greenroom_module WHERE app = $1 AND digest = $2`, app, string(d)); err != nil {
			return err
		}
		removed = true
		return abandonUpload(ctx, tx, upload)
	})
	if err != nil {
		return err
	}
	if err := s.removeUpload(ctx, share(app), upload); err != nil {
		s.log.WarnContext(ctx, "chunks of a deleted module left for later", "module", d.Short(), "error", err)
	}
	return nil
}
