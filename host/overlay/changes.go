package overlay

import (
	"slices"
	"strings"

	"github.com/greenroom-run/greenroom/abi"
)

// change is what a turn made of one key. A deleted change hides a key of the
// base; there is none for a key that the base does not show.
type change struct {
	key     string
	format  abi.Format
	value   []byte
	deleted bool
}

// changes are those of a turn, one for a key. Most turns change a key or two, for
// which a list is a fraction of what a map costs; with more, the map has all.
type changes struct {
	few    []change
	many   map[string]change
	sorted []change // of many
}

// fewChanges is where looking through a list becomes slower than a map.
const fewChanges = 8

func (cs *changes) len() int { return len(cs.few) + len(cs.many) }

// clear keeps no more memory than a few changes need.
func (cs *changes) clear() {
	clear(cs.few)
	*cs = changes{few: cs.few[:0]}
}

func (cs *changes) get(key []byte) (c change, ok bool) {
	if cs.many != nil {
		c, ok = cs.many[string(key)]
		return c, ok
	}
	for i := range cs.few {
		if cs.few[i].key == string(key) {
			return cs.few[i], true
		}
	}
	return change{}, false
}

// put takes the place of an earlier change of the key.
func (cs *changes) put(c change) {
	if cs.many != nil {
		cs.many[c.key] = c
		return
	}
	for i := range cs.few {
		if cs.few[i].key == c.key {
			cs.few[i] = c
			return
		}
	}
	cs.few = append(cs.few, c)
	if len(cs.few) <= fewChanges {
		return
	}
	cs.many = make(map[string]change, 2*len(cs.few))
	for _, c := range cs.few {
		cs.many[c.key] = c
	}
	clear(cs.few)
	cs.few = cs.few[:0]
}

func (cs *changes) remove(key []byte) {
	if cs.many != nil {
		delete(cs.many, string(key))
		return
	}
	cs.few = slices.DeleteFunc(cs.few, func(c change) bool { return c.key == string(key) })
}

// inOrder returns the changes in ascending order of keys, until the next change.
func (cs *changes) inOrder() []change {
	all := cs.few
	if cs.many != nil {
		all = cs.sorted[:0]
		for _, c := range cs.many {
			all = append(all, c)
		}
		cs.sorted = all
	}
	if len(all) > 1 {
		slices.SortFunc(all, func(a, b change) int { return strings.Compare(a.key, b.key) })
	}
	return all
}
