package children

import (
	"crypto/rand"
	"encoding/base32"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// Max is how many children a parent has at most.
const Max = 100

// rowCost is what a child takes in memory beside its state.
const rowCost = 512

// Families are those of a host's activations. The zero value is ready for Init. All methods may be
// called concurrently, with any lock of the host held.
type Families struct {
	states *atomic.Int64 // bytes, which those of the children are added to

	mu     sync.Mutex
	named  map[string]*family
	parent map[actor.Key]*family
}

// family is the children of one activation. Families.mu guards it.
type family struct {
	name   string
	parent actor.Key
	rows   map[actor.Key]*child
	used   time.Time // when a child was last called
}

// child is the row of a child.
type child struct {
	row actor.Row
	// doubt is the commit with an unknown outcome that writes or ends the child; zero if the row is known.
	doubt actor.CommitID
}

// Init has the bytes of children count in states.
func (fs *Families) Init(states *atomic.Int64) {
	fs.states, fs.named, fs.parent = states, map[string]*family{}, map[actor.Key]*family{}
}

// ID returns the ID of a child of a parent, whose activation has work: until the activation ends,
// the parent has one family. unique is a text that no other child of the parent has.
func (fs *Families) ID(parent actor.Key, unique string, sharing bool) string {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f := fs.parent[parent]
	if f == nil {
		f = &family{name: newName(), parent: parent, rows: map[actor.Key]*child{}}
		fs.named[f.name], fs.parent[parent] = f, f
	}
	return actor.AnonymousID(f.name, unique, sharing)
}

// newName returns a random name, of 26 characters.
func newName() string {
	var b [16]byte
	rand.Read(b[:])
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:]))
}

// Count returns how many children a parent has. Those in doubt are gone: a turn of the parent that counts
// has waited until all is settled that can be.
func (fs *Families) Count(parent actor.Key) (n int) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f := fs.parent[parent]; f != nil {
		for _, c := range f.rows {
			if c.doubt == (actor.CommitID{}) {
				n++
			}
		}
	}
	return n
}

// has reports whether an actor has a family.
func (fs *Families) has(parent actor.Key) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.parent[parent] != nil
}

// Parent returns the parent of a child that lives or is in doubt, and puts off its idle timeout.
func (fs *Families) Parent(key actor.Key, now time.Time) (parent actor.Key, ok bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f := fs.named[key.Family()]
	if f == nil || f.rows[key] == nil {
		return actor.Key{}, false
	}
	f.used = now
	return f.parent, true
}

// Related reports whether two actors are a parent and its child, or children of one parent. One of the
// two at least is a child, which may not exist yet or any more. An ID that a guest has made up, and
// [Families.ID] cannot have made, is related to none.
func (fs *Families) Related(a, b actor.Key) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if !a.IsAnonymous() {
		a, b = b, a
	}
	f := fs.named[a.Family()]
	switch {
	case f == nil || f.parent.App != a.App || a.App != b.App || !wellFormed(a.ID):
		return false
	case b.IsAnonymous():
		return b.Family() == f.name && wellFormed(b.ID)
	default:
		return b == f.parent
	}
}

// maxIDLen is how long the ID of a child is at most, by the ABI.
const maxIDLen = 64

// wellFormed reports whether the ID of a child could be one of ours.
func wellFormed(id string) bool {
	strange := func(c rune) bool { return c != '.' && (c < '0' || c > '9') && (c < 'a' || c > 'z') }
	return len(id) <= maxIDLen && strings.IndexFunc(id[1:], strange) < 0
}

// Used returns when a child of a parent was last called; zero if none was.
func (fs *Families) Used(parent actor.Key) time.Time {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f := fs.parent[parent]; f != nil {
		return f.used
	}
	return time.Time{}
}

// End ends the family of a parent, if there is one, and returns the children.
func (fs *Families) End(parent actor.Key) (gone []actor.Key) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.end(parent)
}

func (fs *Families) end(parent actor.Key) (gone []actor.Key) {
	f := fs.parent[parent]
	if f == nil {
		return nil
	}
	delete(fs.parent, parent)
	delete(fs.named, f.name)
	for key, c := range f.rows {
		gone = append(gone, key)
		fs.states.Add(-c.cost())
	}
	return gone
}

// cost is what a child counts for in memory.
func (c *child) cost() int64 { return rowCost + int64(len(c.row.State.Data)) }

// find returns the row of a child, nil if it is gone. The caller has the lock.
func (fs *Families) find(key actor.Key) *child {
	if f := fs.named[key.Family()]; f != nil {
		return f.rows[key]
	}
	return nil
}

// goneVersion is the version of a child that is gone. The first version of one that lives is
// above.
const goneVersion = 1

// rowOf returns what a load gives: of a child that is gone, the tombstone of a spawned actor. The caller
// has the lock.
func (fs *Families) rowOf(key actor.Key) actor.Row {
	if c := fs.find(key); c != nil && c.doubt == (actor.CommitID{}) {
		return c.row
	}
	return actor.Row{Version: goneVersion, Deleted: true, Spawned: true}
}

// holds reports whether a child is as a commit has read it. The caller has the lock.
func (fs *Families) holds(read actor.RowFence) bool {
	if read.Version == 0 { // it is to be made
		return fs.find(read.Key) == nil
	}
	return fs.rowOf(read.Key).Version == read.Version
}

// write applies what a commit does to a child. A child whose family has ended stays gone. The caller has
// the lock.
func (fs *Families) write(id actor.CommitID, w *actor.RowWrite) {
	f := fs.named[w.Key.Family()]
	if f == nil {
		return
	}
	c := f.rows[w.Key]
	switch {
	case c == nil && w.ReadVersion != 0:
		return
	case c == nil:
		c = &child{}
		f.rows[w.Key] = c
	default:
		fs.states.Add(-c.cost())
	}
	if w.Delete {
		delete(f.rows, w.Key)
		return
	}
	row := &c.row
	row.Version, row.CommitID, row.Spawned = w.NewVersion, id, true
	if !w.Bump {
		row.Generation, row.StateSchema = w.Generation, w.StateSchema
		if w.MethodSet != nil {
			row.MethodSet = *w.MethodSet
		}
		if w.State != nil { // whose bytes are the caller's again
			row.State = actor.EncodedState{Format: w.State.Format, Data: append([]byte(nil), w.State.Data...)}
		}
	}
	c.doubt = actor.CommitID{}
	fs.states.Add(c.cost())
}

// doubts marks the children of a commit whose outcome is unknown, and those of the parents that the rest of it
// deletes. The caller has the lock.
func (fs *Families) doubts(own, rest *actor.Commit) {
	for c := range fs.touched(own, rest) {
		if c.doubt == (actor.CommitID{}) { // otherwise an earlier one has it for good
			c.doubt = own.ID
		}
	}
}

// undoubts ends the doubts of a commit. The caller has the lock.
func (fs *Families) undoubts(own, rest *actor.Commit) {
	for c := range fs.touched(own, rest) {
		if c.doubt == own.ID {
			c.doubt = actor.CommitID{}
		}
	}
}

// touched yields the children that a commit changes or ends. The caller has the lock.
func (fs *Families) touched(own, rest *actor.Commit) iter.Seq[*child] {
	return func(yield func(*child) bool) {
		for i := range own.Rows {
			if c := fs.find(own.Rows[i].Key); c != nil && !yield(c) {
				return
			}
		}
		for i := range rest.Rows {
			f := fs.parent[rest.Rows[i].Key]
			if f == nil || !rest.Rows[i].Delete {
				continue
			}
			for _, c := range f.rows {
				if !yield(c) {
					return
				}
			}
		}
	}
}
