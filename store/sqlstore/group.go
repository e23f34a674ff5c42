package sqlstore

import (
	"cmp"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

const (
	// maxGroupRows is where a larger statement stops being cheaper per row.
	maxGroupRows = 256
	// maxGroupBytes stays far below CockroachDB's 16 MiB for one message.
	maxGroupBytes = 4 << 20
)

// attempt is one commit on its way to an answer.
type attempt struct {
	commit *actor.Commit
	err    error // the answer, once decided
}

func compareKeys(a, b actor.Key) int {
	if a.App != b.App {
		return cmp.Compare(a.App, b.App)
	}
	if a.Type != b.Type {
		return cmp.Compare(a.Type, b.Type)
	}
	return cmp.Compare(a.ID, b.ID)
}

func commitsOf(group []*attempt) []*actor.Commit {
	commits := make([]*actor.Commit, len(group))
	for i, a := range group {
		commits[i] = a.commit
	}
	return commits
}

func answer(group []*attempt, err error) {
	for _, a := range group {
		a.err = err
	}
}

// groupParts are the commits of a group, each where its statement is made from:
// those of one row and nothing else, those that beside that only remove or only set
// reminders, and the others. [newGroupParts] makes them.
type groupParts struct {
	updates, inserts        columns
	removals, sets, changes changes
	events                  eventColumns
	lives                   lives
}

func newGroupParts(d dialect) *groupParts {
	empty := changes{records: recordColumns{dialect: d}}
	return &groupParts{removals: empty, sets: empty, changes: empty}
}

// reset empties everything, and keeps the memory.
func (g *groupParts) reset() {
	g.updates.reset()
	g.inserts.reset()
	g.removals.reset()
	g.sets.reset()
	g.changes.reset()
	g.events = eventColumns{}
	g.lives.reset()
}

// queueGroup adds the statements for a group to a batch and returns how many of them,
// from the first on, say what held. They are made in the memory of g, which is empty, and the caller's to
// use again when they were sent.
func queueGroup(b *pgx.Batch, commits []*actor.Commit, g *groupParts) int {
	for _, c := range commits {
		g.events.add(c)
		g.lives.add(c)
		switch {
		case removesReminders(c):
			g.removals.add(c)
		case setsReminders(c):
			g.sets.add(c)
		case !c.OneRow() || c.Rows[0].Delete: // an actor that is deleted may have reminders
			g.changes.add(c)
		case c.Rows[0].ReadVersion == 0:
			g.inserts.addInsert(c.ID, &c.Rows[0])
		default:
			g.updates.add(c.ID, &c.Rows[0])
		}
	}
	g.updates.queueUpdate(b)
	g.inserts.queueInsert(b)
	g.removals.queue(b, writeCommitsAndRemovals)
	g.sets.queue(b, writeCommitsAndSets)
	g.changes.queue(b, writeCommitsAndReminders)
	queries := b.Len()
	g.lives.queue(b)
	g.changes.reminders.queueRemovals(b)
	g.events.queue(b)
	return queries
}

// splitGroup cuts sorted attempts into groups within the limits of rows and
// bytes. A commit above a limit goes alone.
func splitGroup(all []*attempt) [][]*attempt {
	var groups [][]*attempt
	start, rows, bytes := 0, 0, 0
	for i, a := range all {
		more, size := max(1, rowsOf(a.commit)), commitBytes(a.commit)
		if i > start && (rows+more > maxGroupRows || bytes+size > maxGroupBytes) {
			groups = append(groups, all[start:i])
			start, rows, bytes = i, 0, 0
		}
		rows += more
		bytes += size
	}
	if start < len(all) {
		groups = append(groups, all[start:])
	}
	return groups
}

// commitBytes is what a commit takes in a message.
func commitBytes(c *actor.Commit) int {
	const fixed = 128 // columns of a row or of a record
	n := 0
	for i := range c.Rows {
		r := &c.Rows[i]
		n += keyBytes(&r.Key) + fixed
		if r.State != nil {
			n += len(r.State.Data)
		}
	}
	for i := range c.Fences {
		n += keyBytes(&c.Fences[i].Key) + fixed
	}
	for i := range c.Records {
		n += fixed + store.RecordSize(&c.Records[i])
	}
	for i := range c.Events {
		n += 4*fixed + c.Events[i].Size()
	}
	e := &c.Reminders
	n += 5 * fixed * (len(e.Steps) + len(e.Cancel) + len(e.Set))
	for i := range e.Set {
		n += 4*fixed + len(e.Set[i].Payload.Data)
	}
	return n
}

func keyBytes(k *actor.Key) int { return len(k.App) + len(k.Type) + len(k.ID) }

// disjoint cuts a group into groups. No such group names a reminder twice, or names one
// beside the deletion of its actor, since one statement cannot write a row twice.
func disjoint(group []*attempt) [][]*attempt {
	var groups [][]*attempt
	for len(group) > 0 {
		w := writtenReminders{names: map[actor.ReminderName]struct{}{}, actors: map[actor.Key]struct{}{}, deleted: map[actor.Key]struct{}{}}
		var now, later []*attempt
		for _, a := range group {
			if w.add(a.commit) {
				now = append(now, a)
			} else {
				later = append(later, a)
			}
		}
		groups, group = append(groups, now), later
	}
	return groups
}

// writtenReminders is what a group does to reminders: to those of these names, of these
// actors, and to all of those that are deleted.
type writtenReminders struct {
	names           map[actor.ReminderName]struct{}
	actors, deleted map[actor.Key]struct{}
}

// add adds a commit, and reports false if it cannot be in one group with the others.
func (w *writtenReminders) add(c *actor.Commit) bool {
	ops := store.ReminderOps(c)
	for i := range ops {
		_, twice := w.names[ops[i].ReminderName]
		_, deleted := w.deleted[ops[i].Key]
		if twice || deleted {
			return false
		}
	}
	for i := range c.Rows {
		if _, named := w.actors[c.Rows[i].Key]; named && c.Rows[i].Delete {
			return false
		}
	}
	for i := range ops {
		w.names[ops[i].ReminderName], w.actors[ops[i].Key] = struct{}{}, struct{}{}
	}
	for i := range c.Rows {
		if c.Rows[i].Delete {
			w.deleted[c.Rows[i].Key] = struct{}{}
		}
	}
	return true
}
