package embedded

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// A bucket that was written before buckets had rates is there, and gets one.
func TestBucketOfAnEarlierVersion(t *testing.T) {
	s, err := Open(t.Context(), Config{Dir: "data", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	b := actor.Bucket{Prefix: 1, Vector: actor.Vector([]byte("abcdefgh")), Index: 3}
	earlier := map[string]any{
		"prefix": 1, "vector": "abcdefgh", "index": 3, "app": "shop", "creator": "h1", "owner": "h2", "epoch": 4, "used": 5, "created_at": 1_000_000,
	}
	if err := s.write(t.Context(), writeOptions{}, func(tx *tx) error { return tx.setRecord(bucketKey(b), earlier) }); err != nil {
		t.Fatal(err)
	}
	for _, rate := range []uint32{0, 7, 0} {
		if err := s.SaveBuckets(t.Context(), []store.BucketProgress{{Bucket: b, Epoch: 4, Rate: rate}}); err != nil {
			t.Fatal(err)
		}
		rows, err := s.Buckets(t.Context(), actor.Bucket{}, 10)
		if err != nil || len(rows) != 1 || rows[0].Bucket != b || rows[0].Owner != "h2" || rows[0].Used != 5 || rows[0].Rate != rate {
			t.Fatalf("%+v, %v, want the rate %d", rows, err, rate)
		}
	}
}
