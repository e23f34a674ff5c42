package sqlstore_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-run/greenroom/actor"
)

// TestStateIsReadableInSQL: the view shows live actors, JSON as jsonb, and no state
// makes it fail.
func TestStateIsReadableInSQL(t *testing.T) {
	for name, engine := range engines(t) {
		t.Run(name, func(t *testing.T) {
			url := engine(t)
			s := open(t, url)
			states := map[string]*actor.EncodedState{
				"json":      {Format: actor.FormatJSON, Data: []byte(`{"total": 7, "owner": {"name": "Ä 🎭"}}`)},
				"binary":    {Format: actor.FormatEnvelope, Data: []byte{1, 0xff, 0}},
				"zero":      {Format: actor.FormatJSON, Data: []byte(`{"a":"\u0000"}`)},
				"surrogate": {Format: actor.FormatJSON, Data: []byte(`{"a":"\ud800"}`)},
				"escape":    {Format: actor.FormatJSON, Data: []byte(`{"a":"\u003c\\ud"}`)},
				"gone":      {Format: actor.FormatJSON, Data: []byte(`{}`)},
			}
			var commits []actor.Commit
			for id, state := range states {
				commits = append(commits, actor.CommitOf(actor.RowWrite{Key: actor.Key{App: "a", Type: "T", ID: id}, NewVersion: 5, Generation: 3, State: state}))
			}
			for i, err := range s.Commit(t.Context(), commits) {
				if err != nil {
					t.Fatalf("%s: %v", commits[i].Anchor().Key, err)
				}
			}
			gone := actor.CommitOf(actor.RowWrite{Key: actor.Key{App: "a", Type: "T", ID: "gone"}, ReadVersion: 5, NewVersion: 6, Delete: true})
			if err := s.Commit(t.Context(), []actor.Commit{gone})[0]; err != nil {
				t.Fatal(err)
			}
			conn, err := pgx.Connect(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(t.Context())
			rows, err := conn.Query(t.Context(), `SELECT id, coalesce((state->>'total')::int8, -1), coalesce(state->'owner'->>'name', ''), state IS NULL, state_text IS NULL, format FROM greenroom_state WHERE app = 'a' AND type = 'T' ORDER BY id`)
			if err != nil {
				t.Fatal(err)
			}
			type shown struct {
				ID           string
				Total        int64
				Owner        string
				NoJSON, None bool
				Format       string
			}
			got, err := pgx.CollectRows(rows, pgx.RowToStructByPos[shown])
			if err != nil {
				t.Fatal(err)
			}
			want := []shown{
				{"binary", -1, "", true, true, "binary"},
				{"escape", -1, "", false, false, "json"},
				{"json", 7, "Ä 🎭", false, false, "json"},
				{"surrogate", -1, "", true, false, "json"},
				{"zero", -1, "", true, false, "json"},
			}
			if len(got) != len(want) {
				t.Fatalf("%v, want %v", got, want)
			}
			for i := range want {
				if got[i] != want[i] {
					t.Errorf("%v, want %v", got[i], want[i])
				}
			}
		})
	}
}
