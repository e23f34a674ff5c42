package sqlstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

const (
	// maxGroupRows is where a larger statement stops being cheaper per row.
	maxGroupRows = 256
	// maxGroupBytes stays far below CockroachDB's 16 MiB for one message.
	maxGroupBytes = 4 << 20
)

// What a commit does to the state of its row.
const (
	keepState int16 = iota
	setState
	deleteState
	moveVersion // and nothing else
)

// updateGroup is the plain conditional write of rows that exist. Rows whose version has moved
// on do not match and are not returned. commit_id, 16 bytes a row, is all that it returns:
// CockroachDB retries a statement itself only while its result is small.
//
// A tombstone has no state and format 0, so that keeping its state is reviving
// it without any.
const updateGroup = updateRows + updateFrom + updateFenced + ` RETURNING a.commit_id`

// updateOne is updateGroup for a group of one commit that sets a state, which is
// what an idle host sends. Without the join it costs PostgreSQL a third less.
const updateOne = `UPDATE greenroom_actor SET
	version = $5, commit_id = $6, generation = $7, state_schema = $8, format = $9, state = $10, deleted_at = NULL, updated_at = clock_timestamp()
WHERE app = $1 AND type = $2 AND id = $3 AND version = $4 RETURNING commit_id`

const updateRows = `UPDATE greenroom_actor AS a SET
	version = c.new_version, commit_id = c.commit_id,
	generation = CASE c.what WHEN 3 THEN a.generation ELSE c.generation END,
	state_schema = CASE c.what WHEN 3 THEN a.state_schema ELSE c.state_schema END,
	format = CASE c.what WHEN 1 THEN c.format WHEN 2 THEN 0 ELSE a.format END,
	state = CASE c.what WHEN 1 THEN c.state WHEN 2 THEN NULL ELSE a.state END,
	deleted_at = CASE WHEN c.what = 2 OR c.what = 3 AND a.deleted_at IS NOT NULL THEN clock_timestamp() END,
	updated_at = clock_timestamp()`

const updateFrom = `
FROM unnest($1::text[], $2::text[], $3::text[], $4::int8[], $5::int8[], $6::uuid[], $7::int8[], $8::int8[], $9::int2[], $10::bytea[], $11::int2[])
	AS c (app, type, id, read_version, new_version, commit_id, generation, state_schema, format, state, what)`

const updateFenced = `
WHERE a.app = c.app AND a.type = c.type AND a.id = c.id AND a.version = c.read_version
	AND (c.what IN (1, 2) OR ` + soundRow + `)`

// soundRow is the condition that every row that this package wrote meets. A commit that keeps
// the state of a row that does not meet the condition is refused.
const soundRow = `(a.version > 0 AND a.format BETWEEN 0 AND 2 AND (a.state IS NULL) = (a.format = 0)
	AND a.life >= 0 AND a.generation >= 0 AND a.state_schema BETWEEN 0 AND 4294967295)`

// insertGroup writes rows that must not exist, tombstones included.
const insertGroup = `INSERT INTO greenroom_actor
	(app, type, id, version, commit_id, generation, state_schema, format, state, deleted_at, updated_at, shard)
SELECT c.app, c.type, c.id, c.new_version, c.commit_id, c.generation, c.state_schema, c.format, c.state,
	CASE WHEN c.what >= 2 THEN clock_timestamp() END, clock_timestamp(), c.shard
FROM unnest($1::text[], $2::text[], $3::text[], $4::int8[], $5::uuid[], $6::int8[], $7::int8[], $8::int2[], $9::bytea[], $10::int2[], $11::int2[])
	AS c (app, type, id, new_version, commit_id, generation, state_schema, format, state, what, shard)
ON CONFLICT (app, type, id) DO NOTHING RETURNING commit_id`

// columns are the rows of one statement, turned on their side. All are of one kind,
// updates or inserts.
type columns struct {
	apps, types, ids          texts
	readVersions, newVersions int8s
	generations, schemas      int8s
	commitIDs                 uuids
	formats, whats, shards    int2s
	states                    byteas
}

// reset empties the columns, and keeps their memory.
func (k *columns) reset() {
	clear(k.apps)
	clear(k.types)
	clear(k.ids)
	clear(k.states)
	*k = columns{
		apps: k.apps[:0], types: k.types[:0], ids: k.ids[:0], readVersions: k.readVersions[:0], newVersions: k.newVersions[:0],
		generations: k.generations[:0], schemas: k.schemas[:0], commitIDs: k.commitIDs[:0],
		formats: k.formats[:0], whats: k.whats[:0], shards: k.shards[:0], states: k.states[:0],
	}
}

// addInsert adds a row that a commit inserts.
func (k *columns) addInsert(id actor.CommitID, r *actor.RowWrite) {
	k.add(id, r)
	k.shards = append(k.shards, shardOf(r.Key))
}

// add adds what a commit does to a row.
func (k *columns) add(id actor.CommitID, r *actor.RowWrite) {
	what, format, state := whatOf(r), actor.FormatNone, []byte(nil)
	generation, schema := int64(r.Generation), int64(r.StateSchema)
	switch what {
	case moveVersion:
		generation, schema = 0, 0
	case setState:
		format = r.State.Format
		if format != actor.FormatNone {
			state = r.State.Data
			if state == nil {
				state = []byte{} // nil would be NULL
			}
		}
	}
	k.apps = append(k.apps, r.Key.App)
	k.types = append(k.types, r.Key.Type)
	k.ids = append(k.ids, r.Key.ID)
	k.readVersions = append(k.readVersions, int64(r.ReadVersion))
	k.newVersions = append(k.newVersions, int64(r.NewVersion))
	k.commitIDs = append(k.commitIDs, uuid(id))
	k.generations = append(k.generations, generation)
	k.schemas = append(k.schemas, schema)
	k.formats = append(k.formats, int16(format))
	k.states = append(k.states, state)
	k.whats = append(k.whats, what)
}

// whatOf returns what a write does to the state of a row.
func whatOf(r *actor.RowWrite) int16 {
	switch {
	case r.Delete:
		return deleteState
	case r.Bump:
		return moveVersion
	case r.State != nil:
		return setState
	}
	return keepState
}

// groupParts are the commits of a group, each where its statement is made from:
// those of one row and nothing else, those that beside that only remove or only set
// reminders, and the others. [newGroupParts] makes them.
type groupParts struct {
	updates, inserts        columns
	removals, sets, changes changes
}

func newGroupParts(d dialect) *groupParts {
	empty := changes{records: records{dialect: d}}
	return &groupParts{removals: empty, sets: empty, changes: empty}
}

// reset empties everything, and keeps the memory.
func (g *groupParts) reset() {
	g.updates.reset()
	g.inserts.reset()
	g.removals.reset()
	g.sets.reset()
	g.changes.reset()
}

// queueGroup adds the statements for a group to a batch and returns how many of them,
// from the first on, say what held. They are made in the memory of g, which is empty, and the caller's to
// use again when they were sent.
func queueGroup(b *pgx.Batch, commits []*actor.Commit, g *groupParts) int {
	for _, c := range commits {
		switch {
		case removesReminders(c):
			g.removals.add(c)
		case setsReminders(c):
			g.sets.add(c)
		case !c.OneRow() || c.Rows[0].Delete: // an actor that is deleted may have reminders
			g.changes.add(c)
		case c.Rows[0].ReadVersion == 0:
			g.inserts.addInsert(c.ID, &c.Rows[0])
		default:
			g.updates.add(c.ID, &c.Rows[0])
		}
	}
	g.updates.queueUpdate(b)
	g.inserts.queueInsert(b)
	g.removals.queue(b, writeCommitsAndRemovals)
	g.sets.queue(b, writeCommitsAndSets)
	g.changes.queue(b, writeCommitsAndReminders)
	queries := b.Len()
	g.changes.reminders.queueRemovals(b)
	return queries
}

// leading returns apps, with room for all columns of an update and so many bytes.
func (k *columns) leading(more int) leading {
	total := more
	for _, c := range [...]column{k.apps, k.types, k.ids, k.readVersions, k.newVersions, k.commitIDs, k.generations, k.schemas, k.formats, k.states, k.whats} {
		total += arraySize(c)
	}
	return leading{k.apps, total}
}

func (k *columns) queueUpdate(b *pgx.Batch) {
	switch {
	case len(k.ids) == 0:
	case len(k.ids) == 1 && k.whats[0] == setState:
		b.Queue(updateOne, k.apps[0], k.types[0], k.ids[0], k.readVersions[0], k.newVersions[0], k.commitIDs[0],
			k.generations[0], k.schemas[0], k.formats[0], k.states[0])
	default:
		b.Queue(updateGroup, k.leading(0), k.types, k.ids, k.readVersions, k.newVersions, k.commitIDs, k.generations, k.schemas, k.formats, k.states, k.whats)
	}
}

func (k *columns) queueInsert(b *pgx.Batch) {
	if len(k.ids) > 0 {
		b.Queue(insertGroup, k.apps, k.types, k.ids, k.newVersions, k.commitIDs, k.generations, k.schemas, k.formats, k.states, k.whats, k.shards)
	}
}

// removePlaced removes the rows that held the places of actors without one.
const removePlaced = `DELETE FROM greenroom_actor AS a USING unnest($1::text[], $2::text[], $3::text[], $4::uuid[]) AS c (app, type, id, commit_id)
WHERE a.app = c.app AND a.type = c.type AND a.id = c.id AND a.commit_id = c.commit_id`

func (k *columns) queueRemove(b *pgx.Batch) {
	if len(k.ids) > 0 {
		b.Queue(removePlaced, k.apps, k.types, k.ids, k.commitIDs)
	}
}

// sendGroup writes a group in one batch up to one Sync, which both databases run
// as one implicit transaction, and returns the IDs of the commits that held. Only
// a nil error means that they are durable: the server may fail the transaction
// after the last result, at Sync.
//
// The caller's context is for getting a connection. After that, the group runs
// to its end: giving up half-way would save nothing, and would leave every
// outcome to be settled.
func (s *Store) sendGroup(ctx context.Context, commits []*actor.Commit) (idSet, error) {
	conn, err := s.commits.Acquire(ctx)
	if err != nil {
		return nil, &notSentError{err}
	}
	defer conn.Release()
	// Twice the server's own limit, so that the server is the one to give up,
	// and says that it did; this one is for a server that says nothing.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*s.cfg.StatementTimeout)
	defer cancel()

	var b pgx.Batch
	parts := s.parts.Get().(*groupParts)
	defer func() {
		parts.reset()
		s.parts.Put(parts)
	}()
	queries := queueGroup(&b, commits, parts)
	held := make(idSet, len(commits))
	err = sendUnit(ctx, conn.Conn(), &b, func(statement int, values [][]byte) error {
		if statement < queries {
			return held.add(values[0])
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return held, nil
}

// idSet is a set of commits.
type idSet map[actor.CommitID]struct{}

// add adds an ID as a statement returns it.
func (s idSet) add(id []byte) error {
	if len(id) != len(actor.CommitID{}) {
		return fmt.Errorf("a commit ID came back in %d bytes", len(id))
	}
	s[actor.CommitID(id)] = struct{}{}
	return nil
}

// notSentError is a failure before anything went to the server.
type notSentError struct{ cause error }

func (e *notSentError) Error() string { return e.cause.Error() }
func (e *notSentError) Unwrap() error { return e.cause }

// splitGroup cuts sorted attempts into groups within the limits of rows and
// bytes. A commit above a limit goes alone.
func splitGroup(all []*attempt) [][]*attempt {
	var groups [][]*attempt
	start, rows, bytes := 0, 0, 0
	for i, a := range all {
		more, size := max(1, rowsOf(a.commit)), commitBytes(a.commit)
		if i > start && (rows+more > maxGroupRows || bytes+size > maxGroupBytes) {
			groups = append(groups, all[start:i])
			start, rows, bytes = i, 0, 0
		}
		rows += more
		bytes += size
	}
	if start < len(all) {
		groups = append(groups, all[start:])
	}
	return groups
}

// commitBytes is what a commit takes in a message.
func commitBytes(c *actor.Commit) int {
	const fixed = 128 // columns of a row or of a record
	n := 0
	for i := range c.Rows {
		r := &c.Rows[i]
		n += keyBytes(&r.Key) + fixed
		if r.State != nil {
			n += len(r.State.Data)
		}
	}
	for i := range c.Fences {
		n += keyBytes(&c.Fences[i].Key) + fixed
	}
	for i := range c.Records {
		n += fixed + store.RecordSize(&c.Records[i])
	}
	e := &c.Reminders
	n += 5 * fixed * (len(e.Steps) + len(e.Cancel) + len(e.Set))
	for i := range e.Set {
		n += 4*fixed + len(e.Set[i].Payload.Data)
	}
	return n
}

func keyBytes(k *actor.Key) int { return len(k.App) + len(k.Type) + len(k.ID) }
