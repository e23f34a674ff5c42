package residency

import (
	"fmt"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// world is one actor, a store that others write to, and what a host knows.
type world struct {
	store    uint64
	known    Known
	absent   bool // there is no activation
	forgets  uint64
	reads    [2]question // of readers that load
	confirm  question    // for the version
	flight   *Row        // a commit of this host that is in the store, and not answered
	answered uint64      // the newest version that was answered
}

// question is what was asked of the store; the zero value: nothing.
type question struct {
	version, forgets uint64
	known            *Row
}

// explorer visits all worlds that a number of steps lead to.
type explorer struct {
	t     *testing.T
	rows  map[uint64]*Row
	seen  map[world]int
	steps []string
}

func (e *explorer) row(version uint64) *Row {
	if e.rows[version] == nil {
		e.rows[version] = &Row{Version: version, Exists: true, State: NoState}
	}
	return e.rows[version]
}

// visit tries everything that may happen in w.
func (e *explorer) visit(w world, left int) {
	if seen := w.known.Committed(); seen != nil && seen.Version < w.answered {
		e.t.Fatalf("readers see version %d after %d was answered: %v", seen.Version, w.answered, e.steps)
	}
	if left == 0 || e.seen[w] >= left {
		return
	}
	e.seen[w] = left
	then := func(step string, change func(w *world, h *History)) {
		next, h := w, History{forgets: w.forgets}
		change(&next, &h)
		next.forgets = h.forgets
		e.steps = append(e.steps, step)
		e.visit(next, left-1)
		e.steps = e.steps[:len(e.steps)-1]
	}
	k := &w.known
	then("another host writes", func(w *world, _ *History) { w.store++ })
	then("answer from elsewhere", func(w *world, h *History) {
		if w.absent {
			h.NoteNewer(nil, w.store)
		} else {
			h.NoteNewer(&w.known, w.store)
		}
		w.answered = w.store
	})
	if seen := k.Committed(); seen != nil {
		then("read from memory", func(w *world, _ *History) { w.answered = max(w.answered, seen.Version) })
	} else {
		for i := range w.reads {
			if w.reads[i] == (question{}) {
				then("load", func(w *world, _ *History) { w.reads[i] = question{version: w.store, forgets: w.forgets} })
				break
			}
		}
	}
	for i, q := range w.reads {
		if q == (question{}) {
			continue
		}
		then(fmt.Sprint("loaded ", q.version), func(w *world, h *History) {
			w.reads[i] = question{}
			switch l := e.row(q.version); {
			case w.absent && h.Forgets() != q.forgets:
				h.NoteNewer(nil, q.version)
			case w.known.Loaded != nil:
				h.Show(&w.known, l, time.Time{}, q.forgets)
			case h.Forgets() == q.forgets:
				w.known.Keep(l, time.Time{})
				w.absent = false
			default:
				h.NoteNewer(&w.known, q.version)
			}
			w.answered = max(w.answered, q.version)
		})
	}
	if w.confirm == (question{}) {
		if k.Committed() != nil {
			then("ask", func(w *world, _ *History) { w.confirm = question{version: w.store, known: w.known.Committed()} })
		}
	} else {
		then("answered", func(w *world, h *History) {
			switch q := w.confirm; {
			case w.known.Committed() != q.known:
			case q.known.Version == q.version:
				w.known.Confirmed(time.Time{})
			default:
				h.NoteOther(&w.known, q.version)
			}
			w.confirm = question{}
		})
	}
	switch {
	case w.flight != nil:
		then("landed", func(w *world, _ *History) {
			w.known.Install(w.flight)
			w.known.Tip, w.answered, w.flight = w.flight, max(w.answered, w.flight.Version), nil
		})
	case k.Tip != nil && k.Tip.Version == w.store && !k.Outdated():
		then("commit", func(w *world, _ *History) {
			w.store++
			w.flight = e.row(w.store)
			w.known.Tip = w.flight
		})
	}
	if w.flight == nil && k.Loaded != nil {
		then("drop", func(w *world, h *History) { h.Drop(key, &w.known, time.Time{}) })
		then("leave", func(w *world, h *History) {
			h.Leave(key, &w.known, time.Time{})
			w.known, w.absent = Known{}, true
		})
		if k.Outdated() {
			then("catch up", func(w *world, h *History) { h.CatchUp(key, &w.known, time.Time{}) })
		}
	}
}

// TestReadersNeverGoBack: whatever happens in which order, what readers see in memory is no
// older than what was answered before.
func TestReadersNeverGoBack(t *testing.T) {
	e := &explorer{t: t, rows: map[uint64]*Row{}, seen: map[world]int{}}
	e.visit(world{store: 5}, 11)
	if len(e.seen) < 10_000 {
		t.Errorf("%d worlds were seen, which cannot be all", len(e.seen))
	}
	t.Log(len(e.seen), "worlds")
}

var key = actor.Key{App: "app", Type: "T", ID: "a"}
