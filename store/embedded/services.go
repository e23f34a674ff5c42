package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// services reads who stands for services. serviceWrites changes it.
type services struct{ *writer }

// serviceRecord is who stands for a service.
type serviceRecord struct {
	Type      string `json:"type"`
	ID        string `json:"id"`
	ClaimedAt int64  `json:"claimed_at"` // microseconds since 1970
}

func (r *serviceRecord) service(app, name string) actor.Service {
	return actor.Service{Name: name, Actor: actor.Key{App: app, Type: r.Type, ID: r.ID}, ClaimedAt: time.UnixMicro(r.ClaimedAt).UTC()}
}

func (s *services) FindService(ctx context.Context, app, name string) (found actor.Service, err error) {
	if err := actor.ValidateService(name); err != nil {
		return found, err
	}
	list, err := s.ListServices(ctx, actor.ServiceQuery{App: app, Prefix: name, Limit: 1})
	if err == nil && len(list) > 0 && list[0].Name == name {
		found = list[0]
	}
	return found, err
}

func (s *services) ListServices(ctx context.Context, q actor.ServiceQuery) (list []actor.Service, err error) {
	if err := store.ValidateServiceQuery(&q); err != nil {
		return nil, err
	}
	app := servicePrefix(q.App)
	from := append(bytes.Clone(app), q.Prefix...)
	to := prefixEnd(from)
	if q.After >= q.Prefix && q.After != "" {
		from = append(append(bytes.Clone(app), q.After...), 0)
	}
	err = s.list(ctx, from, to, func(key, value []byte) (more bool, err error) {
		var r serviceRecord
		if err := decodeRecord(key, value, &r); err != nil {
			return false, err
		}
		list = append(list, r.service(q.App, string(key[len(app):])))
		return len(list) < q.Limit, nil
	})
	return list, err
}

// serviceWrites are the services that a decision claims and releases.
type serviceWrites struct {
	*draft
	changed map[string]*serviceRecord // by key, nil: released; since the decision began
}

// find returns who stands for a service, as this decision has it so far.
func (t *serviceWrites) find(app, name string) (*serviceRecord, error) {
	key := serviceKey(app, name)
	if r, ok := t.changed[string(key)]; ok {
		return r, nil
	}
	value, err := t.get(key)
	if err != nil || value == nil {
		return nil, err
	}
	r := new(serviceRecord)
	return r, decodeRecord(key, value, r)
}

// check says why a commit is refused that claims services.
func (t *serviceWrites) check(c *actor.Commit) (refusal, err error) {
	for i := range c.Services {
		v := &c.Services[i]
		if v.Release {
			continue
		}
		r, err := t.find(v.Actor.App, v.Name)
		switch {
		case err != nil:
			return nil, err
		case r != nil && !r.of(v.Actor):
			return fmt.Errorf("service %q: %w", v.Name, actor.ErrServiceTaken), nil
		}
	}
	return nil, nil
}

// write does what a commit that held does to services.
func (t *serviceWrites) write(c *actor.Commit) error {
	for i := range c.Rows {
		if w := &c.Rows[i]; w.Delete && w.ReadVersion != 0 {
			if err := t.releaseAll(w.Key); err != nil {
				return err
			}
		}
	}
	for i := range c.Services {
		v := &c.Services[i]
		r, err := t.find(v.Actor.App, v.Name)
		if err != nil {
			return err
		}
		switch own := r.of(v.Actor); {
		case v.Release && own:
			t.release(v.Actor, v.Name)
		case !v.Release && !own:
			key, r := serviceKey(v.Actor.App, v.Name), &serviceRecord{Type: v.Actor.Type, ID: v.Actor.ID, ClaimedAt: t.now}
			if err := t.setRecord(key, r); err != nil {
				return err
			}
			t.set(standsKey(v.Actor, v.Name), nil)
			t.note(key, r)
		}
	}
	return nil
}

// of reports whether it is the actor that stands for the service. r may be nil.
func (r *serviceRecord) of(k actor.Key) bool { return r != nil && r.Type == k.Type && r.ID == k.ID }

func (t *serviceWrites) release(k actor.Key, name string) {
	t.delete(serviceKey(k.App, name))
	t.delete(standsKey(k, name))
	t.note(serviceKey(k.App, name), nil)
}

// note remembers what the decision has made of a service.
func (t *serviceWrites) note(key []byte, r *serviceRecord) {
	if t.changed == nil {
		t.changed = map[string]*serviceRecord{}
	}
	t.changed[string(key)] = r
}

// releaseAll releases the services of an actor that is deleted.
func (t *serviceWrites) releaseAll(key actor.Key) error {
	prefix := standsPrefix(key)
	it, err := t.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: prefixEnd(prefix)})
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		name := string(it.Key()[len(prefix):])
		if r, err := t.find(key.App, name); err != nil {
			return errors.Join(err, it.Close())
		} else if r.of(key) {
			t.release(key, name)
		}
	}
	app := servicePrefix(key.App)
	for service, r := range t.changed { // those that the decision has claimed itself
		if name, ok := strings.CutPrefix(service, string(app)); ok && r.of(key) {
			t.release(key, name)
		}
	}
	return it.Close()
}
