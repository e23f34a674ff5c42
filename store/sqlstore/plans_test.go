package sqlstore_test

import (
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/internal/pgtest"
)

// Recent reminders are read in the index of tokens, by ranges of them: with a plan that was
// made while there were none, and with one that knows of very many.
func TestPlanOfRecentReminders(t *testing.T) {
	b := &broken{T: t, database: pgtest.URL(t)}
	s := open(t, b.database)
	check := func(when string) {
		t.Helper()
		plan, err := s.PlanOfRecentReminders(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(plan, "greenroom_reminder_token") || !strings.Contains(plan, "(token >= $3) AND (token <= $4)") {
			t.Errorf("%s the plan is\n%s", when, plan)
		}
	}
	check("without any")
	b.exec(`INSERT INTO greenroom_reminder (app, type, id, name, written, prefix, vector, token, bucket, version, spec, content_type, payload,
			due, fire_at, remaining, failures, paused, last_error, created_at, updated_at)
		SELECT 'shop', 'Cart', 'c' || n, 'r', 2, 1, 'abcdefgh', n, 0, 1, '{}', '', '', n, n, 1, 0, false, '', now(), now()
		FROM generate_series(1, 20000) AS s (n)`)
	b.exec(`VACUUM ANALYZE greenroom_reminder`)
	check("with many")
}
