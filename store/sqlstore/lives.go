package sqlstore

import (
	"github.com/jackc/pgx/v5"

	"github.com/greenroom-run/greenroom/actor"
)

// writeLives gives rows what most commits leave as it is: their life, whether they were
// spawned, and their method sets. It comes behind the statement that wrote the rows, in the
// same transaction, so that this statement costs others nothing; a row of a commit that did
// not hold has another commit_id.
//
// A life ends at the beginning of the transaction: what that sends to the actor is for the next one.
const writeLives = `UPDATE greenroom_actor AS a SET
	life = a.life + c.lives, born_at = CASE c.lives WHEN 0 THEN a.born_at ELSE transaction_timestamp() END, spawned = a.spawned OR c.spawned = 1, method_set = CASE c.sets WHEN 1 THEN c.method_set ELSE a.method_set END
FROM unnest($1::text[], $2::text[], $3::text[], $4::uuid[], $5::int8[], $6::int2[], $7::int2[], $8::text[])
	AS c (app, type, id, commit_id, lives, spawned, sets, method_set)
WHERE a.app = c.app AND a.type = c.type AND a.id = c.id AND a.commit_id = c.commit_id`

// lives is what commits do to the lives of actors, turned on its side.
type lives struct {
	apps, types, ids, methodSets texts
	commitIDs                    uuids
	lives                        int8s
	spawned, sets                int2s
	gone                         struct { // actors that are deleted
		apps, types, ids texts
		commitIDs        uuids
	}
}

func (l *lives) reset() { *l = lives{} }

func (l *lives) add(c *actor.Commit) {
	for i := range c.Rows {
		if r := &c.Rows[i]; r.Delete || r.Spawned || r.MethodSet != nil {
			l.addRow(c.ID, r)
		}
	}
}

func (l *lives) addRow(id actor.CommitID, r *actor.RowWrite) {
	flag := func(set bool) int16 {
		if set {
			return 1
		}
		return 0
	}
	if k := &l.gone; r.Delete {
		k.apps, k.types, k.ids, k.commitIDs = append(k.apps, r.Key.App), append(k.types, r.Key.Type), append(k.ids, r.Key.ID), append(k.commitIDs, uuid(id))
	}
	set := ""
	if r.MethodSet != nil {
		set = *r.MethodSet
	}
	l.apps, l.types, l.ids = append(l.apps, r.Key.App), append(l.types, r.Key.Type), append(l.ids, r.Key.ID)
	l.commitIDs = append(l.commitIDs, uuid(id))
	l.lives = append(l.lives, int64(flag(r.NewLife)))
	l.spawned = append(l.spawned, flag(r.Spawned))
	l.sets, l.methodSets = append(l.sets, flag(r.Delete || r.MethodSet != nil)), append(l.methodSets, set)
}

func (l *lives) queue(b *pgx.Batch) {
	if k := &l.gone; len(k.ids) > 0 {
		b.Queue(releaseServicesOf, k.apps, k.types, k.ids, k.commitIDs)
	}
	if len(l.ids) > 0 {
		b.Queue(writeLives, l.apps, l.types, l.ids, l.commitIDs, l.lives, l.spawned, l.sets, l.methodSets)
	}
}

// queueSpawned adds the statements that insert the rows of actors that a locked turn spawned.
// The first one says how many there are now.
func queueSpawned(b *pgx.Batch, id actor.CommitID, rows []actor.RowWrite) {
	var inserts columns
	var l lives
	for i := range rows {
		inserts.addInsert(id, &rows[i])
		l.addRow(id, &rows[i])
	}
	inserts.queueInsert(b)
	l.queue(b)
}
