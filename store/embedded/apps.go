package embedded

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/greenroom-run/greenroom/store"
)

// ListApps implements [store.Modules]. The first apps of modules and the first of
// types, as many of each as are asked for, are enough to find the first of both.
func (s *Store) ListApps(ctx context.Context, after string, limit int) ([]store.AppInfo, error) {
	if err := store.ValidateLimit(limit); err != nil {
		return nil, err
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	snap := s.db.NewSnapshot()
	defer func() { _ = snap.Close() }()
	f := s.flights.latest.Load()
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
