package reminder

import (
	"slices"
	"strings"

	"github.com/greenroom-run/greenroom/actor"
)

// lines are the ordered messages that this instance has read, or had notice of, until they are
// gone: those of one sender to one receiver are delivered one after the other, in the order of
// their names. The others wait, also for one that failed and is delivered again later. That
// spares turns which the store would refuse ([actor.ErrMessageOrder]); the store alone
// guarantees the order, since other instances may own the buckets of earlier messages. It is
// guarded by the lock of its [pending].
type lines struct {
	pairs  map[pair][]*inLine // in the order of their names
	known  map[actor.ReminderID]*inLine
	parked int
	wholes wholes // what is in memory of these, and of messages without an order
}

// pair is a receiver, and what the names of one sender's messages begin with.
type pair struct {
	to     actor.Key
	sender string
}

// inLine is an ordered message.
type inLine struct {
	id     actor.ReminderID
	name   string
	of     pair
	app    string
	parked bool // it waits until those before it are gone
}

func newLines() lines {
	return lines{pairs: map[pair][]*inLine{}, known: map[actor.ReminderID]*inLine{}, wholes: newWholes()}
}

// enter adds a message, if it is not there, and reports whether it is the first of its line. One
// without an order has no line.
func (l *lines) enter(r *actor.Reminder) (m *inLine, first bool) {
	sender, ordered := actor.SenderOfOrdered(r.Name)
	if !ordered {
		return nil, true
	}
	m = l.known[r.ID]
	if m == nil {
		m = &inLine{id: r.ID, name: r.Name, of: pair{r.Key, sender}, app: r.Key.App}
		l.known[r.ID] = m
		line := l.pairs[m.of]
		at, _ := slices.BinarySearchFunc(line, m, func(a, b *inLine) int { return strings.Compare(a.name, b.name) })
		l.pairs[m.of] = slices.Insert(line, at, m)
	}
	return m, l.pairs[m.of][0] == m
}

// remove removes a message that is gone, or another instance's. It returns the message that is
// delivered next because of that, if it was parked; otherwise nil.
func (l *lines) remove(id actor.ReminderID) (next *inLine) {
	m := l.known[id]
	if m == nil {
		return nil
	}
	delete(l.known, id)
	if m.parked {
		l.parked--
	}
	line := l.pairs[m.of]
	at := slices.Index(line, m)
	if line = slices.Delete(line, at, at+1); len(line) == 0 {
		delete(l.pairs, m.of)
		return nil
	}
	l.pairs[m.of] = line
	if at > 0 || !line[0].parked {
		return nil
	}
	line[0].parked = false
	l.parked--
	return line[0]
}

// of returns the messages of a bucket.
func (l *lines) of(b actor.Bucket) (list []*inLine) {
	for id, m := range l.known {
		if id.Bucket() == b {
			list = append(list, m)
		}
	}
	return list
}

// park has a message wait until those before it are gone.
func (l *lines) park(m *inLine) {
	m.parked = true
	l.parked++
}
