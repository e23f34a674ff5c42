package hosttest

import "slices"

// Programs makes random scripts.
type Programs struct {
	// Draw returns a random number from 0 to n-1.
	Draw   func(n int) int
	Actors []string
	// Type returns the type of an actor; nil: all have that of the caller.
	Type func(id string) string
	// Without are operations that are not in the scripts.
	Without []string
}

// operations are those of scripts, the frequent ones several times.
var operations = []string{
	"add", "add", "add", "call", "call", "call", "must", "must", "fail", "trap", "remind", "cancel", "names", "time", "untime",
	"send", "send", "tell", "tell", "publish", "publish", "claim", "release", "become", "pass", "spawn",
}

// pick returns one of several.
func (p *Programs) pick(from ...string) string { return from[p.Draw(len(from))] }

// Actor returns an actor.
func (p *Programs) Actor() string { return p.pick(p.Actors...) }

// Script returns what a turn does. Calls are nested at most depth deep.
func (p *Programs) Script(depth int) (ops []Op) {
	for range p.Draw(5) {
		o := Op{Do: p.pick(operations...)}
		if slices.Contains(p.Without, o.Do) || o.Do == "names" && slices.ContainsFunc(ops, func(o Op) bool { return o.Do == "pass" }) {
			continue
		}
		switch o.Do {
		case "add": // never nothing: a turn that changes nothing may show an older state, and its commit alone cannot be settled
			o.N = int64(1 + p.Draw(12))
		case "call", "must":
			o.ID, o.Again = p.Actor(), p.Draw(2) == 0
			if o.Look = depth <= 0 || p.Draw(5) == 0; !o.Look {
				o.Ops = p.Script(depth - 1)
			}
		case "send":
			o.ID, o.N = p.Actor(), int64(1+p.Draw(99))
			if depth > 0 && p.Draw(3) == 0 {
				o.Ops = p.Script(depth - 2)
			}
		case "tell":
			o.ID, o.N = p.Actor(), int64(p.Draw(100))
		case "publish":
			o.ID, o.N = p.pick("e", "f"), int64(p.Draw(100))
		case "remind", "cancel":
			o.ID = p.pick("x", "y")
		case "time", "untime":
			o.ID, o.N = p.pick("tx", "ty"), 3600
		case "claim", "release":
			o.ID = p.pick("s1", "s2")
		case "become":
			o.ID = p.pick("", "open", "closed")
		case "spawn":
			o.Type = "Child"
		}
		if p.Type != nil && (o.Do == "call" || o.Do == "must" || o.Do == "send" || o.Do == "tell") {
			o.Type = p.Type(o.ID)
		}
		ops = append(ops, o)
		if o.Do == "pass" && p.Draw(4) > 0 { // most of what follows would be refused
			return ops
		}
	}
	return ops
}
