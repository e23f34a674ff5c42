package embedded

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/greenroom-run/greenroom/actor"
)

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
