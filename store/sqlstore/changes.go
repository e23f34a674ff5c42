package sqlstore

import (
	"github.com/jackc/pgx/v5"

	"github.com/greenroom-run/greenroom/actor"
)

// writeCommits decides and writes all commits of a group that are more than one row to write.
// It has three parts; a new kind of effect changes only the last one:
//
//   - What is fenced. fenced locks the rows that are only to be as they were read,
//     and all rows of sets, so that on PostgreSQL at READ COMMITTED nothing comes
//     between deciding and writing; kept are the commits whose rows of these kinds
//     are all there, and whose keys are not recorded.
//   - The rows. A commit of one row is decided by the UPDATE itself, which takes
//     less than half of locking it first; a set is written if it was kept.
//   - The effects, each kind by one clause that writes one table and joins held,
//     the commits that hold.
//
// It returns held: the ID of its commit for each row that was written, and for each
// commit that writes none.
//
// What has no commit in a group costs it nothing: the clauses of reminders are left out
// of the statement of a group without any.
const writeCommits = decideHead + decideTaken + writeRecords + writeTail

// writeCommitsAndReminders is writeCommits for a group with steps, cancellations and
// sets of reminders, or with actors to delete, whose reminders go with them.
const writeCommitsAndReminders = decideHead + checkSteps + decideUnmet + writeRecords + writeReminders + writeTail

// writeCommitsAndRemovals is that for the commits which only remove reminders, and
// writeCommitsAndSets for those which only set some.
const (
	writeCommitsAndRemovals = decideHead + checkSteps + decideUnmet + writeRecords + removeAtOnce + writeTail
	writeCommitsAndSets     = decideHead + decideTaken + writeRecords + setAtOnce + writeTail
)

const writeTail = ` SELECT h.commit_id FROM held AS h`

const decideHead = `WITH taken AS MATERIALIZED (` + takenRecords

// The rest of the decision, with what refuses a commit beside its rows.
const (
	decideTaken = decide1 + "taken" + decide2 + "taken" + decide3 + "taken" + decide4
	decideUnmet = decide1 + "unmet" + decide2 + "unmet" + decide3 + "unmet" + decide4
)

const decide1 = `
), fenced AS MATERIALIZED (
	SELECT f.commit_id, f.members, f.writes
	FROM unnest($13::text[], $14::text[], $15::text[], $16::int8[], $17::int2[], $18::uuid[], $19::int8[], $20::int8[])
		AS f (app, type, id, read_version, what, commit_id, members, writes)
	JOIN greenroom_actor AS a ON a.app = f.app AND a.type = f.type AND a.id = f.id AND a.version = f.read_version
	WHERE f.what IN (1, 2) OR ` + soundRow + `
	FOR UPDATE OF a
), kept AS MATERIALIZED (
	SELECT f.commit_id, f.writes FROM fenced AS f WHERE f.commit_id <> ALL (ARRAY(SELECT t.commit_id FROM `

const decide2 = ` AS t))
	GROUP BY f.commit_id, f.members, f.writes HAVING count(*) = f.members
), written AS (` + updateRows + `
	FROM unnest($1::text[], $2::text[], $3::text[], $4::int8[], $5::int8[], $6::uuid[], $7::int8[], $8::int8[], $9::int2[], $10::bytea[], $11::int2[], $12::int8[])
		AS c (app, type, id, read_version, new_version, commit_id, generation, state_schema, format, state, what, members)` + updateFenced + `
	AND CASE WHEN c.members > 1 THEN c.commit_id = ANY (ARRAY(SELECT k.commit_id FROM kept AS k))
		ELSE c.commit_id <> ALL (ARRAY(SELECT t.commit_id FROM `

const decide3 = ` AS t)) END
	RETURNING a.commit_id
), held AS MATERIALIZED (
	SELECT w.commit_id FROM written AS w
	UNION ALL SELECT k.commit_id FROM kept AS k WHERE k.writes = 0
	UNION ALL SELECT n.commit_id FROM unnest($26::uuid[]) AS n (commit_id)
		WHERE n.commit_id <> ALL (ARRAY(SELECT t.commit_id FROM `

const decide4 = ` AS t))
), `

// changes are the commits of a group that [writeCommits] writes. Where a row must
// not be there, one is placed first, so that there is one to lock or to write, and
// removed last if it is still as it was placed.
type changes struct {
	rows      columns
	members   int8s // of the commit of each of rows
	fences    fences
	rowless   uuids // commits that have no row
	places    columns
	records   recordColumns
	reminders reminderEffects
}

// fences are rows that are decided about before any is written.
type fences struct {
	keys            keyColumns
	versions        int8s
	whats           int2s
	commitIDs       uuids
	members, writes int8s // of the commit: its rows, and how many of them it writes
}

func (w *changes) reset() {
	w.rows.reset()
	w.members = w.members[:0]
	w.fences.reset()
	w.rowless = w.rowless[:0]
	w.places.reset()
	w.records.reset()
	w.reminders.reset()
}

func (f *fences) reset() {
	f.keys.reset()
	f.versions, f.whats, f.commitIDs, f.members, f.writes = f.versions[:0], f.whats[:0], f.commitIDs[:0], f.members[:0], f.writes[:0]
}

func (w *changes) add(c *actor.Commit) {
	members := rowsOf(c)
	for _, r := range c.Rows {
		if r.ReadVersion == 0 {
			r.ReadVersion = w.place(r.Key, r.Bump)
		}
		if members > 1 {
			w.fences.add(c, r.Fence(), whatOf(&r))
		}
		w.rows.add(c.ID, &r)
		w.members = append(w.members, int64(members))
	}
	for _, f := range c.Fences {
		if f.Version == 0 {
			f.Version = w.place(f.Key, false)
		}
		w.fences.add(c, f, keepState) // of a row that must hold together
	}
	if members == 0 {
		w.rowless = append(w.rowless, uuid(c.ID))
	}
	w.records.add(c)
	w.reminders.add(c)
}

// place adds a row to hold the place of an actor without one, and returns its
// version. It is a tombstone where a commit leaves what it finds.
func (w *changes) place(k actor.Key, tombstone bool) uint64 {
	place := actor.RowWrite{Key: k, NewVersion: actor.FirstVersion(), Delete: tombstone}
	w.places.addInsert(actor.NewCommitID(), &place)
	return place.NewVersion
}

func (f *fences) add(c *actor.Commit, r actor.RowFence, what int16) {
	f.keys.add(r.Key)
	f.versions = append(f.versions, int64(r.Version))
	f.whats = append(f.whats, what)
	f.commitIDs = append(f.commitIDs, uuid(c.ID))
	f.members = append(f.members, int64(rowsOf(c)))
	f.writes = append(f.writes, int64(len(c.Rows)))
}

// rowsOf returns how many rows a commit names.
func rowsOf(c *actor.Commit) int { return len(c.Rows) + len(c.Fences) }

// queue adds the statements for the commits to a batch: withReminders, if any of them does
// anything to reminders.
func (w *changes) queue(b *pgx.Batch, withReminders string) {
	k, f, r := &w.rows, &w.fences, &w.records
	if len(k.ids) == 0 && len(f.versions) == 0 && len(w.rowless) == 0 {
		return
	}
	w.places.queueInsert(b)
	rest := []column{w.members, f.keys.apps, f.keys.types, f.keys.ids, f.versions, f.whats, f.commitIDs, f.members, f.writes,
		r.commitIDs, r.ids, r.shards, r.ttls, r.values, w.rowless}
	statement := writeCommits
	if !w.reminders.empty() {
		statement = withReminders
		switch withReminders {
		case writeCommitsAndRemovals:
			rest = append(rest, w.reminders.removalColumns()...)
		case writeCommitsAndSets:
			rest = append(rest, w.reminders.rowColumns()...)
		default:
			rest = append(rest, w.reminders.columns()...)
		}
	}
	more := 0
	for _, c := range rest {
		more += arraySize(c)
	}
	args := append(make([]any, 0, 11+len(rest)),
		k.leading(more), k.types, k.ids, k.readVersions, k.newVersions, k.commitIDs, k.generations, k.schemas, k.formats, k.states, k.whats)
	for _, c := range rest {
		args = append(args, c)
	}
	b.Queue(statement, args...)
	w.places.queueRemove(b)
}
