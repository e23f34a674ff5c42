package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-run/greenroom/actor"
)

// cluster keeps hosts and leases.
//
// Every method uses the connections for leases, since a host lives by it. It is one
// statement, or two with an idempotent first one, and all may be done twice: a lost answer is
// a reason to ask again. Times are now(), which is when the statement began: never later than
// the moment at which its condition held, so that a lease is never taken for over before it
// is, and lasts for at most its length from then on. A renewal never moves an end back: one
// that the server held up may come after a later one, on whose end its holder counts.
type cluster struct{ *db }

// exec runs a statement that is the same when done twice, and returns how many rows it
// changed the last time.
func (s *cluster) exec(ctx context.Context, name, statement string, args ...any) (changed int64, err error) {
	err = s.read(ctx, name, func(ctx context.Context) error {
		tag, err := s.leases.Exec(ctx, statement, args...)
		changed = tag.RowsAffected()
		return err
	})
	return changed, err
}

func (s *cluster) RegisterHost(ctx context.Context, h actor.Host, length time.Duration) (actor.Host, error) {
	err := s.read(ctx, "register host", func(ctx context.Context) error {
		if _, err := s.leases.Exec(ctx, `INSERT INTO greenroom_cluster (id, name) VALUES (1, $1) ON CONFLICT (id) DO NOTHING`, h.Cluster); err != nil {
			return err
		}
		err := s.leases.QueryRow(ctx, `INSERT INTO greenroom_host (id, name, address, roles, version, min_protocol, max_protocol, started_at, expires_at)
			SELECT $1, $2, $3, $4, $5, $6, $7, now(), now() + $8::interval FROM greenroom_cluster WHERE id = 1 AND name = $9
			ON CONFLICT (id) DO UPDATE SET expires_at = GREATEST(greenroom_host.expires_at, excluded.expires_at)
			RETURNING started_at, expires_at`,
			string(h.ID), h.Name, h.Address, strings.Join(h.Roles, ","), h.Version, h.MinProtocol, h.MaxProtocol, length, h.Cluster).
			Scan(&h.StartedAt, &h.ExpiresAt)
		if errors.Is(err, pgx.ErrNoRows) {
			var name string
			if err := s.leases.QueryRow(ctx, `SELECT name FROM greenroom_cluster WHERE id = 1`).Scan(&name); err != nil {
				return err
			}
			return fmt.Errorf("the database belongs to cluster %q, and this host is to join %q: give it a database of its own, or start it with that --cluster-name: %w", name, h.Cluster, actor.ErrClusterName)
		}
		return err
	})
	if err == nil && s.sessions.rename(h.ID) {
		for _, pool := range s.pools.all() {
			pool.Reset() // connections without the name end when nobody uses them any more
		}
	}
	h.StartedAt, h.ExpiresAt = h.StartedAt.UTC(), h.ExpiresAt.UTC()
	return h, err
}

func (s *cluster) RenewHost(ctx context.Context, id actor.HostID, length time.Duration, sticky int) (now time.Time, err error) {
	err = s.read(ctx, "renew host", func(ctx context.Context) error {
		err := s.leases.QueryRow(ctx, `UPDATE greenroom_host SET expires_at = GREATEST(expires_at, now() + $2::interval), sticky = $3 WHERE id = $1 RETURNING now()`, string(id), length, sticky).Scan(&now)
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("host %s: %w", id, actor.ErrHostGone)
		}
		return err
	})
	return now.UTC(), err
}

func (s *cluster) RemoveHost(ctx context.Context, id actor.HostID) error {
	_, err := s.exec(ctx, "remove host", `DELETE FROM greenroom_host WHERE id = $1`, string(id))
	return err
}

func (s *cluster) ClearHost(ctx context.Context, id actor.HostID, lease string, epoch uint64) (gone bool, err error) {
	// One of its sessions may have locked its row as well: then the next try finds it free.
	// To wait for the end of its sessions is for those who need rows that they have locked:
	// the database may take seconds to list them, and the actors of several hosts wait here.
	s.sessions.clear()
	err = s.read(ctx, "clear host", func(ctx context.Context) error {
		// A renewal that comes first is seen by the condition on the row itself.
		if _, err := s.leases.Exec(ctx, `DELETE FROM greenroom_host WHERE id = $1 AND expires_at <= now()
			AND EXISTS (SELECT 1 FROM greenroom_lease WHERE name = $2 AND epoch = $3 AND expires_at > now())`, string(id), lease, int64(epoch)); err != nil {
			return err
		}
		return s.leases.QueryRow(ctx, `SELECT NOT EXISTS (SELECT 1 FROM greenroom_host WHERE id = $1)`, string(id)).Scan(&gone)
	})
	return gone && err == nil, err
}

func (s *cluster) Hosts(ctx context.Context) (hosts []actor.Host, now time.Time, err error) {
	err = s.read(ctx, "list hosts", func(ctx context.Context) error {
		hosts = nil
		rows, err := s.leases.Query(ctx, `SELECT now(), h.id, h.name, h.address, h.roles, h.version, h.min_protocol, h.max_protocol, h.sticky, h.started_at, h.expires_at,
			(SELECT c.name FROM greenroom_cluster c WHERE c.id = 1) FROM greenroom_host h
			WHERE h.id > '' ORDER BY h.id`) // all of them, as a range
		if err != nil {
			return err
		}
		hosts, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (actor.Host, error) {
			var h actor.Host
			var roles string
			err := row.Scan(&now, &h.ID, &h.Name, &h.Address, &roles, &h.Version, &h.MinProtocol, &h.MaxProtocol, &h.Sticky, &h.StartedAt, &h.ExpiresAt, &h.Cluster)
			if roles != "" {
				h.Roles = strings.Split(roles, ",")
			}
			h.StartedAt, h.ExpiresAt = h.StartedAt.UTC(), h.ExpiresAt.UTC()
			return h, err
		})
		if err != nil || len(hosts) > 0 {
			return err
		}
		return s.leases.QueryRow(ctx, `SELECT now()`).Scan(&now)
	})
	return hosts, now.UTC(), err
}

func (s *cluster) AcquireLease(ctx context.Context, name string, holder actor.HostID, length time.Duration) (l actor.Lease, taken bool, err error) {
	l = actor.Lease{Name: name, Holder: holder}
	err = s.read(ctx, "acquire lease", func(ctx context.Context) error {
		err := s.leases.QueryRow(ctx, `INSERT INTO greenroom_lease AS l (name, holder, epoch, expires_at) VALUES ($1, $2, 1, now() + $3::interval)
			ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, epoch = l.epoch + 1, expires_at = excluded.expires_at
			WHERE l.expires_at <= now() OR l.holder = excluded.holder
			RETURNING epoch, expires_at`, name, string(holder), length).Scan(&l.Epoch, &l.ExpiresAt)
		taken = err == nil
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	if err != nil || !taken {
		return actor.Lease{}, false, err
	}
	l.ExpiresAt = l.ExpiresAt.UTC()
	return l, true, nil
}

func (s *cluster) RenewLease(ctx context.Context, l actor.Lease, length time.Duration) (held bool, err error) {
	changed, err := s.exec(ctx, "renew lease", `UPDATE greenroom_lease SET expires_at = GREATEST(expires_at, now() + $4::interval) WHERE name = $1 AND holder = $2 AND epoch = $3`,
		l.Name, string(l.Holder), int64(l.Epoch), length)
	return changed > 0 && err == nil, err
}

func (s *cluster) ReleaseLease(ctx context.Context, l actor.Lease) error {
	_, err := s.exec(ctx, "release lease", `UPDATE greenroom_lease SET expires_at = now() WHERE name = $1 AND holder = $2 AND epoch = $3`,
		l.Name, string(l.Holder), int64(l.Epoch))
	return err
}

func (s *cluster) Lease(ctx context.Context, name string) (l actor.Lease, found bool, err error) {
	l.Name = name
	err = s.read(ctx, "read lease", func(ctx context.Context) error {
		err := s.leases.QueryRow(ctx, `SELECT holder, epoch, expires_at FROM greenroom_lease WHERE name = $1`, name).Scan(&l.Holder, &l.Epoch, &l.ExpiresAt)
		found = err == nil
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	if err != nil || !found {
		return actor.Lease{}, false, err
	}
	l.ExpiresAt = l.ExpiresAt.UTC()
	return l, true, nil
}

func (s *cluster) Leases(ctx context.Context, prefix string) (leases []actor.Lease, now time.Time, err error) {
	err = s.read(ctx, "read leases", func(ctx context.Context) error {
		// A bound above, not LIKE: the names are in byte order, and so is the index.
		rows, err := s.leases.Query(ctx, `SELECT now(), name, holder, epoch, expires_at FROM greenroom_lease WHERE name >= $1 AND name < $2 ORDER BY name`,
			prefix, prefix+"\U0010ffff")
		if err != nil {
			return err
		}
		leases, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (actor.Lease, error) {
			var l actor.Lease
			err := row.Scan(&now, &l.Name, &l.Holder, &l.Epoch, &l.ExpiresAt)
			l.ExpiresAt = l.ExpiresAt.UTC()
			return l, err
		})
		if err != nil || len(leases) > 0 {
			return err
		}
		return s.leases.QueryRow(ctx, `SELECT now()`).Scan(&now)
	})
	return leases, now.UTC(), err
}
