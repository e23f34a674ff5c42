package sqlstore

import (
	"encoding/hex"
	"hash/fnv"

	"github.com/greenroom-run/greenroom/actor"
)

// uuid is any 16 bytes in a uuid column: commit IDs as they are, and random ones.
type uuid = [16]byte

type uuidText uuid

func (u uuidText) String() string { return hex.EncodeToString(u[:]) }

// newUUID returns 16 random bytes.
func newUUID() uuidText { return uuidText(actor.NewCommitID()) }

// shards is how many ranges of its own the index of tombstones has: by time
// alone, all deletes would write to the end of one range of CockroachDB.
const shards = 16

// shardOf spreads keys over the shards. Stored with the row, it must never
// change for a key.
func shardOf(k actor.Key) int16 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(k.String()))
	return int16(h.Sum32() % shards)
}
