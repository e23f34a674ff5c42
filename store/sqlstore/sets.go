package sqlstore

import (
	"github.com/jackc/pgx/v5"

	"github.com/greenroom-run/greenroom/actor"
)

// writeSets decides commits of several rows and writes their rows: one statement
// for all sets of a group. A set holds if each of its rows is there at the version
// that was read, and none of its keys is recorded; its rows, those that it only
// read too, are locked until the batch ends, so that on PostgreSQL at READ COMMITTED
// nothing comes between deciding and writing. What else the sets do is written
// afterwards, by a statement for each kind of effect that joins on the rows written.
const writeSets = `WITH c AS MATERIALIZED (
	SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::int8[], $5::int8[], $6::uuid[], $7::int8[], $8::int8[], $9::int2[], $10::bytea[], $11::int2[], $12::int8[])
		AS c (app, type, id, read_version, new_version, commit_id, generation, state_schema, format, state, what, members)
), locked AS MATERIALIZED (
	SELECT c.commit_id, c.members FROM c
	JOIN greenroom_actor AS a ON a.app = c.app AND a.type = c.type AND a.id = c.id AND a.version = c.read_version
	WHERE c.what IN (1, 2, 4) OR ` + soundRow + `
	FOR UPDATE OF a
), held AS MATERIALIZED (
	SELECT l.commit_id FROM locked AS l WHERE l.commit_id <> ALL (ARRAY(` + takenHead + `$13::uuid[], $14::uuid[]` + takenTail + `))
	GROUP BY l.commit_id, l.members HAVING count(*) = l.members
) ` + updateRows + `
FROM held AS h JOIN c ON c.commit_id = h.commit_id
WHERE a.app = c.app AND a.type = c.type AND a.id = c.id AND a.version = c.read_version AND c.what <> 4
RETURNING a.commit_id`

// sets are the commits of several rows of a group. Where a row must not be there,
// one is placed first, so that there is one to lock, and removed last if it is
// still as it was placed.
type sets struct {
	rows    columns
	members int8s // of the commit of each row
	places  columns
	records records
}

func (s *sets) reset() {
	s.rows.reset()
	s.places.reset()
	s.members = s.members[:0]
}

// addSet adds a commit of several rows.
func (g *groupParts) addSet(c *actor.Commit) {
	s := &g.sets
	rows := c.Rows()
	for i := range rows {
		r := &rows[i]
		if r.ReadVersion == 0 {
			place := placeFor(&actor.Commit{ID: actor.NewCommitID(), Key: r.Key})
			s.places.addInsert(place)
			g.placed.add(place)
			r.ReadVersion = place.NewVersion
		}
		s.rows.addRow(c.ID, r)
		s.members = append(s.members, int64(len(rows)))
	}
	s.records.add(c)
}

func (s *sets) queue(b *pgx.Batch) {
	k := &s.rows
	if len(k.ids) == 0 {
		return
	}
	s.places.queueInsert(b, nil)
	b.Queue(writeSets, k.leading(0), k.types, k.ids, k.readVersions, k.newVersions, k.commitIDs, k.generations, k.schemas, k.formats, k.states, k.whats,
		s.members, s.records.commitIDs, s.records.ids)
	s.records.queueHeld(b)
}
