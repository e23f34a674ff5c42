package embedded

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// deployments keeps which module serves each type.
type deployments struct{ *writer }

// deploymentRecord is a deployment as it is stored.
type deploymentRecord struct {
	Digest         actor.Digest `json:"digest"`
	StateSchema    uint32       `json:"state_schema,omitempty"`
	RolledBackFrom uint64       `json:"rolled_back_from,omitempty"`
	Message        string       `json:"message,omitempty"`
	Placement      string       `json:"placement,omitempty"`
	CreatedAt      int64        `json:"created_at"` // microseconds since 1970
}

func decodeDeployment(key, value []byte, app, typ string, generation uint64) (actor.Deployment, error) {
	var r deploymentRecord
	if err := decodeRecord(key, value, &r); err != nil {
		return actor.Deployment{}, err
	}
	return actor.Deployment{
		App: app, Type: typ, Generation: generation, Digest: r.Digest, StateSchema: r.StateSchema,
		RolledBackFrom: r.RolledBackFrom, Message: r.Message, Placement: r.Placement, CreatedAt: time.UnixMicro(r.CreatedAt).UTC(),
	}, nil
}

func (s *deployments) Deploy(ctx context.Context, ds []actor.Deployment, revision uint64) error {
	if err := store.ValidateDeployments(ds); err != nil || len(ds) == 0 {
		return err
	}
	return s.update(ctx, writeOptions{}, func(tx *tx) error {
		if revision != store.AnyRevision {
			current, err := currentDeployments(ctx, tx.db, ds[0].App)
			if err != nil {
				return err
			}
			if now := store.Revision(current); now != revision {
				return fmt.Errorf("app %s is at revision %d, and revision %d was to be changed: %w", ds[0].App, now, revision, actor.ErrDeployConflict)
			}
		}
		for _, d := range ds {
			if err := deploy(tx, d); err != nil {
				return err
			}
		}
		return nil
	})
}

func deploy(t *tx, d actor.Deployment) error {
	if !d.Undeployed() {
		if module, err := t.get(moduleKey(d.App, d.Digest)); err != nil {
			return unavailable(err)
		} else if module == nil {
			return fmt.Errorf("module %s of app %s: %w", d.Digest.Short(), d.App, actor.ErrModuleNotFound)
		}
	}
	current, err := t.get(currentKey(d.App, d.Type))
	if err != nil {
		return unavailable(err)
	}
	var generation uint64
	if len(current) == 8 {
		generation = binary.BigEndian.Uint64(current)
	}
	if d.Generation != generation+1 {
		return fmt.Errorf("type %s of app %s is at generation %d, and %d was to be deployed: %w", d.Type, d.App, generation, d.Generation, actor.ErrDeployConflict)
	}
	key := deployKey(d.App, d.Type, d.Generation)
	err = t.setRecord(key, deploymentRecord{
		Digest: d.Digest, StateSchema: d.StateSchema, RolledBackFrom: d.RolledBackFrom, Message: d.Message, Placement: d.Placement, CreatedAt: t.now,
	})
	t.set(currentKey(d.App, d.Type), binary.BigEndian.AppendUint64(nil, d.Generation))
	return err
}

func (s *deployments) Deployments(ctx context.Context, app string) ([]actor.Deployment, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	snap := s.db.NewSnapshot()
	defer func() { _ = snap.Close() }()
	f := s.syncs.latest.Load()
	ds, err := currentDeployments(ctx, snap, app)
	if err != nil {
		return nil, err
	}
	return ds, s.await(ctx, f)
}

// currentDeployments reads what serves the types of an app, or of all.
func currentDeployments(ctx context.Context, r pebble.Reader, app string) ([]actor.Deployment, error) {
	prefix := currentPrefix(app)
	it, err := r.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: prefix, UpperBound: prefixEnd(prefix)})
	if err != nil {
		return nil, unavailable(err)
	}
	var ds []actor.Deployment
	err = visitAll(ctx, it, func(key, value []byte) (more bool, err error) {
		app, typ, ok := strings.Cut(string(key[len(currentSpace):]), "\x00")
		if !ok || len(value) != 8 {
			return false, fmt.Errorf("entry %q of the current deployments is damaged", key)
		}
		generation := binary.BigEndian.Uint64(value)
		at := deployKey(app, typ, generation)
		record, err := get(r, at)
		if err != nil {
			return false, unavailable(err)
		}
		d, err := decodeDeployment(at, record, app, typ, generation)
		ds = append(ds, d)
		return true, err
	})
	return ds, err
}

func (s *deployments) DeploymentHistory(ctx context.Context, app, typ string, before uint64, limit int) ([]actor.Deployment, error) {
	if err := store.ValidateLimit(limit); err != nil {
		return nil, err
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	f := s.syncs.latest.Load()
	ds, err := deploymentsBefore(ctx, s.db, app, typ, before, limit)
	if err != nil {
		return nil, err
	}
	return ds, s.await(ctx, f)
}

// deploymentsBefore reads the newest deployments of a type, as DeploymentHistory returns them.
func deploymentsBefore(ctx context.Context, r pebble.Reader, app, typ string, before uint64, limit int) ([]actor.Deployment, error) {
	prefix := deployPrefix(app, typ)
	to := prefixEnd(prefix)
	if before != 0 {
		to = deployKey(app, typ, before)
	}
	it, err := r.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: prefix, UpperBound: to})
	if err != nil {
		return nil, unavailable(err)
	}
	var ds []actor.Deployment
	for ok := it.Last(); ok && len(ds) < limit; ok = it.Prev() {
		key := bytes.Clone(it.Key())
		value, err := it.ValueAndErr()
		if err == nil {
			var d actor.Deployment
			d, err = decodeDeployment(key, value, app, typ, binary.BigEndian.Uint64(key[len(prefix):]))
			ds = append(ds, d)
		}
		if err != nil {
			return nil, errors.Join(unavailable(err), it.Close())
		}
	}
	if err := it.Close(); err != nil {
		return nil, unavailable(err)
	}
	return ds, nil
}

// ListApps implements [store.Modules]. The first apps of modules and the first of
// types, as many of each as are asked for, are enough to find the first of both.
func (s *deployments) ListApps(ctx context.Context, after string, limit int) ([]store.AppInfo, error) {
	if err := store.ValidateLimit(limit); err != nil {
		return nil, err
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	snap := s.db.NewSnapshot()
	defer func() { _ = snap.Close() }()
	f := s.syncs.latest.Load()
	infos := make(map[string]*store.AppInfo)
	info := func(app string) *store.AppInfo {
		if infos[app] == nil {
			infos[app] = &store.AppInfo{App: app}
		}
		return infos[app]
	}
	err := visitApps(ctx, snap, moduleSpace, after, limit, func(app string, _, _ []byte) error {
		info(app).Modules++
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = visitApps(ctx, snap, currentSpace, after, limit, func(app string, typ, value []byte) error {
		if len(value) != 8 {
			return fmt.Errorf("the entry of %s.%s in the current deployments is damaged", app, typ)
		}
		generation := binary.BigEndian.Uint64(value)
		key := deployKey(app, string(typ), generation)
		record, err := get(snap, key)
		if err != nil {
			return unavailable(err)
		}
		d, err := decodeDeployment(key, record, app, string(typ), generation)
		if err != nil {
			return err
		}
		a := info(app)
		if !d.Undeployed() {
			a.Types++
		}
		if d.CreatedAt.After(a.DeployedAt) {
			a.DeployedAt = d.CreatedAt
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var list []store.AppInfo
	for _, app := range slices.Sorted(maps.Keys(infos))[:min(limit, len(infos))] {
		list = append(list, *infos[app])
	}
	return list, s.await(ctx, f)
}

// visitApps calls visit for each key of the first apps above after that a keyspace
// has, at most limit of them; name is what follows the app in the key.
func visitApps(ctx context.Context, r pebble.Reader, space, after string, limit int, visit func(app string, name, value []byte) error) error {
	from := []byte(space)
	if after != "" {
		from = prefixEnd([]byte(space + after + "\x00"))
	}
	it, err := r.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: from, UpperBound: prefixEnd([]byte(space))})
	if err != nil {
		return unavailable(err)
	}
	apps, last := 0, ""
	return visitAll(ctx, it, func(key, value []byte) (more bool, err error) {
		app, name, ok := bytes.Cut(key[len(space):], []byte{0})
		if !ok {
			return false, fmt.Errorf("key %q is damaged", key)
		}
		if string(app) != last {
			apps, last = apps+1, string(app)
		}
		if apps > limit {
			return false, nil
		}
		return true, visit(last, name, value)
	})
}
