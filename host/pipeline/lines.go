package pipeline

import (
	"slices"

	"github.com/greenroom-run/greenroom/internal/fair"
)

// lines are what waits for a worker, in a line for each app. A [fair.Queue] deals the lines, by
// what is taken of them for groups. Its users lock it.
type lines[T any] struct {
	cfg   *Config
	byApp map[string]*line[T]
	turns *fair.Queue[*line[T]]
	// passed had its turn when the group had no space for its first item, and goes first in the
	// next group; nil: none. Behind the others, it might never find space.
	passed *line[T]
	rows   int
	bytes  int64
}

// line is what waits of an app, in the order in which it came.
type line[T any] struct {
	entry fair.Entry[*line[T]] // in the queue as long as something waits, unless it was passed
	items []T                  // from head on
	head  int
	bytes int64
}

// turnCost is what an app may take of a group in its turn: an eighth.
const turnCost = DefaultGroupRows / 8

func newLines[T any](cfg *Config) lines[T] {
	return lines[T]{cfg: cfg, byApp: map[string]*line[T]{}, turns: fair.New[*line[T]](fair.Config{Quantum: turnCost})}
}

// fits reports whether one more of an app may wait. One alone may, whatever its bytes.
func (ls *lines[T]) fits(app string, bytes int64) bool {
	if ls.rows == 0 {
		return true
	}
	rows, has := int64(0), int64(0)
	if l := ls.byApp[app]; l != nil {
		rows, has = int64(len(l.items)-l.head), l.bytes
	}
	freeRows, freeBytes := int64(ls.cfg.QueueRows-ls.rows-1), ls.cfg.QueueBytes-ls.bytes-bytes
	return freeRows >= 0 && fair.Leaves(rows, 1, freeRows) && (bytes == 0 || freeBytes >= 0 && fair.Leaves(has, bytes, freeBytes))
}

// add has an item wait, behind all others of its app, or before them.
func (ls *lines[T]) add(app string, item T, bytes int64, before bool) {
	l := ls.byApp[app]
	if l == nil {
		l = &line[T]{entry: fair.Entry[*line[T]]{App: app}}
		l.entry.Value = l
		ls.byApp[app] = l
		_ = ls.turns.Push(&l.entry) // the queue has no bounds
	}
	if before {
		l.items = slices.Insert(l.items, l.head, item)
	} else {
		l.items = append(l.items, item)
	}
	ls.rows++
	ls.bytes += bytes
	l.bytes += bytes
}

// take appends the next group to one that has nothing.
func (ls *lines[T]) take(group []T, size, weigh func(T) int64) []T {
	var bytes int64
	for full := false; !full && len(group) < ls.cfg.GroupRows && ls.rows > 0; {
		l := ls.next()
		cost := int64(0)
		for cost < turnCost && len(group) < ls.cfg.GroupRows && l.head < len(l.items) {
			item := l.items[l.head]
			weight := weigh(item)
			if full = len(group) > 0 && bytes+weight > ls.cfg.GroupBytes; full {
				break
			}
			bytes += weight
			cost += 1 + weight*DefaultGroupRows/DefaultGroupBytes
			group = append(group, item)
			ls.remove(l, size(item))
		}
		if cost == 0 {
			ls.passed = l
			break
		}
		ls.goOn(l, cost)
	}
	return group
}

// next returns the line whose turn it is; nil if nothing waits.
func (ls *lines[T]) next() *line[T] {
	if l := ls.passed; l != nil {
		ls.passed = nil
		return l
	}
	if e := ls.turns.Next(); e != nil {
		return e.Value
	}
	return nil
}

// drain returns all that waits, and leaves nothing.
func (ls *lines[T]) drain() []T {
	var all []T
	for l := ls.next(); l != nil; l = ls.next() {
		all = append(all, l.items[l.head:]...)
	}
	clear(ls.byApp)
	ls.rows, ls.bytes = 0, 0
	return all
}

// remove takes the first item out of a line.
func (ls *lines[T]) remove(l *line[T], bytes int64) {
	var none T
	l.items[l.head] = none
	l.head++
	l.bytes -= bytes
	ls.rows--
	ls.bytes -= bytes
	if l.head > len(l.items)/2 {
		rest := copy(l.items, l.items[l.head:])
		clear(l.items[rest:])
		l.items, l.head = l.items[:rest], 0
	}
}

// goOn puts a line that had its turn, and took so much, behind the others.
func (ls *lines[T]) goOn(l *line[T], cost int64) {
	if l.head == len(l.items) {
		delete(ls.byApp, l.entry.App)
		return
	}
	_ = ls.turns.Push(&l.entry)
	ls.turns.Correct(&l.entry, cost)
}
