package sqlstore

import (
	"github.com/jackc/pgx/v5"

	"github.com/greenroom-run/greenroom/actor"
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
	deleted_at = CASE WHEN c.what = 2 OR c.what = 3 AND a.deleted_at IS NOT NULL
		THEN clock_timestamp() + CASE WHEN a.spawned THEN interval '24 hours' ELSE interval '0' END END,
	updated_at = clock_timestamp()`

const updateFrom = `
FROM unnest($1::text[], $2::text[], $3::text[], $4::int8[], $5::int8[], $6::uuid[], $7::int8[], $8::int8[], $9::int2[], $10::bytea[], $11::int2[])
	AS c (app, type, id, read_version, new_version, commit_id, generation, state_schema, format, state, what)`

const updateFenced = `
WHERE a.app = c.app AND a.type = c.type AND a.id = c.id AND a.version = c.read_version
	AND (c.what IN (1, 2) OR ` + soundRow + `)`

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
			state = notNull(r.State.Data)
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
