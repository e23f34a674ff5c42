package sqlstore

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// How the last commit wrote a reminder's row; the column written. A row that is to be
// removed is marked by the statement that decides, which can write a table once only,
// and removed by the next one of the same transaction.
const (
	reminderStepped int16 = iota
	reminderRemoved
	reminderSet
	reminderSetIfAbsent
)

// checkSteps are the clauses of [writeCommitsAndReminders] that decide about steps: unmet are
// the commits that have a recorded key or a reminder that has been stepped on.
const checkSteps = `
), due AS MATERIALIZED (
	SELECT s.n FROM unnest($27::uuid[], $28::int8[], $29::text[], $30::text[], $31::text[], $32::text[], $33::int8[], $34::text[], $35::int8[], $36::int8[])
		AS s (commit_id, n, app, type, id, name, prefix, vector, token, version)
	JOIN greenroom_reminder AS r ON r.app = s.app AND r.type = s.type AND r.id = s.id AND r.name = s.name
		AND r.prefix = s.prefix AND r.vector = s.vector AND r.token = s.token AND r.version = s.version
	FOR UPDATE OF r
), unmet AS MATERIALIZED (
	SELECT t.commit_id FROM taken AS t
	UNION ALL SELECT s.commit_id FROM unnest($27::uuid[], $28::int8[]) AS s (commit_id, n) WHERE s.n <> ALL (ARRAY(SELECT d.n FROM due AS d))`

// writeReminders is the clause of [writeCommitsAndReminders] that writes reminders: one write
// of one table, whatever happens to the reminders.
const writeReminders = `, buried AS (
	INSERT INTO greenroom_dead_reminder (prefix, vector, token, due, app, type, id, name, version, spec, content_type, payload,
		fire_at, remaining, failures, last_error, created_at, updated_at, reason, failed_at)
	SELECT r.prefix, r.vector, r.token, c.due, r.app, r.type, r.id, r.name, r.version, r.spec, r.content_type, r.payload,
		r.fire_at, r.remaining, c.failures, r.last_error, r.created_at, r.updated_at, c.reason, clock_timestamp()
	FROM unnest($37::uuid[], $38::text[], $39::text[], $40::text[], $41::text[], $42::text[], $65::int8[], $66::int8[])
		AS c (commit_id, app, type, id, name, reason, due, failures)
	JOIN greenroom_reminder AS r ON r.app = c.app AND r.type = c.type AND r.id = c.id AND r.name = c.name
	WHERE (c.commit_id IN (SELECT h.commit_id FROM held AS h)) IS TRUE
	ON CONFLICT DO NOTHING
	RETURNING token
), reminded AS (
	INSERT INTO greenroom_reminder AS r (app, type, id, name, written, prefix, vector, token, bucket, version, spec, content_type, payload,
		due, fire_at, remaining, failures, paused, last_error, created_at, updated_at)
	SELECT c.app, c.type, c.id, c.name, c.written, c.prefix, c.vector, c.token, div(c.token, 100000)::int8, 1, c.spec, c.content_type, c.payload,
		c.due, c.fire_at, c.remaining, c.failures, c.paused = 1, c.last_error, clock_timestamp(), clock_timestamp()
	FROM unnest($43::uuid[], $44::text[], $45::text[], $46::text[], $47::text[], $48::int2[], $49::int8[], $50::text[], $51::int8[],
		$52::text[], $53::text[], $54::bytea[], $55::int8[], $56::int8[], $57::int8[], $58::int8[], $59::int2[], $60::text[])
		AS c (commit_id, app, type, id, name, written, prefix, vector, token, spec, content_type, payload, due, fire_at, remaining, failures, paused, last_error)
	WHERE (c.commit_id IN (SELECT h.commit_id FROM held AS h)) IS TRUE
		AND (c.written >= 2 OR EXISTS (SELECT 1 FROM greenroom_reminder AS o WHERE o.app = c.app AND o.type = c.type AND o.id = c.id AND o.name = c.name))
	UNION ALL
	SELECT o.app, o.type, o.id, o.name, 1, o.prefix, o.vector, o.token, o.bucket, o.version, o.spec, o.content_type, o.payload,
		o.due, o.fire_at, o.remaining, o.failures, o.paused, o.last_error, o.created_at, o.updated_at
	FROM unnest($61::uuid[], $62::text[], $63::text[], $64::text[], $67::text[]) AS d (commit_id, app, type, id, name)
	JOIN greenroom_reminder AS o ON o.app = d.app AND o.type = d.type AND o.id = d.id AND o.name >= d.name
	WHERE (d.commit_id IN (SELECT h.commit_id FROM held AS h)) IS TRUE
	ON CONFLICT (app, type, id, name) DO UPDATE SET
		written = excluded.written,
		prefix = CASE WHEN excluded.written >= 2 THEN excluded.prefix ELSE r.prefix END,
		vector = CASE WHEN excluded.written >= 2 THEN excluded.vector ELSE r.vector END,
		token = CASE WHEN excluded.written >= 2 THEN excluded.token ELSE r.token END,
		bucket = CASE WHEN excluded.written >= 2 THEN excluded.bucket ELSE r.bucket END,
		version = CASE WHEN excluded.written >= 2 THEN 1 ELSE r.version + 1 END,
		spec = CASE WHEN excluded.written >= 2 THEN excluded.spec ELSE r.spec END,
		content_type = CASE WHEN excluded.written >= 2 THEN excluded.content_type ELSE r.content_type END,
		payload = CASE WHEN excluded.written >= 2 THEN excluded.payload ELSE r.payload END,
		created_at = CASE WHEN excluded.written >= 2 THEN excluded.created_at ELSE r.created_at END,
		due = excluded.due, remaining = excluded.remaining, failures = excluded.failures,
		fire_at = CASE WHEN excluded.written = 1 THEN r.fire_at ELSE excluded.fire_at END,
		paused = CASE WHEN excluded.written = 1 THEN r.paused ELSE excluded.paused END, last_error = excluded.last_error, updated_at = excluded.updated_at
	WHERE excluded.written <> 3
	RETURNING token
)`

// removeAtOnce is writeReminders for commits that do no more to reminders than to remove
// them, as firings of those that fire once: it removes them itself, which is much less than
// to mark them first.
const removeAtOnce = `, removed AS (
	DELETE FROM greenroom_reminder AS r USING unnest($37::uuid[], $38::text[], $39::text[], $40::text[], $41::text[])
		AS c (commit_id, app, type, id, name)
	WHERE r.app = c.app AND r.type = c.type AND r.id = c.id AND r.name = c.name
		AND (c.commit_id IN (SELECT h.commit_id FROM held AS h)) IS TRUE
	RETURNING r.token
)`

// setAtOnce is writeReminders for commits that do no more to reminders than to set them: a
// reminder of that name is replaced, or kept, and nothing of it goes on.
const setAtOnce = `, reminded AS (
	INSERT INTO greenroom_reminder AS r (app, type, id, name, written, prefix, vector, token, bucket, version, spec, content_type, payload,
		due, fire_at, remaining, failures, paused, last_error, created_at, updated_at)
	SELECT c.app, c.type, c.id, c.name, c.written, c.prefix, c.vector, c.token, div(c.token, 100000)::int8, 1, c.spec, c.content_type, c.payload,
		c.due, c.fire_at, c.remaining, c.failures, c.paused = 1, c.last_error, clock_timestamp(), clock_timestamp()
	FROM unnest($27::uuid[], $28::text[], $29::text[], $30::text[], $31::text[], $32::int2[], $33::int8[], $34::text[], $35::int8[],
		$36::text[], $37::text[], $38::bytea[], $39::int8[], $40::int8[], $41::int8[], $42::int8[], $43::int2[], $44::text[])
		AS c (commit_id, app, type, id, name, written, prefix, vector, token, spec, content_type, payload, due, fire_at, remaining, failures, paused, last_error)
	WHERE (c.commit_id IN (SELECT h.commit_id FROM held AS h)) IS TRUE
	ON CONFLICT (app, type, id, name) DO UPDATE SET
		written = excluded.written, prefix = excluded.prefix, vector = excluded.vector, token = excluded.token, bucket = excluded.bucket,
		version = 1, spec = excluded.spec, content_type = excluded.content_type, payload = excluded.payload,
		due = excluded.due, fire_at = excluded.fire_at, remaining = excluded.remaining, failures = excluded.failures,
		paused = excluded.paused, last_error = excluded.last_error, created_at = excluded.created_at, updated_at = excluded.updated_at
	WHERE excluded.written <> 3
	RETURNING r.token
)`

// removeReminders removes what writeReminders has marked, by name and by actor.
const removeReminders = `DELETE FROM greenroom_reminder AS r USING unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS c (app, type, id, name)
WHERE r.app = c.app AND r.type = c.type AND r.id = c.id AND r.name = c.name AND r.written = 1`

const removeRemindersOf = `DELETE FROM greenroom_reminder AS r USING unnest($1::text[], $2::text[], $3::text[]) AS c (app, type, id)
WHERE r.app = c.app AND r.type = c.type AND r.id = c.id AND r.written = 1`

// reminderColumns name reminders, turned on their side.
type reminderColumns struct {
	commitIDs              uuids
	apps, types, ids, name texts
}

func (k *reminderColumns) add(c *actor.Commit, n actor.ReminderName) {
	k.commitIDs = append(k.commitIDs, uuid(c.ID))
	k.apps, k.types, k.ids, k.name = append(k.apps, n.Key.App), append(k.types, n.Key.Type), append(k.ids, n.Key.ID), append(k.name, n.Name)
}

// tokenColumns are reminder IDs, turned on their side.
type tokenColumns struct {
	prefixes int8s
	vectors  texts
	tokens   int8s
}

func (k *tokenColumns) add(id actor.ReminderID) {
	vector := ""
	if id.Prefix != 0 { // otherwise it has no vector
		vector = id.Vector.String()
	}
	k.prefixes, k.vectors, k.tokens = append(k.prefixes, int64(id.Prefix)), append(k.vectors, vector), append(k.tokens, int64(id.Token))
}

// reminderEffects is what the commits of a group do to reminders.
type reminderEffects struct {
	steps struct {
		reminderColumns
		tokenColumns
		ns, versions int8s
	}
	dead struct {
		reminderColumns
		reasons       texts
		due, failures int8s
	}
	rows struct {
		reminderColumns
		tokenColumns
		written, paused                  int2s
		specs, contentTypes, lastErrors  texts
		payloads                         byteas
		due, fireAt, remaining, failures int8s
	}
	removed reminderColumns
	deleted reminderColumns // actors, and from which name on their reminders go
}

func (e *reminderEffects) reset() { *e = reminderEffects{} }

func (e *reminderEffects) empty() bool {
	return len(e.steps.ns)+len(e.rows.written)+len(e.removed.apps)+len(e.deleted.apps) == 0
}

// removesReminders reports whether all that a commit does to reminders is to remove some, by
// name, and it does that.
func removesReminders(c *actor.Commit) bool {
	e := &c.Reminders
	if len(e.Set) > 0 || len(e.Steps)+len(e.Cancel) == 0 {
		return false
	}
	for i := range e.Steps {
		if s := &e.Steps[i]; s.Then != nil || s.DeadLetter != nil {
			return false
		}
	}
	return !slices.ContainsFunc(c.Rows, func(r actor.RowWrite) bool { return r.Delete })
}

// setsReminders reports whether all that a commit does to reminders is to set some, and it
// does that.
func setsReminders(c *actor.Commit) bool {
	e := &c.Reminders
	return len(e.Set) > 0 && len(e.Steps)+len(e.Cancel) == 0 && !slices.ContainsFunc(c.Rows, func(r actor.RowWrite) bool { return r.Delete })
}

func (e *reminderEffects) add(c *actor.Commit) {
	for i := range c.Rows {
		if c.Rows[i].Delete {
			from := ""
			if c.Rows[i].NewLife {
				from = actor.MessageNamesEnd
			}
			e.deleted.add(c, actor.ReminderName{Key: c.Rows[i].Key, Name: from})
		}
	}
	onlyRemoves := removesReminders(c)
	for _, op := range store.ReminderOps(c) {
		if s := op.Step; s != nil {
			e.steps.reminderColumns.add(c, s.ReminderName)
			e.steps.tokenColumns.add(s.ID)
			e.steps.ns = append(e.steps.ns, int64(len(e.steps.ns)))
			e.steps.versions = append(e.steps.versions, int64(s.Version))
			if d := s.DeadLetter; d != nil {
				e.dead.add(c, s.ReminderName)
				e.dead.reasons = append(e.dead.reasons, d.Reason)
				e.dead.due, e.dead.failures = append(e.dead.due, d.Due.UnixMicro()), append(e.dead.failures, int64(d.Failures))
			}
		}
		switch {
		case onlyRemoves:
			e.removed.add(c, op.ReminderName)
		case !op.Deleted:
			e.write(c, &op)
		}
	}
}

// specText is the column spec.
func specText(r *actor.Reminder) string {
	text, err := json.Marshal(store.SpecRecordOf(&r.ReminderSpec))
	if err != nil {
		panic(err) // there is nothing in it that JSON has no place for
	}
	return string(text)
}

// write adds the row of one reminder. What a statement has no use for is of any value
// that the table takes.
func (e *reminderEffects) write(c *actor.Commit, op *store.ReminderOp) {
	var r actor.Reminder
	spec, written := "{}", reminderRemoved
	switch {
	case op.Set != nil:
		r, written = *op.Set, reminderSet
		if op.IfAbsent {
			written = reminderSetIfAbsent
		}
		spec = specText(&r)
	case op.Then != nil:
		r.ReminderProgress, written = *op.Then, reminderStepped
	}
	if written == reminderRemoved {
		e.removed.add(c, op.ReminderName)
	}
	k := &e.rows
	k.reminderColumns.add(c, op.ReminderName)
	k.tokenColumns.add(r.ID)
	paused := int16(0)
	if r.Paused {
		paused = 1
	}
	k.written, k.paused = append(k.written, written), append(k.paused, paused)
	k.specs, k.contentTypes, k.lastErrors = append(k.specs, spec), append(k.contentTypes, r.Payload.ContentType), append(k.lastErrors, r.LastError)
	k.payloads = append(k.payloads, notNull(r.Payload.Data))
	k.due, k.fireAt = append(k.due, r.Due.UnixMicro()), append(k.fireAt, r.FireAt.UnixMicro())
	k.remaining, k.failures = append(k.remaining, int64(r.Left)), append(k.failures, int64(r.Failures))
}

// stepColumns are the parameters of checkSteps, in their order.
func (e *reminderEffects) stepColumns() []column {
	s := &e.steps
	return []column{s.commitIDs, s.ns, s.apps, s.types, s.ids, s.name, s.prefixes, s.vectors, s.tokens, s.versions}
}

// rowColumns are those of setAtOnce.
func (e *reminderEffects) rowColumns() []column {
	r := &e.rows
	return []column{r.commitIDs, r.apps, r.types, r.ids, r.name, r.written, r.prefixes, r.vectors, r.tokens,
		r.specs, r.contentTypes, r.payloads, r.due, r.fireAt, r.remaining, r.failures, r.paused, r.lastErrors}
}

// removalColumns are those of checkSteps and removeAtOnce.
func (e *reminderEffects) removalColumns() []column {
	k := &e.removed
	return append(e.stepColumns(), k.commitIDs, k.apps, k.types, k.ids, k.name)
}

// columns are those of checkSteps and writeReminders.
func (e *reminderEffects) columns() []column {
	d, x := &e.dead, &e.deleted
	all := append(e.stepColumns(), d.commitIDs, d.apps, d.types, d.ids, d.name, d.reasons)
	return append(append(all, e.rowColumns()...), x.commitIDs, x.apps, x.types, x.ids, d.due, d.failures, x.name)
}

// queueRemovals adds the statements that remove what was marked.
func (e *reminderEffects) queueRemovals(b *pgx.Batch) {
	if k := &e.removed; len(k.apps) > 0 {
		b.Queue(removeReminders, k.apps, k.types, k.ids, k.name)
	}
	if k := &e.deleted; len(k.apps) > 0 {
		b.Queue(removeRemindersOf, k.apps, k.types, k.ids)
	}
}

// metSteps returns the places of the steps whose reminders are at their versions.
const metSteps = `SELECT s.n FROM unnest($1::int8[], $2::text[], $3::text[], $4::text[], $5::text[], $6::int8[], $7::text[], $8::int8[], $9::int8[])
	AS s (n, app, type, id, name, prefix, vector, token, version)
JOIN greenroom_reminder AS r ON r.app = s.app AND r.type = s.type AND r.id = s.id AND r.name = s.name
	AND r.prefix = s.prefix AND r.vector = s.vector AND r.token = s.token AND r.version = s.version`

// stepsTaken returns the commits with a step of a reminder that is not at its version.
func stepsTaken(ctx context.Context, q querier, commits []*actor.Commit) (map[actor.CommitID]bool, error) {
	var e reminderEffects
	for _, c := range commits {
		if len(c.Reminders.Steps) > 0 {
			e.add(c)
		}
	}
	s := &e.steps
	if len(s.ns) == 0 {
		return nil, nil
	}
	taken := make(map[actor.CommitID]bool)
	met := make(map[int64]bool)
	var n int64
	if err := each(ctx, q, []any{&n}, func() error {
		met[n] = true
		return nil
	}, metSteps, s.ns, s.apps, s.types, s.ids, s.name, s.prefixes, s.vectors, s.tokens, s.versions); err != nil {
		return nil, err
	}
	for i, id := range s.commitIDs {
		if !met[int64(i)] {
			taken[actor.CommitID(id)] = true
		}
	}
	return taken, nil
}
