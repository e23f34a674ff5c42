package sqlstore

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// actorEvents keeps the events that actors publish.
type actorEvents struct{ *db }

const (
	// insertEvents writes the events of the commits that held: their rows have their IDs.
	insertEvents = `INSERT INTO greenroom_event (app, type, id, version, idx, life, name, content_type, payload, created_at, link)
SELECT c.app, c.type, c.id, c.version, c.idx, c.life, c.name, c.content_type, c.payload, clock_timestamp(), NULLIF(c.link, '')
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::int8[], $6::int8[], $7::int8[], $8::text[], $9::text[], $10::bytea[], $11::text[])
	AS c (commit_id, app, type, id, version, idx, life, name, content_type, payload, link)
JOIN greenroom_actor AS a ON a.app = c.app AND a.type = c.type AND a.id = c.id AND a.commit_id = c.commit_id
ON CONFLICT DO NOTHING`

	// removeEventsOf removes the events of the actors whose deletion held.
	removeEventsOf = `DELETE FROM greenroom_event AS e USING unnest($1::uuid[], $2::text[], $3::text[], $4::text[]) AS c (commit_id, app, type, id),
	greenroom_actor AS a
WHERE e.app = c.app AND e.type = c.type AND e.id = c.id AND a.app = c.app AND a.type = c.type AND a.id = c.id AND a.commit_id = c.commit_id`

	eventFields = `e.version, e.idx, e.life, e.name, e.content_type, e.payload, e.created_at, COALESCE(e.link, '')`

	readEvents = `SELECT ` + eventFields + ` FROM greenroom_event AS e
WHERE e.app = $1 AND e.type = $2 AND e.id = $3 AND (e.version, e.idx) > ($4, $5)
ORDER BY e.app, e.type, e.id, e.version, e.idx LIMIT $6`

	newestEvent = `SELECT version, idx FROM greenroom_event WHERE app = $1 AND type = $2 AND id = $3
ORDER BY app DESC, type DESC, id DESC, version DESC, idx DESC LIMIT 1`

	// markTrimmed leaves the position of the newest event that is not kept, and removeTrimmed
	// removes those before it.
	markTrimmed = `UPDATE greenroom_event AS e SET name = '', content_type = '', payload = '', link = NULL FROM (
	SELECT k.version, k.idx, k.n FROM (
		SELECT version, idx, created_at, row_number() OVER newest AS n, sum(octet_length(name) + octet_length(payload)) OVER newest AS bytes
		FROM greenroom_event WHERE app = $1 AND type = $2 AND id = $3 AND name <> ''
		WINDOW newest AS (ORDER BY version DESC, idx DESC)
	) AS k WHERE k.n > $4 OR k.bytes > $5::int8 OR k.created_at < $6
	ORDER BY k.version DESC, k.idx DESC LIMIT 1
) AS cut WHERE e.app = $1 AND e.type = $2 AND e.id = $3 AND e.version = cut.version AND e.idx = cut.idx`

	removeTrimmed = `DELETE FROM greenroom_event AS e WHERE e.app = $1 AND e.type = $2 AND e.id = $3
AND (e.version, e.idx) < (SELECT m.version, m.idx FROM greenroom_event AS m WHERE m.app = $1 AND m.type = $2 AND m.id = $3 AND m.name = ''
	ORDER BY m.version DESC, m.idx DESC LIMIT 1)`
)

// scannedEvent is a row of events.
type scannedEvent struct {
	version, idx, life int64
	name, contentType  string
	link               string
	payload            []byte
	at                 time.Time
}

func (s *scannedEvent) targets() []any {
	return []any{&s.version, &s.idx, &s.life, &s.name, &s.contentType, &s.payload, &s.at, &s.link}
}

func (s *scannedEvent) event() actor.Event {
	return actor.Event{
		Position: actor.EventPosition{Version: uint64(s.version), Index: uint32(s.idx)}, Life: uint64(s.life), Name: s.name,
		Payload: actor.Payload{ContentType: s.contentType, Data: slices.Clone(s.payload)}, At: s.at.UTC(), Link: actor.ParseSpanLink(s.link),
	}
}

// ReadEvents implements [store.Events]. A trim between its two statements shows in the second.
func (s *actorEvents) ReadEvents(ctx context.Context, q actor.EventQuery) (page actor.EventPage, err error) {
	if err := store.ValidateEventQuery(&q); err != nil {
		return actor.EventPage{}, err
	}
	k := q.Key
	err = s.readFor(ctx, share(k.App), "read events", func(ctx context.Context, conn *pgxpool.Conn) error {
		page = actor.EventPage{}
		var e scannedEvent
		bytes, full := 0, false
		// One row more than asked for: the position up to which events were trimmed is one, too.
		visit := func() error {
			if bytes += len(e.name) + len(e.payload); q.MaxBytes > 0 && bytes > q.MaxBytes && len(page.Events) > 0 {
				full = true
			}
			if e.name != "" && !full && len(page.Events) < q.Limit {
				page.Events = append(page.Events, e.event())
			}
			return nil
		}
		if err := each(ctx, conn, e.targets(), visit, readEvents, k.App, k.Type, k.ID, int64(q.After.Version), int64(q.After.Index), q.Limit+1); err != nil {
			return err
		}
		return each(ctx, conn, e.targets(), func() error {
			if e.name == "" {
				page.Trimmed = e.event().Position
			}
			return nil
		}, readEvents, k.App, k.Type, k.ID, int64(-1), int64(0), 1)
	})
	if err != nil {
		return actor.EventPage{}, err
	}
	return page, nil
}

// NewestEvent implements [store.Events].
func (s *actorEvents) NewestEvent(ctx context.Context, key actor.Key) (at actor.EventPosition, err error) {
	if err := key.Validate(); err != nil {
		return at, err
	}
	err = s.readFor(ctx, share(key.App), "read the newest event", func(ctx context.Context, conn *pgxpool.Conn) error {
		at = actor.EventPosition{}
		return each(ctx, conn, []any{&at.Version, &at.Index}, func() error { return nil }, newestEvent, key.App, key.Type, key.ID)
	})
	return at, err
}

// TrimEvents implements [store.Events].
func (s *actorEvents) TrimEvents(ctx context.Context, key actor.Key, keep actor.EventsKept) error {
	if err := store.ValidateEventsKept(key, keep); err != nil {
		return err
	}
	var before *time.Time
	if !keep.Before.IsZero() {
		before = &keep.Before
	}
	return s.readFor(ctx, share(key.App), "trim events", func(ctx context.Context, conn *pgxpool.Conn) error {
		_, err := conn.Exec(ctx, markTrimmed, key.App, key.Type, key.ID, keep.Count, keep.Bytes, before)
		if err == nil { // also if an earlier one was marked: what is before it may still be there
			_, err = conn.Exec(ctx, removeTrimmed, key.App, key.Type, key.ID)
		}
		return err
	})
}

// eventColumns are the events of a group, and the actors that it deletes, turned on their side.
type eventColumns struct {
	commitIDs               uuids
	keys                    keyColumns
	versions, indexes, life int8s
	names, contentTypes     texts
	links                   texts // empty: none
	payloads                byteas
	deletedBy               uuids
	deleted                 keyColumns
}

func (e *eventColumns) add(c *actor.Commit) {
	for _, p := range store.PlacedEvents(c) {
		e.commitIDs = append(e.commitIDs, uuid(c.ID))
		e.keys.add(p.Key)
		e.versions, e.indexes, e.life = append(e.versions, int64(p.Version)), append(e.indexes, int64(p.Index)), append(e.life, int64(p.Life))
		e.names, e.contentTypes, e.payloads = append(e.names, p.Name), append(e.contentTypes, p.Payload.ContentType), append(e.payloads, notNull(p.Payload.Data))
		e.links = append(e.links, p.Link.String())
	}
	for i := range c.Rows {
		if c.Rows[i].Delete && !c.Rows[i].NewLife { // otherwise they are kept as long as the type says
			e.deletedBy = append(e.deletedBy, uuid(c.ID))
			e.deleted.add(c.Rows[i].Key)
		}
	}
}

// queue adds the statements that write the events of the commits that held, behind those that
// decide.
func (e *eventColumns) queue(b *pgx.Batch) {
	if len(e.commitIDs) > 0 {
		k := &e.keys
		b.Queue(insertEvents, e.commitIDs, k.apps, k.types, k.ids, e.versions, e.indexes, e.life, e.names, e.contentTypes, e.payloads, e.links)
	}
	if len(e.deletedBy) > 0 {
		k := &e.deleted
		b.Queue(removeEventsOf, e.deletedBy, k.apps, k.types, k.ids)
	}
}
