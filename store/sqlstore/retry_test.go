package sqlstore_test

import (
	"context"
	"testing"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/pgtest"
	"github.com/greenroom-run/greenroom/store/sqlstore/internal/pgproxy"
)

// What is tried again after a serialization failure is counted, on whichever way it goes to
// the database.
func TestRetriesAreCounted(t *testing.T) {
	for name, url := range map[string]func(t *testing.T) (string, bool){
		"postgresql":  func(t *testing.T) (string, bool) { return pgtest.URL(t), true },
		"cockroachdb": func(t *testing.T) (string, bool) { return pgtest.CockroachURL(t) },
	} {
		t.Run(name, func(t *testing.T) {
			database, ok := url(t)
			if !ok {
				t.Skip(pgtest.CockroachVariable + " is not set")
			}
			proxy, through := pgproxy.Before(t, database)
			s := openPatient(t, through)
			before := s.Retries()
			for i, c := range []struct {
				on string
				do func() error
			}{
				{"INSERT INTO greenroom_actor", func() error {
					return s.Commit(t.Context(), []actor.Commit{write(key("a"), actor.Row{}, `{}`)})[0]
				}},
				{"SELECT c.n, a.version", func() error {
					_, err := s.LoadActors(t.Context(), []actor.Key{key("a")}, actor.LoadOptions{})
					return err
				}},
				{"FOR UPDATE", func() error {
					_, err := s.LockedTurn(t.Context(), key("a"), func(context.Context, actor.Row) (*actor.Commit, error) { return nil, nil })
					return err
				}},
			} {
				proxy.Plan(t, pgproxy.Fault{On: c.on, Do: pgproxy.Deny, Code: "40001"})
				if err := c.do(); err != nil && i > 0 { // the insert was done, and is refused the second time
					t.Errorf("%s: %v", c.on, err)
				}
				if got, want := s.Retries()-before, uint64(i+1); got != want {
					t.Errorf("%s: %d retries are counted, want %d", c.on, got, want)
				}
			}
		})
	}
}
