package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// reminders reads reminders. Commits write them.
type reminders struct{ *db }

// reminderFields are the columns of a row, in the order in which scannedReminder has them.
const reminderFields = `r.app, r.type, r.id, r.name, r.prefix, r.vector, r.token, r.version, r.spec, r.content_type, r.payload,
	r.due, r.fire_at, r.remaining, r.failures, r.last_error, r.created_at, r.updated_at`

// scannedReminder is a row as it was read.
type scannedReminder struct {
	key                                                  actor.Key
	name, vector, spec, contentType, lastError           string
	prefix, token, version, due, fireAt, remaining, fail int64
	payload                                              []byte
	paused                                               bool
	createdAt, updatedAt                                 time.Time
}

func (r *scannedReminder) targets() []any {
	return []any{
		&r.key.App, &r.key.Type, &r.key.ID, &r.name, &r.prefix, &r.vector, &r.token, &r.version, &r.spec, &r.contentType, &r.payload,
		&r.due, &r.fireAt, &r.remaining, &r.fail, &r.lastError, &r.createdAt, &r.updatedAt,
	}
}

func (r *scannedReminder) id() actor.ReminderID {
	id := actor.ReminderID{Prefix: actor.Prefix(r.prefix), Token: uint32(r.token)}
	copy(id.Vector[:], r.vector)
	return id
}

// reminder reads a row; damage says why it cannot be.
func (r *scannedReminder) reminder() (found actor.Reminder, damage string) {
	var spec store.SpecRecord
	if err := json.Unmarshal([]byte(r.spec), &spec); err != nil {
		return actor.Reminder{}, "its column spec cannot be read: " + err.Error()
	}
	payload := actor.Payload{ContentType: r.contentType}
	if len(r.payload) > 0 {
		payload.Data = append([]byte(nil), r.payload...)
	}
	at := func(micros int64) time.Time { return time.UnixMicro(micros).UTC() }
	return actor.Reminder{
		ID: r.id(), Version: uint64(r.version), ReminderSpec: spec.Spec(r.key, r.name, payload),
		ReminderProgress: actor.ReminderProgress{
			Due: at(r.due), FireAt: at(r.fireAt), Left: uint32(r.remaining), Failures: uint32(r.fail), Paused: r.paused, LastError: r.lastError,
		},
		CreatedAt: r.createdAt.UTC(), UpdatedAt: r.updatedAt.UTC(),
	}, ""
}

const dueReminders = `SELECT token, fire_at FROM greenroom_reminder
	WHERE prefix = $1 AND vector = $2 AND bucket = $3 AND NOT paused AND (fire_at, token) > ($4, $5) AND fire_at < $6
	ORDER BY fire_at, token LIMIT $7`

// DueReminders implements [store.Reminders]. The row comparison begins in the index
// where the last page ended, and meets none of the rows before it that are gone.
func (s *reminders) DueReminders(ctx context.Context, q store.DueQuery) ([]store.ReminderHead, error) {
	if err := store.ValidateDueQuery(&q); err != nil {
		return nil, err
	}
	from, token := int64(-1<<63), int64(-1)
	if !q.AfterTime.IsZero() {
		from = q.AfterTime.UnixMicro()
	}
	if q.AfterToken != nil {
		token = int64(*q.AfterToken)
	}
	var heads []store.ReminderHead
	err := s.readFor(ctx, shareOfPrefix(q.Bucket.Prefix), "read due reminders", func(ctx context.Context, conn *pgxpool.Conn) error {
		rows, err := conn.Query(ctx, dueReminders, int64(q.Bucket.Prefix), q.Bucket.Vector.String(), int64(q.Bucket.Index),
			from, token, q.Before.UnixMicro(), q.Limit)
		if err != nil {
			return err
		}
		heads, err = appendHeads(nil, q.Bucket, rows)
		return err
	})
	return heads, err
}

// recentReminders reads one range in the index of tokens. CASE keeps both databases from
// the index of due times, which has those that are not paused: all of the app's would be
// read there.
const recentReminders = `SELECT token, fire_at FROM greenroom_reminder
	WHERE prefix = $1 AND vector = $2 AND token BETWEEN $3 AND $4 AND CASE WHEN paused THEN 0 ELSE 1 END = 1 LIMIT $5`

// RecentReminders implements [store.Reminders]. Each range is a statement, since
// CockroachDB has no plan that reads several by their bounds; they go together.
func (s *reminders) RecentReminders(ctx context.Context, b actor.Bucket, ranges []store.TokenRange, limit int) ([]store.ReminderHead, error) {
	if err := store.ValidateRanges(b, limit); err != nil {
		return nil, err
	}
	var heads []store.ReminderHead
	err := s.readFor(ctx, shareOfPrefix(b.Prefix), "read recent reminders", func(ctx context.Context, conn *pgxpool.Conn) error {
		heads = nil
		var batch pgx.Batch
		for _, r := range ranges {
			batch.Queue(recentReminders, int64(b.Prefix), b.Vector.String(), int64(r.From), int64(r.To), limit)
		}
		results := conn.SendBatch(ctx, &batch)
		for range ranges {
			rows, err := results.Query()
			if err == nil {
				heads, err = appendHeads(heads, b, rows)
			}
			if err != nil {
				_ = results.Close()
				return err
			}
		}
		return results.Close()
	})
	return heads[:min(limit, len(heads))], err
}

// appendHeads reads tokens and times of a bucket.
func appendHeads(heads []store.ReminderHead, b actor.Bucket, rows pgx.Rows) ([]store.ReminderHead, error) {
	var token, at int64
	_, err := pgx.ForEachRow(rows, []any{&token, &at}, func() error {
		heads = append(heads, store.ReminderHead{
			ID:     actor.ReminderID{Prefix: b.Prefix, Vector: b.Vector, Token: uint32(token)},
			FireAt: time.UnixMicro(at).UTC(),
		})
		return nil
	})
	return heads, err
}

func (s *reminders) LoadReminders(ctx context.Context, ids []actor.ReminderID) ([]actor.Reminder, error) {
	of := severalApps
	if !slices.ContainsFunc(ids, func(id actor.ReminderID) bool { return id.Prefix != ids[0].Prefix }) && len(ids) > 0 {
		of = shareOfPrefix(ids[0].Prefix)
	}
	return s.readReminders(ctx, of, len(ids), func(from, to int) (string, []any) {
		var k tokenColumns
		var ns int8s
		for i := from; i < to; i++ {
			k.add(ids[i])
			ns = append(ns, int64(i))
		}
		return `SELECT c.n, r.paused, ` + reminderFields + ` FROM unnest($1::int8[], $2::int8[], $3::text[], $4::int8[]) AS c (n, prefix, vector, token)
			JOIN greenroom_reminder AS r ON r.prefix = c.prefix AND r.vector = c.vector AND r.token = c.token`,
			[]any{ns, k.prefixes, k.vectors, k.tokens}
	})
}

func (s *reminders) FindReminders(ctx context.Context, names []actor.ReminderName) ([]actor.Reminder, error) {
	for _, n := range names {
		if err := errors.Join(n.Key.Validate(), actor.ValidateStoredName(n.Name)); err != nil {
			return nil, err
		}
	}
	of := shareOf(len(names), func(i int) string { return names[i].Key.App })
	return s.readReminders(ctx, of, len(names), func(from, to int) (string, []any) {
		var k reminderColumns
		var ns int8s
		for i := from; i < to; i++ {
			k.add(&actor.Commit{}, names[i])
			ns = append(ns, int64(i))
		}
		return `SELECT c.n, r.paused, ` + reminderFields + ` FROM unnest($1::int8[], $2::text[], $3::text[], $4::text[], $5::text[]) AS c (n, app, type, id, name)
			JOIN greenroom_reminder AS r ON r.app = c.app AND r.type = c.type AND r.id = c.id AND r.name = c.name`,
			[]any{ns, k.apps, k.types, k.ids, k.name}
	})
}

// readReminders reads n reminders, in groups.
func (s *reminders) readReminders(ctx context.Context, of share, n int, query func(from, to int) (string, []any)) ([]actor.Reminder, error) {
	found := make([]actor.Reminder, n)
	var damaged []store.DamagedReminder
	for from := 0; from < n; from += maxGroupRows {
		text, args := query(from, min(from+maxGroupRows, n))
		start := len(damaged)
		err := s.readFor(ctx, of, "read reminders", func(ctx context.Context, conn *pgxpool.Conn) error {
			damaged = damaged[:start]
			var place int64
			var r scannedReminder
			return each(ctx, conn, append([]any{&place, &r.paused}, r.targets()...), func() error {
				var damage string
				if found[place], damage = r.reminder(); damage != "" {
					damaged = append(damaged, store.DamagedReminder{ID: r.id(), Reason: damage})
				}
				return nil
			}, text, args...)
		})
		if err != nil {
			return nil, err
		}
	}
	if len(damaged) > 0 {
		return found, &store.DamagedReminders{Reminders: damaged}
	}
	return found, nil
}

func itoa(n int) string { return strconv.Itoa(n) }

// ListReminders implements [store.Reminders]. A list that sifts finds out first how far it may
// look, and then looks no further.
func (s *reminders) ListReminders(ctx context.Context, q store.ReminderQuery) (list []actor.Reminder, next actor.ReminderName, err error) {
	if err := store.ValidateReminderQuery(&q); err != nil {
		return nil, next, err
	}
	where, args := "r.app = $1", []any{q.App}
	and := func(clause string, values ...any) {
		for _, v := range values {
			args = append(args, v)
			clause = strings.Replace(clause, "?", "$"+itoa(len(args)), 1)
		}
		where += " AND " + clause
	}
	if q.Type != "" {
		and("r.type = ?", q.Type)
	}
	if q.ID != "" {
		and("r.id = ?", q.ID)
	}
	from, before := q.Names()
	if q.ID != "" && q.Prefix == "" {
		and("r.name >= ?", from)
		if before != "" {
			and("r.name < ?", before)
		}
	}
	if q.Prefix != "" {
		and("r.name >= ?", q.Prefix)
		and("left(r.name, length(?::text)) = ?", q.Prefix, q.Prefix)
	}
	if q.After.Name != "" {
		and("(r.type, r.id, r.name) > (?, ?, ?)", q.After.Key.Type, q.After.Key.ID, q.After.Name)
	}
	const order = " ORDER BY r.type, r.id, r.name LIMIT "
	err = s.readFor(ctx, share(q.App), "list reminders", func(ctx context.Context, conn *pgxpool.Conn) error {
		list, next = nil, actor.ReminderName{}
		where, args := where, args[:len(args):len(args)]
		if q.Sifts() {
			last := actor.ReminderName{Key: actor.Key{App: q.App}}
			err := conn.QueryRow(ctx, `SELECT r.type, r.id, r.name FROM greenroom_reminder AS r WHERE `+where+order+`1 OFFSET `+itoa(store.MaxExamined-1), args...).
				Scan(&last.Key.Type, &last.Key.ID, &last.Name)
			switch {
			case err == nil:
				next = last
				n := len(args)
				where += " AND (r.type, r.id, r.name) <= ($" + itoa(n+1) + ", $" + itoa(n+2) + ", $" + itoa(n+3) + ")"
				args = append(args, last.Key.Type, last.Key.ID, last.Name)
			case !errors.Is(err, pgx.ErrNoRows):
				return err
			}
			if q.ID == "" {
				args = append(args, from)
				where += " AND r.name >= $" + itoa(len(args))
				if before != "" {
					args = append(args, before)
					where += " AND r.name < $" + itoa(len(args))
				}
			}
			if !q.DueFrom.IsZero() {
				args = append(args, q.DueFrom.UnixMicro())
				where += " AND r.due >= $" + itoa(len(args))
			}
			if !q.DueBefore.IsZero() {
				args = append(args, q.DueBefore.UnixMicro())
				where += " AND r.due < $" + itoa(len(args))
			}
		}
		rows, err := conn.Query(ctx, `SELECT r.paused, `+reminderFields+` FROM greenroom_reminder AS r WHERE `+where+order+itoa(q.Limit), args...)
		if err != nil {
			return err
		}
		n := 0
		var r scannedReminder
		_, err = pgx.ForEachRow(rows, append([]any{&r.paused}, r.targets()...), func() error {
			// The list leaves out a damaged reminder; reading it by name reports the damage.
			if found, damage := r.reminder(); damage == "" {
				list = append(list, found)
			}
			if n++; n == q.Limit {
				next = actor.ReminderName{Key: r.key, Name: r.name}
			}
			return nil
		})
		return err
	})
	if err != nil {
		return nil, actor.ReminderName{}, err
	}
	return list, next, nil
}

func (s *reminders) ReminderNames(ctx context.Context, q store.ReminderNameQuery) ([]string, error) {
	if err := store.ValidateReminderNameQuery(&q); err != nil {
		return nil, err
	}
	return query(ctx, s.db, share(q.Key.App), "list the names of reminders", pgx.RowTo[string], `SELECT r.name FROM greenroom_reminder AS r
		WHERE r.app = $1 AND r.type = $2 AND r.id = $3 AND r.name >= $4 AND r.name > $5 AND left(r.name, length($7::text)) = $7::text
		ORDER BY r.name LIMIT $6`, q.Key.App, q.Key.Type, q.Key.ID, q.First(), q.After, q.Limit, q.Prefix)
}

func (s *reminders) ListMessages(ctx context.Context, q store.MessageQuery) (list []actor.Reminder, next string, err error) {
	if err := store.ValidateMessageQuery(&q); err != nil {
		return nil, "", err
	}
	err = s.readFor(ctx, share(q.Key.App), "list messages", func(ctx context.Context, conn *pgxpool.Conn) error {
		list, next = nil, ""
		n := 0
		var r scannedReminder
		return each(ctx, conn, append([]any{&r.paused}, r.targets()...), func() error {
			// The list leaves out a damaged message.
			if found, damage := r.reminder(); damage == "" {
				list = append(list, found)
			}
			if n++; n == q.Limit {
				next = r.name
			}
			return nil
		}, `SELECT r.paused, `+reminderFields+` FROM greenroom_reminder AS r
			WHERE r.app = $1 AND r.type = $2 AND r.id = $3 AND r.name > $4 AND r.name < $5
			ORDER BY r.name LIMIT $6`, q.Key.App, q.Key.Type, q.Key.ID, q.After, actor.MessageNamesEnd, q.Limit)
	})
	if err != nil {
		return nil, "", err
	}
	return list, next, nil
}

// Inbox implements [store.Reminders].
func (s *reminders) Inbox(ctx context.Context, key actor.Key, limit int) (size store.InboxSize, err error) {
	if err := store.ValidateInbox(key, limit); err != nil {
		return size, err
	}
	err = s.readFor(ctx, share(key.App), "count the messages to an actor", func(ctx context.Context, conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, `SELECT count(*), coalesce(sum(m.bytes), 0)::int8 FROM (
				SELECT octet_length(r.payload)::int8 AS bytes FROM greenroom_reminder AS r
				WHERE r.app = $1 AND r.type = $2 AND r.id = $3 AND r.name < $4 LIMIT $5) AS m`,
			key.App, key.Type, key.ID, actor.MessageNamesEnd, limit).Scan(&size.Messages, &size.Bytes)
	})
	return size, err
}

const countReminders = `SELECT r.type, r.id, r.name FROM greenroom_reminder AS r
	WHERE r.app = $1 AND (r.type, r.id, r.name) > ($2, $3, $4) ORDER BY r.type, r.id, r.name LIMIT $5`

// CountReminders implements [store.Reminders]. It reads names alone, which the index has.
func (s *reminders) CountReminders(ctx context.Context, app string, after actor.ReminderName, limit int) (count store.ReminderCount, next actor.ReminderName, err error) {
	if err := store.ValidateReminderCount(app, limit); err != nil {
		return count, next, err
	}
	err = s.readFor(ctx, share(app), "count reminders", func(ctx context.Context, conn *pgxpool.Conn) error {
		count, next = store.ReminderCount{}, actor.ReminderName{}
		n := 0
		at := actor.ReminderName{Key: actor.Key{App: app}}
		return each(ctx, conn, []any{&at.Key.Type, &at.Key.ID, &at.Name}, func() error {
			count.Add(at.Name)
			if n++; n == limit {
				next = at
			}
			return nil
		}, countReminders, app, after.Key.Type, after.Key.ID, after.Name, limit)
	})
	if err != nil {
		return store.ReminderCount{}, actor.ReminderName{}, err
	}
	return count, next, nil
}
