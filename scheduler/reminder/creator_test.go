package reminder

import (
	"context"
	"slices"
	"testing"

	"github.com/greenroom-run/greenroom/actor"
)

// TestNextBucketIsAbandoned: a creator that was taken for gone creates nothing from the bucket
// that it was to create from next either, if that was closed as well.
func TestNextBucketIsAbandoned(t *testing.T) {
	var rows []actor.BucketRow
	c := newCreator(func(_ context.Context, app string) (actor.BucketRow, error) {
		row := actor.BucketRow{Bucket: actor.Bucket{Prefix: 1, Vector: anID.Vector, Index: uint32(len(rows))}, App: app}
		rows = append(rows, row)
		return row, nil
	})
	take := func() actor.Bucket {
		t.Helper()
		var later []func()
		id, _, err := c.take(t.Context(), "app", func(do func()) { later = append(later, do) })
		if err != nil {
			t.Fatal(err)
		}
		for _, do := range later {
			do()
		}
		return id.Bucket()
	}
	for len(rows) < 2 {
		take()
	}
	rows[1].Closed = true
	creations{c, c.used()}.abandon(slices.Clone(rows))
	for range actor.BucketSize {
		if b := take(); b == rows[1].Bucket {
			t.Fatal("tokens are taken from a bucket that is closed")
		}
	}
	if used := c.used(); used[rows[2].Bucket] == 0 {
		t.Errorf("after the first bucket was used up they are taken from others than the third: %v", used)
	}
}
