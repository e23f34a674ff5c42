package sqlstore

import (
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-run/greenroom/actor"
)

// Stuck returns the places of the commits of which others have rows locked.
func (s *Store) Stuck(ctx context.Context, commits []actor.Commit) ([]int, error) {
	var group []*attempt
	places := make(map[*attempt]int)
	for i := range commits {
		a := &attempt{commit: &commits[i]}
		places[a] = i
		group = append(group, a)
	}
	free, stuck, err := s.probe(ctx, group)
	var at []int
	for _, a := range stuck {
		at = append(at, places[a])
		delete(places, a)
	}
	for _, a := range free {
		delete(places, a)
	}
	if len(places) > 0 {
		panic("a commit is neither free nor stuck")
	}
	return at, err
}

// StepsBefore returns how many steps of the schema come before the first that has a text.
func StepsBefore(text string) int {
	return slices.IndexFunc(migrations, func(step string) bool { return strings.Contains(step, text) })
}

// PlanOfRecentReminders returns how PostgreSQL reads recent reminders, as a session of this
// store has it planned.
func (s *Store) PlanOfRecentReminders(ctx context.Context) (string, error) {
	conn, err := s.general.Acquire(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, `PREPARE recent (int8, text, int8[], int8[], int8) AS `+recentRemindersInRanges); err != nil {
		return "", err
	}
	rows, _ := conn.Query(ctx, `EXPLAIN EXECUTE recent (1, 'abcdefgh', '{7,20}', '{7,99}', 100)`)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err == nil {
		_, err = conn.Exec(ctx, `DEALLOCATE recent`)
	}
	return strings.Join(lines, "\n"), err
}
