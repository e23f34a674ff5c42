package embedded

import (
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// heads remembers what deciding a commit needs of the rows written last, so that
// the writer, which decides one commit after the other, need not look for them
// in Pebble. Since every write of a row goes through the writer, what is
// remembered is what is stored. Only the writer's goroutine uses it.
//
// It has two generations. What is written or asked for goes to the young one; when
// that is full, it becomes the old one, and what was not used since is forgotten.
type heads struct{ young, old map[string]*head }

// maxHeads bounds a generation: with IDs of 30 bytes, both take some 40 MB.
const maxHeads = 1 << 17

// head is a row without its state and without what a commit replaces anyway.
type head struct {
	version, life uint64
	updated       int64 // microseconds since 1970
	deleted       bool
	spawned       bool
	methodSet     string
	born          time.Time
}

func headOf(r *actor.Row) head {
	return head{version: r.Version, life: r.Life, updated: r.UpdatedAt.UnixMicro(), deleted: r.Deleted, spawned: r.Spawned, methodSet: r.MethodSet, born: r.Born}
}

func (h *head) row() actor.Row {
	return actor.Row{Version: h.version, Life: h.life, UpdatedAt: time.UnixMicro(h.updated), Deleted: h.deleted, Spawned: h.spawned, MethodSet: h.methodSet, Born: h.born}
}

// get returns what is remembered of a row, nil if nothing is. It is the writer's,
// to be changed by it when the row has changed.
func (hs *heads) get(key []byte) *head {
	if h := hs.young[string(key)]; h != nil {
		return h
	}
	h := hs.old[string(key)]
	if h != nil {
		hs.keep(string(key), h)
	}
	return h
}

// set remembers a row. The zero head means that the row does not exist any more.
func (hs *heads) set(key string, h head) {
	if h.version == 0 {
		delete(hs.young, key)
		delete(hs.old, key)
		return
	}
	hs.keep(key, &h)
}

func (hs *heads) keep(key string, h *head) {
	if len(hs.young) >= maxHeads {
		hs.old, hs.young = hs.young, nil
	}
	if hs.young == nil {
		hs.young = make(map[string]*head)
	}
	hs.young[key] = h
}
