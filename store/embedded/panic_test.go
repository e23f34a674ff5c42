package embedded_test

import (
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store/embedded"
)

func load(t *testing.T, s *embedded.Store, k actor.Key) actor.Row {
	t.Helper()
	rows, err := s.LoadActors(t.Context(), []actor.Key{k}, actor.LoadOptions{})
	must(t, err)
	return rows[0]
}

// TestPanicOfADecision: a fault of ours in one write costs that write, and neither
// the writer nor the folder.
func TestPanicOfADecision(t *testing.T) {
	fs := vfs.NewMem()
	s := openSmall(t, fs)
	k := actor.Key{App: "a", Type: "Cart", ID: "x"}
	for range 3 {
		if err := s.Panic(t.Context()); err == nil || !strings.Contains(err.Error(), "planned") {
			t.Fatalf("a decision that panicked is answered %v", err)
		}
		row := load(t, s, k)
		c := insert(k, `{"n":1}`)
		c.Rows[0].ReadVersion, c.Rows[0].NewVersion = row.Version, max(c.Rows[0].NewVersion, row.Version+1)
		must(t, s.Commit(t.Context(), []actor.Commit{c})[0])
		if got := load(t, s, k); got.CommitID != c.ID {
			t.Fatalf("the row is %+v", got)
		}
	}
	must(t, s.Check(t.Context()))
}
