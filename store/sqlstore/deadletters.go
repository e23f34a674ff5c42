package sqlstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// deadLetters keeps the firings that failed as often as their reminders allow.
type deadLetters struct{ *db }

func (s *deadLetters) ListDeadLetters(ctx context.Context, q store.DeadLetterQuery) ([]actor.DeadLetter, error) {
	if err := store.ValidateLimit(q.Limit); err != nil {
		return nil, err
	}
	query := `SELECT r.reason, r.failed_at, ` + reminderFields + ` FROM greenroom_dead_reminder AS r
		WHERE r.prefix = (SELECT l.prefix FROM greenroom_lap AS l WHERE l.app = $1) AND ($2 = '' OR r.type = $2)
			AND ($7::int8 = 0 OR ($7::int8 = 2) = (r.name < $8))
			AND (r.vector, r.token, r.due) > ($3, $4, $5)
		ORDER BY r.vector, r.token, r.due LIMIT $6`
	vector, token, due := "", int64(-1), int64(0)
	if q.AfterID != (actor.ReminderID{}) {
		vector, token, due = q.AfterID.Vector.String(), int64(q.AfterID.Token), q.AfterDue.UnixMicro()
	}
	var list []actor.DeadLetter
	err := s.readFor(ctx, share(q.App), "list dead letters", func(ctx context.Context, conn *pgxpool.Conn) error {
		list = nil
		var r scannedReminder
		var d actor.DeadLetter
		return each(ctx, conn, append([]any{&d.Reason, &d.FailedAt}, r.targets()...), func() error {
			var damage string
			if d.Reminder, damage = r.reminder(); damage == "" {
				d.FailedAt = d.FailedAt.UTC()
				list = append(list, d)
			}
			return nil
		}, query, q.App, q.Type, vector, token, due, q.Limit, int64(q.Kind), actor.MessageNamesEnd)
	})
	return list, err
}

func (s *deadLetters) RemoveDeadLetter(ctx context.Context, id actor.ReminderID, due time.Time) (was bool, err error) {
	err = s.readFor(ctx, shareOfPrefix(id.Prefix), "remove a dead letter", func(ctx context.Context, conn *pgxpool.Conn) error {
		tag, err := conn.Exec(ctx, `DELETE FROM greenroom_dead_reminder WHERE prefix = $1 AND vector = $2 AND token = $3 AND due = $4`,
			int64(id.Prefix), id.Vector.String(), int64(id.Token), due.UnixMicro())
		was = was || tag.RowsAffected() > 0
		return err
	})
	return was && err == nil, err
}
