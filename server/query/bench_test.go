package query

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// rows is a scanner of so many equal rows of 200 bytes.
type rows int

func (n rows) ScanActors(_ context.Context, q store.ActorScan, visit func(row *store.ScannedActor) (more bool)) (int, string, error) {
	row := store.ScannedActor{
		ActorInfo: store.ActorInfo{Key: actor.Key{App: "default", Type: "Cart", ID: "eu/1"}, Version: 1},
		State:     actor.EncodedState{Format: actor.FormatJSON, Data: fmt.Appendf(nil, `{"ballast":"%0157d","count":7,"total":120}`, 0)},
	}
	for i := range min(int(n), q.Limit) {
		if !visit(&row) {
			return i + 1, "x", nil
		}
	}
	return min(int(n), q.Limit), "x", nil
}

func BenchmarkRow(b *testing.B) {
	c := NewCompiler()
	for _, filter := range []string{
		`id.startsWith("eu/")`, `state.total > 100`, `state.total > 100 && id.endsWith("1")`, `has(state.total) && state.total + 1 > 100`,
		`[1, 2, 3].exists(n, n == state.count)`,
	} {
		b.Run(filter, func(b *testing.B) {
			q, err := c.Compile(filter, nil)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for done := 0; done < b.N; {
				r, err := q.Run(b.Context(), rows(1<<20), Page{App: "default", Type: "Cart", Now: time.Now, Bounds: Bounds{Rows: b.N - done, Time: time.Hour}})
				if err != nil || r.Failed > 0 {
					b.Fatal(err, r.Failure)
				}
				done += r.Examined
			}
		})
	}
}
