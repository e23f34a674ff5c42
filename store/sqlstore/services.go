package sqlstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// services reads who stands for services. Commits change it: serviceColumns.
type services struct{ *db }

func (s *services) FindService(ctx context.Context, app, name string) (actor.Service, error) {
	if err := actor.ValidateService(name); err != nil {
		return actor.Service{}, err
	}
	list, err := query(ctx, s.db, share(app), "find a service", scanService(app),
		`SELECT name, type, id, claimed_at FROM greenroom_service WHERE app = $1 AND name = $2`, app, name)
	if err != nil || len(list) == 0 {
		return actor.Service{}, err
	}
	return list[0], nil
}

func (s *services) ListServices(ctx context.Context, q actor.ServiceQuery) ([]actor.Service, error) {
	if err := store.ValidateServiceQuery(&q); err != nil {
		return nil, err
	}
	from, end := q.Prefix, store.TextAfter(q.Prefix)
	if end == "" {
		end = "\U0010FFFF\U0010FFFF" // above every name
	}
	return query(ctx, s.db, share(q.App), "list services", scanService(q.App),
		`SELECT name, type, id, claimed_at FROM greenroom_service
		WHERE app = $1 AND name >= $2 AND name < $3 AND name > $4 ORDER BY name LIMIT $5`, q.App, from, end, q.After, q.Limit)
}

func scanService(app string) pgx.RowToFunc[actor.Service] {
	return func(row pgx.CollectableRow) (v actor.Service, err error) {
		v.Actor.App = app
		err = row.Scan(&v.Name, &v.Actor.Type, &v.Actor.ID, &v.ClaimedAt)
		v.ClaimedAt = v.ClaimedAt.UTC()
		return v, err
	}
}

const (
	// claimServices returns the names that the actor stands for afterwards.
	claimServices = `INSERT INTO greenroom_service AS v (app, name, type, id, claimed_at)
SELECT c.app, c.name, c.type, c.id, clock_timestamp() FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS c (app, name, type, id)
ON CONFLICT (app, name) DO UPDATE SET claimed_at = v.claimed_at WHERE v.type = excluded.type AND v.id = excluded.id
RETURNING v.name`

	releaseServices = `DELETE FROM greenroom_service AS v USING unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS c (app, name, type, id)
WHERE v.app = c.app AND v.name = c.name AND v.type = c.type AND v.id = c.id`

	// releaseServicesOf releases those of actors that a commit has deleted. One that did not hold
	// has not written the row.
	releaseServicesOf = `DELETE FROM greenroom_service AS v USING unnest($1::text[], $2::text[], $3::text[], $4::uuid[]) AS c (app, type, id, commit_id)
WHERE v.app = c.app AND v.type = c.type AND v.id = c.id
	AND EXISTS (SELECT 1 FROM greenroom_actor AS a WHERE a.app = c.app AND a.type = c.type AND a.id = c.id AND a.commit_id = c.commit_id)`
)

// changeServices does in a transaction what a commit does to services; [actor.ErrServiceTaken] if
// another actor stands for one that it claims.
func changeServices(ctx context.Context, tx pgx.Tx, c *actor.Commit) error {
	var claims, releases struct{ apps, names, types, ids texts }
	for i := range c.Services {
		v, to := &c.Services[i], &claims
		if v.Release {
			to = &releases
		}
		to.apps, to.names = append(to.apps, v.Actor.App), append(to.names, v.Name)
		to.types, to.ids = append(to.types, v.Actor.Type), append(to.ids, v.Actor.ID)
	}
	if len(releases.ids) > 0 {
		if _, err := tx.Exec(ctx, releaseServices, releases.apps, releases.names, releases.types, releases.ids); err != nil {
			return fmt.Errorf("release services: %w", err)
		}
	}
	if len(claims.ids) > 0 {
		tag, err := tx.Exec(ctx, claimServices, claims.apps, claims.names, claims.types, claims.ids)
		if err != nil {
			return fmt.Errorf("claim services: %w", err)
		}
		if tag.RowsAffected() < int64(len(claims.ids)) {
			return &finalError{actor.ErrServiceTaken}
		}
	}
	return nil
}
