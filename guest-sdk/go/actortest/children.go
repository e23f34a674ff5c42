package actortest

import (
	"strconv"
	"strings"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
)

// families are the volatile children of a harness's actors. The ID of a child has the name of its family,
// which ends with its parent's activation.
type families struct {
	names map[actor.Ref]string // by the parent
	of    map[string]actor.Ref // the parent, by name
	begun uint64               // counts families
	made  uint64               // counts children
}

// maxChildren is how many volatile children an actor has.
const maxChildren = 100

// isChild reports whether an ID is that of a volatile child.
func isChild(ref actor.Ref) bool { return ref.ID != "" && (ref.ID[0] == '\x01' || ref.ID[0] == '\x02') }

// familyOf returns the name of the family that a child's ID has; empty if ref is no child.
func familyOf(ref actor.Ref) string {
	if !isChild(ref) {
		return ""
	}
	name, _, _ := strings.Cut(ref.ID[1:], ".")
	return name
}

// related reports whether two actors, one of them a child, are a parent and its child, or children of
// one parent.
func (f *families) related(a, b actor.Ref) bool {
	root := func(ref actor.Ref) (actor.Ref, bool) {
		if !isChild(ref) {
			return ref, true
		}
		parent, lives := f.of[familyOf(ref)]
		return parent, lives
	}
	x, known := root(a)
	y, alsoKnown := root(b)
	return known && alsoKnown && x == y
}

// childrenOf returns how many children an actor has.
func childrenOf(h *Harness, parent actor.Ref) (n int) {
	name := h.families.names[parent]
	for ref, r := range h.actors {
		if name != "" && r.spawned && familyOf(ref) == name {
			n++
		}
	}
	return n
}

// endFamily ends the children of an actor.
func endFamily(h *Harness, parent actor.Ref) {
	name, known := h.families.names[parent]
	if !known {
		return
	}
	delete(h.families.names, parent)
	delete(h.families.of, name)
	for ref := range h.actors {
		if familyOf(ref) == name {
			delete(h.actors, ref)
			delete(h.awake, ref)
		}
	}
}

// mayKeep says why the turn may do nothing that is stored beside a state, 0 if it may.
func mayKeep(h *turnHost) abi.Code {
	if isChild(h.ref) {
		return h.refusedFor(abi.CodeNoState, "a volatile child has nothing in the store; have its parent do it")
	}
	return 0
}

// spawnChild returns the ID of a new child of an actor, or why there is none.
func spawnChild(c *chain, parent actor.Ref, typ string, flags uint32) (id string, code abi.Code, problem string) {
	h := c.harness
	made := childrenOf(h, parent)
	f := &h.families
	for _, ref := range c.spawned {
		if isChild(ref) && f.of[familyOf(ref)] == parent {
			made++
		}
	}
	spec := h.types[typ]
	switch problem := unknownType(h, typ); {
	case h.types[parent.Type].Placement == abi.PlacementAny:
		return "", abi.CodeNoState, "no host keeps actors of the type " + parent.Type + " in memory between their turns"
	case flags&^abi.ChildShared != 0:
		return "", abi.CodeInvalid, "a volatile child has no flag " + strconv.Itoa(int(flags))
	case problem != "":
		return "", abi.CodeInvalid, problem
	case spec.Placement == abi.PlacementStateless || spec.Placement == abi.PlacementAny:
		return "", abi.CodeInvalid, "the type " + typ + " is placed " + spec.Placement + ", and no host keeps its actors in memory"
	case len(c.spawned) == maxSpawned:
		return "", abi.CodeTooMany, "a turn may spawn " + strconv.Itoa(maxSpawned) + " actors"
	case made >= maxChildren:
		return "", abi.CodeTooMany, "an actor has at most " + strconv.Itoa(maxChildren) + " volatile children; have some pass away"
	}
	name := f.names[parent]
	if name == "" {
		f.begun++
		name = "family-" + strconv.FormatUint(f.begun, 10)
		if f.names == nil {
			f.names, f.of = map[actor.Ref]string{}, map[string]actor.Ref{}
		}
		f.names[parent], f.of[name] = name, parent
	}
	f.made++
	mark := "\x01"
	if flags != 0 {
		mark = "\x02"
	}
	id = mark + name + "." + strconv.FormatUint(f.made, 10)
	c.spawned = append(c.spawned, actor.Ref{Type: strings.Clone(typ), ID: id})
	return id, 0, ""
}

// unrelated says why a turn of the chain may not call an actor, if one of the two is a volatile child.
func unrelated(c *chain, to actor.Ref) error {
	var by actor.Ref
	if n := len(c.open); n > 0 {
		by = c.open[n-1]
	}
	switch {
	case !isChild(by) && !isChild(to) || c.harness.families.related(by, to):
		return nil
	case isChild(by):
		return actor.NewError(actor.StatusFailedPrecondition, abi.CallInvalid, "a volatile child calls its parent and other children of it; have the parent call others")
	}
	return noChild(to)
}

// noChild is the error of a call of a child that is gone, or of another family.
func noChild(ref actor.Ref) error {
	return actor.ErrPassedAway.Messagef("%q is no volatile child that lives, of this actor or of its parent", ref.String())
}

// untold says why an actor tells another one nothing, if one of the two is a volatile child.
func untold(h *Harness, from, to actor.Ref) string {
	switch {
	case !isChild(from) && !isChild(to) || h.families.related(from, to):
		return ""
	case isChild(from):
		return "a volatile child sends messages to its parent and to other children of it; have the parent send this one"
	}
	return "that is no volatile child of this actor, or one of an earlier activation"
}
