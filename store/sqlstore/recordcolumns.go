package sqlstore

import (
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// taken are the commits, given as $1 with the IDs of their records as $2, of
// which a key is recorded already.
const taken = takenHead + `$1::uuid[], $2::uuid[]` + takenTail

// takenRecords is the same of the records of [writeCommits].
const takenRecords = takenHead + `$21::uuid[], $22::uuid[]` + takenTail

const (
	takenHead = `SELECT r.commit_id FROM unnest(`
	takenTail = `) AS r (commit_id, id)
	JOIN greenroom_idempotency AS i ON i.id = r.id WHERE i.expires_at > clock_timestamp()`
)

// writeRecords is the clause of [writeCommits] that records calls. A key may be
// taken although the commit was held: by one that came between deciding and
// writing, of records alone, which moves no version, or of an actor without a row.
// Or an expired record is in its place. Either way the primary key fails the group
// as a whole, and it goes again after removeExpired. An ON CONFLICT, which would
// spare that, costs every other group half as much again. IS TRUE has PostgreSQL
// look commits up in a hash table instead of comparing each with each.
const writeRecords = `recorded AS (
	INSERT INTO greenroom_idempotency (id, commit_id, shard, expires_at, record)
	SELECT r.id, r.commit_id, r.shard, clock_timestamp() + r.ttl * interval '1 microsecond', r.record
	FROM unnest($21::uuid[], $22::uuid[], $23::int2[], $24::int8[], $25::bytea[]) AS r (commit_id, id, shard, ttl, record)
	WHERE (r.commit_id IN (SELECT h.commit_id FROM held AS h)) IS TRUE
	RETURNING id
)`

// removeExpired makes room for new records of the same calls.
const removeExpired = `DELETE FROM greenroom_idempotency WHERE id = ANY ($1::uuid[]) AND expires_at <= clock_timestamp()`

// recordColumns are the recorded calls of one statement, turned on their side.
type recordColumns struct {
	dialect        dialect // decides about shards
	ttls           int8s
	commitIDs, ids uuids
	shards         int2s
	values         byteas
	buffer         []byte // that values are in
}

// reset empties the records, and keeps their memory.
func (k *recordColumns) reset() {
	*k = recordColumns{
		dialect: k.dialect, ttls: k.ttls[:0], commitIDs: k.commitIDs[:0], ids: k.ids[:0],
		shards: k.shards[:0], values: k.values[:0], buffer: k.buffer[:0],
	}
}

func (k *recordColumns) add(c *actor.Commit) {
	for i := range c.Records {
		r := &c.Records[i]
		id := store.RecordIDOf(r.Call())
		k.ttls = append(k.ttls, r.TTL.Microseconds())
		k.commitIDs = append(k.commitIDs, uuid(c.ID))
		k.ids = append(k.ids, uuid(id))
		k.shards = append(k.shards, recordShard(k.dialect, id))
		start := len(k.buffer)
		k.buffer = store.AppendRecord(k.buffer, r)
		k.values = append(k.values, k.buffer[start:]) // what it is moved out of, it keeps
	}
}

// recordShard says where in the index of expiries a record goes. On PostgreSQL
// all go to one end of it, which is where an index is cheapest to write to: one
// end for each shard takes almost twice as long. Records that are there already
// may be in any shard.
func recordShard(d dialect, id store.RecordID) int16 {
	if d == cockroach {
		return int16(id[0] % shards)
	}
	return 0
}
