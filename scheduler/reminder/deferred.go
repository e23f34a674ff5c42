package reminder

import "github.com/greenroom-run/greenroom/actor"

// scope is what too many deliveries wait of: an actor, with an empty ID a type, or with an empty
// type as well an app.
type scope struct{ app, typ, id string }

func appScope(app string) scope { return scope{app, "", ""} }

func typeScope(key actor.Key) scope  { return scope{key.App, key.Type, ""} }
func actorScope(key actor.Key) scope { return scope{key.App, key.Type, key.ID} }

// deferred are reminders that are due and were read, and of whose type or actor as many
// deliveries waited as may. They are read again once at most half as many wait: a backlog is
// read twice, however long it takes, but one that waits for its actor and then for its type is
// read each time. What comes due meanwhile goes first if there is room. Of each only the ID is
// kept.
type deferred struct {
	scopes map[scope][]actor.ReminderID // in the order of their times
	count  int
}

func newDeferred() deferred { return deferred{scopes: map[scope][]actor.ReminderID{}} }

func (p *deferred) add(of scope, id actor.ReminderID) {
	p.scopes[of] = append(p.scopes[of], id)
	p.count++
}

// take returns the first of a scope, at most n, and whether there are others.
func (p *deferred) take(of scope, n int) (due []Due, more bool) {
	ids := p.scopes[of]
	n = min(n, len(ids))
	for _, id := range ids[:n] {
		due = append(due, Due{ID: id})
	}
	p.count -= n
	if n == len(ids) {
		delete(p.scopes, of)
		return due, false
	}
	p.scopes[of] = ids[n:]
	return due, true
}
