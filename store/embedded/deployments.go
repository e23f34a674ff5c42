package embedded

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

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

// Deploy implements [store.Modules].
func (s *Store) Deploy(ctx context.Context, ds []actor.Deployment) error {
	if err := store.ValidateDeployments(ds); err != nil {
		return err
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	return s.write(ctx, writeOptions{}, func(tx *tx) error {
		for _, d := range ds {
			if err := tx.deploy(d); err != nil {
				return err
			}
		}
		return nil
	})
}

func (t *tx) deploy(d actor.Deployment) error {
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
	record, err := encodeRecord(key, deploymentRecord{
		Digest: d.Digest, StateSchema: d.StateSchema, RolledBackFrom: d.RolledBackFrom, Message: d.Message, Placement: d.Placement, CreatedAt: t.now,
	})
	if err != nil {
		return err
	}
	t.set(key, record)
	t.set(currentKey(d.App, d.Type), binary.BigEndian.AppendUint64(nil, d.Generation))
	t.stamp()
	return nil
}

// Deployments implements [store.Modules].
func (s *Store) Deployments(ctx context.Context, app string) ([]actor.Deployment, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	snap := s.db.NewSnapshot()
	defer func() { _ = snap.Close() }()
	f := s.flights.latest.Load()
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

// DeploymentHistory implements [store.Modules].
func (s *Store) DeploymentHistory(ctx context.Context, app, typ string, before uint64, limit int) ([]actor.Deployment, error) {
	if err := store.ValidateLimit(limit); err != nil {
		return nil, err
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	prefix := deployPrefix(app, typ)
	to := prefixEnd(prefix)
	if before != 0 {
		to = deployKey(app, typ, before)
	}
	it, err := s.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: prefix, UpperBound: to})
	if err != nil {
		return nil, unavailable(err)
	}
	f := s.flights.latest.Load()
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
	return ds, s.await(ctx, f)
}
