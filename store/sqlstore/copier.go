package sqlstore

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// copier reads and writes a store as a whole.
type copier struct {
	*db
	modules *modules
	cluster *cluster
}

// wholeConn opens a connection for reading and writing whole tables, which takes as long as
// it takes. One whose rows are copied elsewhere reads on only when those are written.
func (s *copier) wholeConn(ctx context.Context) (*pgx.Conn, error) {
	cfg := s.general.pool.Config().ConnConfig
	for _, name := range []string{
		"statement_timeout", "idle_in_transaction_session_timeout", "transaction_timeout", "tcp_user_timeout",
		"disallow_full_table_scans", "large_full_scan_rows", "enable_seqscan", "enable_hashjoin", "enable_mergejoin",
	} {
		delete(cfg.RuntimeParams, name)
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err == nil && s.dialect == postgres {
		if _, err = conn.Exec(ctx, pinSync); err != nil {
			_ = conn.Close(context.WithoutCancel(ctx))
		}
	}
	if err != nil {
		return nil, asStoreError(ctx, "connect", err)
	}
	return conn, nil
}

// Export implements [store.Movable], in one transaction.
func (s *copier) Export(ctx context.Context, visit func(*store.Contents) error) error {
	conn, err := s.wholeConn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return asStoreError(ctx, "copy: begin", err)
	}
	parts := &store.Parts{Visit: visit}
	for _, export := range []func(context.Context, pgx.Tx, *store.Parts) error{
		s.exportModules, exportDeployments, exportSettings, exportServices, exportActors, exportRecords, exportLaps, exportBuckets, exportReminders, exportDeadLetters, exportEvents,
	} {
		if err := export(ctx, tx, parts); err != nil {
			return fmt.Errorf("copy: read: %w", err)
		}
	}
	return parts.End()
}

// collected calls put for each row that a statement returns.
func collected[T any](ctx context.Context, tx pgx.Tx, parts *store.Parts, statement string, scan pgx.RowToFunc[T], put func(*store.Contents, T)) error {
	rows, err := tx.Query(ctx, statement)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return err
		}
		size := 0
		for _, raw := range rows.RawValues() {
			size += len(raw)
		}
		if err := parts.Add(size, func(c *store.Contents) { put(c, v) }); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (s *copier) exportModules(ctx context.Context, tx pgx.Tx, parts *store.Parts) error {
	rows, err := tx.Query(ctx, `SELECT `+moduleColumns+` FROM greenroom_module ORDER BY app, digest`)
	if err != nil {
		return err
	}
	modules, err := pgx.CollectRows(rows, scanModule)
	if err != nil {
		return err
	}
	for _, m := range modules {
		wasm, err := s.modules.ModuleBytes(ctx, m.App, m.Digest)
		if err != nil {
			return err
		}
		if err := parts.Add(len(wasm), func(c *store.Contents) { c.Modules = append(c.Modules, store.ModuleBytes{Module: m, Wasm: wasm}) }); err != nil {
			return err
		}
	}
	return nil
}

func exportDeployments(ctx context.Context, tx pgx.Tx, parts *store.Parts) error {
	return collected(ctx, tx, parts, `SELECT `+deploymentColumns+` FROM greenroom_deployment AS d ORDER BY app, type, generation`, scanDeployment,
		func(c *store.Contents, d actor.Deployment) { c.Deployments = append(c.Deployments, d) })
}

func exportSettings(ctx context.Context, tx pgx.Tx, parts *store.Parts) error {
	return collected(ctx, tx, parts, `SELECT `+settingColumns+` FROM greenroom_setting ORDER BY app, kind, name`, scanSetting,
		func(c *store.Contents, v actor.Setting) { c.Settings = append(c.Settings, v) })
}

func exportServices(ctx context.Context, tx pgx.Tx, parts *store.Parts) error {
	var v actor.Service
	return each(ctx, tx, []any{&v.Actor.App, &v.Name, &v.Actor.Type, &v.Actor.ID, &v.ClaimedAt}, func() error {
		v.ClaimedAt = v.ClaimedAt.UTC()
		return parts.Add(len(v.Name), func(c *store.Contents) { c.Services = append(c.Services, v) })
	}, `SELECT app, name, type, id, claimed_at FROM greenroom_service ORDER BY app, name`)
}

func exportActors(ctx context.Context, tx pgx.Tx, parts *store.Parts) error {
	var k actor.Key
	var r storedRow
	return each(ctx, tx, append([]any{&k.App, &k.Type, &k.ID}, r.targets()...), func() error {
		row, fault := r.row()
		if fault != "" {
			return &store.DamagedError{Rows: []store.DamagedRow{{Key: k, Version: addressable(r.version), Detail: fault}}}
		}
		return parts.Add(len(row.State.Data), func(c *store.Contents) { c.Actors = append(c.Actors, store.ActorRow{Key: k, Row: row}) })
	}, `SELECT app, type, id, version, commit_id, life, deleted_at IS NOT NULL, generation, state_schema, format, state, updated_at, spawned, method_set, born_at
		FROM greenroom_actor ORDER BY app, type, id`)
}

func exportRecords(ctx context.Context, tx pgx.Tx, parts *store.Parts) error {
	return collected(ctx, tx, parts, `SELECT id, commit_id, expires_at, record FROM greenroom_idempotency ORDER BY id`,
		func(row pgx.CollectableRow) (r store.StoredRecord, err error) {
			var id, commit uuid
			err = row.Scan(&id, &commit, &r.ExpiresAt, &r.Value)
			r.ID, r.Commit, r.ExpiresAt = id, commit, r.ExpiresAt.UTC()
			return r, err
		}, func(c *store.Contents, r store.StoredRecord) { c.Records = append(c.Records, r) })
}

func exportLaps(ctx context.Context, tx pgx.Tx, parts *store.Parts) error {
	return collected(ctx, tx, parts, `SELECT app, prefix, vector, next FROM greenroom_lap ORDER BY app`,
		func(row pgx.CollectableRow) (l store.Lap, err error) {
			var vector string
			err = row.Scan(&l.App, &l.Prefix, &vector, &l.Next)
			copy(l.Vector[:], vector)
			return l, err
		}, func(c *store.Contents, l store.Lap) { c.Laps = append(c.Laps, l) })
}

func exportBuckets(ctx context.Context, tx pgx.Tx, parts *store.Parts) error {
	return collected(ctx, tx, parts, `SELECT `+bucketFields+` FROM greenroom_bucket ORDER BY prefix, vector, idx`, scanBucket,
		func(c *store.Contents, b actor.BucketRow) { c.Buckets = append(c.Buckets, b) })
}

func exportReminders(ctx context.Context, tx pgx.Tx, parts *store.Parts) error {
	var r scannedReminder
	return each(ctx, tx, append([]any{&r.paused}, r.targets()...), func() error {
		found, damage := r.reminder()
		if damage != "" {
			return &store.DamagedReminders{Reminders: []store.DamagedReminder{{ID: r.id(), Reason: damage}}}
		}
		return parts.Add(len(r.payload)+len(r.spec), func(c *store.Contents) { c.Reminders = append(c.Reminders, found) })
	}, `SELECT r.paused, `+reminderFields+` FROM greenroom_reminder AS r ORDER BY r.app, r.type, r.id, r.name`)
}

func exportDeadLetters(ctx context.Context, tx pgx.Tx, parts *store.Parts) error {
	var r scannedReminder
	var d actor.DeadLetter
	return each(ctx, tx, append([]any{&d.Reason, &d.FailedAt}, r.targets()...), func() error {
		var damage string
		if d.Reminder, damage = r.reminder(); damage != "" {
			return &store.DamagedReminders{Reminders: []store.DamagedReminder{{ID: r.id(), Reason: damage}}}
		}
		d.FailedAt = d.FailedAt.UTC()
		return parts.Add(len(r.payload)+len(r.spec), func(c *store.Contents) { c.DeadLetters = append(c.DeadLetters, d) })
	}, `SELECT r.reason, r.failed_at, `+reminderFields+` FROM greenroom_dead_reminder AS r ORDER BY r.prefix, r.vector, r.token, r.due`)
}

func exportEvents(ctx context.Context, tx pgx.Tx, parts *store.Parts) error {
	return collected(ctx, tx, parts, `SELECT app, type, id, version, idx, life, name, content_type, payload, created_at, COALESCE(link, '') FROM greenroom_event ORDER BY app, type, id, version, idx`,
		func(row pgx.CollectableRow) (e store.ActorEvent, err error) {
			var s scannedEvent
			err = row.Scan(append([]any{&e.Key.App, &e.Key.Type, &e.Key.ID}, s.targets()...)...)
			e.Event = s.event()
			return e, err
		}, func(c *store.Contents, e store.ActorEvent) { c.Events = append(c.Events, e) })
}

// hasContents tells a database in which something is.
const hasContents = `SELECT EXISTS (SELECT 1 FROM greenroom_actor) OR EXISTS (SELECT 1 FROM greenroom_module) OR EXISTS (SELECT 1 FROM greenroom_type)
	OR EXISTS (SELECT 1 FROM greenroom_deployment) OR EXISTS (SELECT 1 FROM greenroom_idempotency) OR EXISTS (SELECT 1 FROM greenroom_setting)
	OR EXISTS (SELECT 1 FROM greenroom_reminder) OR EXISTS (SELECT 1 FROM greenroom_dead_reminder) OR EXISTS (SELECT 1 FROM greenroom_lap)
	OR EXISTS (SELECT 1 FROM greenroom_bucket) OR EXISTS (SELECT 1 FROM greenroom_event)`

// Import implements [store.Movable]. It takes the database from others first and looks at
// it then, so that nobody comes in between.
func (s *copier) Import(ctx context.Context, fill func(add func(*store.Contents) error) error) error {
	conn, err := s.wholeConn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if err := turnVersion(ctx, conn, len(migrations), unfinishedVersion); err != nil {
		return err
	}
	if err := s.free(ctx, conn); err != nil {
		if back := turnVersion(context.WithoutCancel(ctx), conn, unfinishedVersion, len(migrations)); back != nil {
			s.log.WarnContext(ctx, "the database is left as one into which a copy was not finished", "error", back)
		}
		return err
	}
	if err := fill(func(c *store.Contents) error { return s.add(ctx, conn, c) }); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, `INSERT INTO greenroom_type (app, type, generation, digest)
		SELECT d.app, d.type, d.generation, d.digest FROM greenroom_deployment AS d
		JOIN (SELECT app, type, max(generation) AS generation FROM greenroom_deployment GROUP BY app, type) AS l
			ON l.app = d.app AND l.type = d.type AND l.generation = d.generation`); err != nil {
		return asStoreError(ctx, "copy: write", err)
	}
	return turnVersion(ctx, conn, unfinishedVersion, len(migrations))
}

// free returns an error if the database has something, or a host uses it.
func (s *copier) free(ctx context.Context, conn *pgx.Conn) error {
	var has bool
	if err := conn.QueryRow(ctx, hasContents).Scan(&has); err != nil {
		return asStoreError(ctx, "copy: look at the database", err)
	}
	if has {
		return store.ErrNotEmpty
	}
	return store.Unused(ctx, s.cluster)
}

func turnVersion(ctx context.Context, conn *pgx.Conn, from, to int) error {
	tag, err := conn.Exec(ctx, `UPDATE greenroom_schema SET version = $3 WHERE name = $1 AND version = $2`, schemaName, from, to)
	if err == nil && tag.RowsAffected() != 1 {
		return fmt.Errorf("the schema's version is not %d any more: another process changes the database", from)
	}
	return asStoreError(ctx, "copy: mark the database", err)
}

// add writes a part. A table is written by its own COPY.
func (s *copier) add(ctx context.Context, conn *pgx.Conn, c *store.Contents) error {
	for _, m := range c.Modules {
		if err := s.modules.PutModule(ctx, m.Module, bytes.NewReader(m.Wasm), 0); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, `UPDATE greenroom_module SET created_at = $3 WHERE app = $1 AND digest = $2`,
			m.Module.App, string(m.Module.Digest), m.Module.CreatedAt); err != nil {
			return asStoreError(ctx, "copy: write modules", err)
		}
	}
	for _, t := range []struct {
		table   string
		columns []string
		rows    [][]any
	}{
		{"greenroom_deployment", []string{"app", "type", "generation", "digest", "state_schema", "rolled_back_from", "deploy_id", "created_at", "message", "placement"},
			rowsFrom(c.Deployments, func(d *actor.Deployment) []any {
				return []any{d.App, d.Type, int64(d.Generation), string(d.Digest), int64(d.StateSchema), int64(d.RolledBackFrom), uuid(newUUID()), d.CreatedAt, d.Message, d.Placement}
			})},
		{"greenroom_setting", []string{"app", "kind", "name", "value", "updated_at"},
			rowsFrom(c.Settings, func(v *actor.Setting) []any {
				return []any{v.App, string(v.Kind), v.Name, notNull(v.Value), v.UpdatedAt}
			})},
		{"greenroom_service", []string{"app", "name", "type", "id", "claimed_at"},
			rowsFrom(c.Services, func(v *actor.Service) []any {
				return []any{v.Actor.App, v.Name, v.Actor.Type, v.Actor.ID, v.ClaimedAt}
			})},
		{"greenroom_actor", []string{"app", "type", "id", "version", "commit_id", "life", "deleted_at", "generation", "state_schema", "format", "state", "updated_at", "shard", "spawned", "method_set", "born_at"},
			rowsFrom(c.Actors, actorColumns)},
		{"greenroom_idempotency", []string{"id", "commit_id", "shard", "expires_at", "record"},
			rowsFrom(c.Records, func(r *store.StoredRecord) []any {
				return []any{uuid(r.ID), uuid(r.Commit), recordShard(s.dialect, r.ID), r.ExpiresAt, notNull(r.Value)}
			})},
		{"greenroom_lap", []string{"app", "prefix", "vector", "next"},
			rowsFrom(c.Laps, func(l *store.Lap) []any { return []any{l.App, int64(l.Prefix), l.Vector.String(), int64(l.Next)} })},
		{"greenroom_bucket", []string{"prefix", "vector", "idx", "app", "creator", "owner", "epoch", "used", "delivered_till", "created_at", "closed_at", "rate"},
			rowsFrom(c.Buckets, bucketColumns)},
		{"greenroom_reminder", append(reminderNames(), "updated_at", "written", "bucket", "paused"),
			rowsFrom(c.Reminders, func(r *actor.Reminder) []any {
				return append(reminderValues(r), r.UpdatedAt, int16(0), int64(r.ID.Bucket().Index), r.Paused)
			})},
		{"greenroom_dead_reminder", append(reminderNames(), "updated_at", "reason", "failed_at"),
			rowsFrom(c.DeadLetters, func(d *actor.DeadLetter) []any {
				return append(reminderValues(&d.Reminder), d.Reminder.UpdatedAt, d.Reason, d.FailedAt)
			})},
		{"greenroom_event", []string{"app", "type", "id", "version", "idx", "life", "name", "content_type", "payload", "created_at", "link"},
			rowsFrom(c.Events, func(e *store.ActorEvent) []any {
				var link *string
				if e.Link != (actor.SpanLink{}) {
					text := e.Link.String()
					link = &text
				}
				return []any{e.Key.App, e.Key.Type, e.Key.ID, int64(e.Position.Version), int64(e.Position.Index), int64(e.Life), e.Name, e.Payload.ContentType, notNull(e.Payload.Data), e.At, link}
			})},
	} {
		if len(t.rows) == 0 {
			continue
		}
		if _, err := conn.CopyFrom(ctx, pgx.Identifier{t.table}, t.columns, pgx.CopyFromRows(t.rows)); err != nil {
			return asStoreError(ctx, "copy: write "+t.table, err)
		}
	}
	return nil
}

func rowsFrom[T any](list []T, row func(*T) []any) [][]any {
	rows := make([][]any, len(list))
	for i := range list {
		rows[i] = row(&list[i])
	}
	return rows
}

func actorColumns(a *store.ActorRow) []any {
	r := &a.Row
	var deleted *time.Time
	if r.Deleted {
		from := r.UpdatedAt
		if r.Spawned {
			from = from.Add(actor.SpawnedRetention)
		}
		deleted = &from
	}
	var state []byte
	if r.State.Format != actor.FormatNone {
		state = notNull(r.State.Data)
	}
	var born *time.Time
	if !r.Born.IsZero() {
		born = &r.Born
	}
	return []any{
		a.Key.App, a.Key.Type, a.Key.ID, int64(r.Version), uuid(r.CommitID), int64(r.Life), deleted,
		int64(r.Generation), int64(r.StateSchema), int16(r.State.Format), state, r.UpdatedAt, shardOf(a.Key), r.Spawned, r.MethodSet, born,
	}
}

func bucketColumns(b *actor.BucketRow) []any {
	var till *int64
	if !b.DeliveredTill.IsZero() {
		micros := b.DeliveredTill.UnixMicro()
		till = &micros
	}
	var closed *time.Time
	if b.Closed {
		closed = &b.ClosedAt
	}
	return []any{
		int64(b.Bucket.Prefix), b.Bucket.Vector.String(), int64(b.Bucket.Index), b.App, string(b.Creator), string(b.Owner),
		int64(b.Epoch), int64(b.Used), till, b.CreatedAt, closed, int64(b.Rate),
	}
}

// reminderNames are the columns that reminders and dead letters have in common, and
// reminderValues what is in them.
func reminderNames() []string {
	return []string{
		"app", "type", "id", "name", "prefix", "vector", "token", "version", "spec", "content_type", "payload",
		"due", "fire_at", "remaining", "failures", "last_error", "created_at",
	}
}

func reminderValues(r *actor.Reminder) []any {
	return []any{
		r.Key.App, r.Key.Type, r.Key.ID, r.Name, int64(r.ID.Prefix), r.ID.Vector.String(), int64(r.ID.Token), int64(r.Version),
		specText(r), r.Payload.ContentType, notNull(r.Payload.Data),
		r.Due.UnixMicro(), r.FireAt.UnixMicro(), int64(r.Left), int64(r.Failures), r.LastError, r.CreatedAt,
	}
}
