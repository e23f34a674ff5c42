package sqlstore

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// deployments keeps which module serves each type.
type deployments struct{ *db }

// Deploy appends the deployments in one transaction, which holds the rows of
// their modules against DeleteModule, and the row of the app against other Deploy that ask for
// a revision.
func (s *deployments) Deploy(ctx context.Context, ds []actor.Deployment, revision uint64) error {
	if err := store.ValidateDeployments(ds); err != nil || len(ds) == 0 {
		return err
	}
	sorted := slices.SortedFunc(slices.Values(ds), func(a, b actor.Deployment) int { return cmp.Compare(a.Type, b.Type) })
	var digests []string
	for _, d := range ds {
		if !d.Undeployed() {
			digests = append(digests, string(d.Digest))
		}
	}
	slices.Sort(digests)
	digests = slices.Compact(digests)
	// Marks this call's rows, so that it knows them when it runs again.
	id := uuid(newUUID())
	return s.transaction(ctx, share(ds[0].App), "deploy", func(ctx context.Context, tx pgx.Tx) error {
		if revision != store.AnyRevision { // before the rows of modules, as finishUpload
			if err := lockApp(ctx, tx, ds[0].App, 0); err != nil {
				return err
			}
		}
		rows, err := tx.Query(ctx, `SELECT m.digest FROM unnest($2::text[]) AS d (digest)
			JOIN greenroom_module AS m ON m.app = $1 AND m.digest = d.digest ORDER BY m.digest FOR UPDATE OF m`, ds[0].App, digests)
		if err != nil {
			return err
		}
		found, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		done, err := deployed(ctx, tx, sorted[0], id)
		if err != nil {
			return err
		}
		if done {
			return errDone
		}
		if len(found) != len(digests) {
			return actor.ErrModuleNotFound
		}
		if revision != store.AnyRevision {
			var now int64
			if err := tx.QueryRow(ctx, `SELECT (1 + COALESCE(sum(generation), 0))::int8 FROM greenroom_type WHERE app = $1`, ds[0].App).Scan(&now); err != nil {
				return err
			}
			if uint64(now) != revision {
				return actor.ErrDeployConflict
			}
		}
		for _, d := range sorted {
			if err := deployOne(ctx, tx, d, id); err != nil {
				return err
			}
		}
		return nil
	})
}

// lockApp holds the row of an app that uploads and deployments follow each other by, and counts uploads.
func lockApp(ctx context.Context, tx pgx.Tx, app string, uploads int) error {
	_, err := tx.Exec(ctx, `INSERT INTO greenroom_module_app AS a (app, uploads) VALUES ($1, $2)
		ON CONFLICT (app) DO UPDATE SET uploads = a.uploads + $2`, app, uploads)
	return err
}

// deployed reports whether this call's transaction has already happened.
func deployed(ctx context.Context, tx pgx.Tx, d actor.Deployment, id uuid) (bool, error) {
	var done bool
	err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM greenroom_deployment
		WHERE app = $1 AND type = $2 AND generation = $3 AND deploy_id = $4)`,
		d.App, d.Type, int64(d.Generation), id).Scan(&done)
	return done, err
}

// deployOne moves the type's pointer on, fenced by its generation, and keeps the
// history.
func deployOne(ctx context.Context, tx pgx.Tx, d actor.Deployment, id uuid) error {
	statement := `UPDATE greenroom_type SET generation = $3, digest = $4 WHERE app = $1 AND type = $2 AND generation = $3::int8 - 1`
	if d.Generation == 1 {
		statement = `INSERT INTO greenroom_type (app, type, generation, digest) VALUES ($1, $2, $3, $4) ON CONFLICT (app, type) DO NOTHING`
	}
	tag, err := tx.Exec(ctx, statement, d.App, d.Type, int64(d.Generation), string(d.Digest))
	if err != nil {
		return err
	}
	if tag.RowsAffected() == 0 {
		return actor.ErrDeployConflict
	}
	_, err = tx.Exec(ctx, `INSERT INTO greenroom_deployment
		(app, type, generation, digest, state_schema, rolled_back_from, message, deploy_id, placement, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, clock_timestamp())`,
		d.App, d.Type, int64(d.Generation), string(d.Digest), int64(d.StateSchema), int64(d.RolledBackFrom), d.Message, id, d.Placement)
	return err
}

const deploymentColumns = `d.app, d.type, d.generation, d.digest, d.state_schema, d.rolled_back_from, d.message, d.placement, d.created_at`

func scanDeployment(row pgx.CollectableRow) (actor.Deployment, error) {
	var d actor.Deployment
	var digest string
	var generation, schema, from int64
	var at time.Time
	err := row.Scan(&d.App, &d.Type, &generation, &digest, &schema, &from, &d.Message, &d.Placement, &at)
	d.Generation, d.Digest, d.StateSchema = uint64(generation), actor.Digest(digest), uint32(schema)
	d.RolledBackFrom, d.CreatedAt = uint64(from), at.UTC()
	return d, err
}

// Deployments reads what serves now.
func (s *deployments) Deployments(ctx context.Context, app string) ([]actor.Deployment, error) {
	apps, of := "t.app = $1", share(app)
	if app == "" {
		apps, of = "t.app > $1", hostItself // all of them, as a range
	}
	return query(ctx, s.db, of, "read deployments", scanDeployment, `SELECT `+deploymentColumns+` FROM greenroom_type AS t
		JOIN greenroom_deployment AS d ON d.app = t.app AND d.type = t.type AND d.generation = t.generation
		WHERE `+apps+` ORDER BY d.app, d.type`, app)
}

// DeploymentHistory reads a page of a type's deployments, newest first.
func (s *deployments) DeploymentHistory(ctx context.Context, app, typ string, before uint64, limit int) ([]actor.Deployment, error) {
	if err := store.ValidateLimit(limit); err != nil {
		return nil, err
	}
	if before == 0 || before > math.MaxInt64 {
		before = math.MaxInt64
	}
	return query(ctx, s.db, share(app), "read deployment history", scanDeployment, `SELECT `+deploymentColumns+` FROM greenroom_deployment AS d
		WHERE d.app = $1 AND d.type = $2 AND d.generation < $3 ORDER BY d.app, d.type, d.generation DESC LIMIT $4`,
		app, typ, int64(before), limit)
}

// ListApps reads a page of the apps. What each one has is counted by its own keys.
func (s *deployments) ListApps(ctx context.Context, after string, limit int) ([]store.AppInfo, error) {
	if err := store.ValidateLimit(limit); err != nil {
		return nil, err
	}
	return query(ctx, s.db, listsOfApps, "list apps", scanApp, `WITH apps AS (
				SELECT app FROM greenroom_module WHERE app > $1 UNION SELECT app FROM greenroom_type WHERE app > $1
				ORDER BY app LIMIT $2
			), module_counts AS (
				SELECT app, count(*) AS modules FROM greenroom_module WHERE app IN (SELECT app FROM apps) GROUP BY app
			), type_counts AS (
				SELECT t.app, count(*) FILTER (WHERE t.digest <> '') AS types, max(d.created_at) AS deployed_at FROM greenroom_type AS t
				JOIN greenroom_deployment AS d ON d.app = t.app AND d.type = t.type AND d.generation = t.generation
				WHERE t.app IN (SELECT app FROM apps) GROUP BY t.app
			)
			SELECT a.app, coalesce(t.types, 0), coalesce(m.modules, 0), t.deployed_at FROM apps AS a
			LEFT JOIN module_counts AS m ON m.app = a.app LEFT JOIN type_counts AS t ON t.app = a.app ORDER BY a.app`, after, limit)
}

func scanApp(row pgx.CollectableRow) (store.AppInfo, error) {
	var a store.AppInfo
	var at *time.Time
	err := row.Scan(&a.App, &a.Types, &a.Modules, &at)
	if at != nil {
		a.DeployedAt = at.UTC()
	}
	return a, err
}
