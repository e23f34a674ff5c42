package sqlstore_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-run/greenroom/actor"
)

// TestTrimmedEventsKeepNothing: the row that trimming leaves for its position has neither payload nor
// link, and an event without a link has NULL in that column.
func TestTrimmedEventsKeepNothing(t *testing.T) {
	type row struct {
		Name    string
		Payload []byte
		Link    *string
	}
	for name, url := range engines(t) {
		t.Run(name, func(t *testing.T) {
			database := url(t)
			s := openPatient(t, database)
			k := key("trimmed")
			link := actor.SpanLink{TraceID: [16]byte{1}, SpanID: [8]byte{2}}
			c := actor.CommitOf(actor.RowWrite{Key: k, NewVersion: actor.FirstVersion()})
			for _, e := range []actor.EventWrite{{Name: "oldest", Link: link}, {Name: "older", Link: link}, {Name: "linked", Link: link}, {Name: "plain"}} {
				e.Key, e.Payload.Data = k, []byte("payload")
				c.Events = append(c.Events, e)
			}
			if err := s.Commit(t.Context(), []actor.Commit{c})[0]; err != nil {
				t.Fatal(err)
			}
			if err := s.TrimEvents(t.Context(), k, actor.EventsKept{Count: 2, Bytes: 1 << 20}); err != nil {
				t.Fatal(err)
			}
			conn, err := pgx.Connect(t.Context(), database)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close(t.Context()) }()
			found, err := conn.Query(t.Context(), `SELECT name, payload, link FROM greenroom_event WHERE app = $1 AND type = $2 AND id = $3 ORDER BY version, idx`, k.App, k.Type, k.ID)
			if err != nil {
				t.Fatal(err)
			}
			rows, err := pgx.CollectRows(found, pgx.RowToStructByPos[row])
			if err != nil || len(rows) != 3 {
				t.Fatalf("%d rows, %v; want the position and two events", len(rows), err)
			}
			if left := rows[0]; left.Name != "" || len(left.Payload) > 0 || left.Link != nil {
				t.Errorf("trimming leaves %+v", left)
			}
			if linked, plain := rows[1], rows[2]; linked.Link == nil || *linked.Link != link.String() || plain.Link != nil {
				t.Errorf("kept are %+v and %+v", linked, plain)
			}
		})
	}
}
