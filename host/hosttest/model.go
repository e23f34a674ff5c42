package hosttest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Model is what scripted actors are where one turn follows the other. It does not change.
type Model map[string]ModelActor

// ModelActor is what a scripted actor has: its number, the names of its reminders and timers, and,
// by receiver, the numbers that it has sent.
type ModelActor struct {
	N    int64
	Has  map[string]bool
	Sent map[string]string
}

func (a ModelActor) String() string {
	return fmt.Sprint(a.N, slices.Sorted(maps.Keys(a.Has)), a.Sent)
}

// With returns the actors after a change of one.
func (m Model) With(id string, change func(*ModelActor)) Model {
	after := maps.Clone(m)
	a := ModelActor{m[id].N, map[string]bool{}, map[string]string{}}
	maps.Copy(a.Has, m[id].Has)
	maps.Copy(a.Sent, m[id].Sent)
	change(&a)
	after[id] = a
	return after
}

// Run returns what the actors are after a scripted turn, and its reply or the code of its error.
func (m Model) Run(id string, ops []Op) (after Model, reply, code string) {
	return m.run(id, ops, map[string]bool{})
}

func (m Model) run(id string, ops []Op, open map[string]bool) (after Model, reply, code string) {
	if !open[id] {
		open[id] = true
		defer delete(open, id)
	}
	after = m
	var seen []string
	for _, o := range ops {
		there := after[id].Has[o.ID]
		add := func(a *ModelActor) { a.Has[o.ID] = true }
		remove := func(a *ModelActor) { delete(a.Has, o.ID) }
		switch o.Do {
		case "add":
			after = after.With(id, func(a *ModelActor) { a.N += o.N })
			seen = append(seen, fmt.Sprint(after[id].N))
		case "remind":
			after = after.With(id, add)
			seen = append(seen, "set")
		case "cancel":
			after = after.With(id, remove)
			seen = append(seen, "canceled")
		case "time":
			after = after.With(id, add)
			seen = append(seen, fmt.Sprint(there))
		case "untime":
			after = after.With(id, remove)
			seen = append(seen, fmt.Sprint(there))
		case "send":
			after = after.With(id, func(a *ModelActor) { a.Sent[o.ID] += fmt.Sprint(" ", o.N) })
			seen = append(seen, "sent")
		case "names":
			names := slices.Sorted(maps.Keys(after[id].Has))
			seen = append(seen, fmt.Sprint(slices.DeleteFunc(names, func(name string) bool { return name[0] == 't' })))
		case "fail":
			return m, "", "on_purpose"
		case "trap":
			return m, "", "trap"
		default:
			var next Model
			var reply, code string
			switch {
			case open[o.ID] && !o.Again:
				code = "not_reentrant"
			case o.Look:
				reply = fmt.Sprint(after[o.ID].N)
			default:
				if next, reply, code = after.run(o.ID, o.Ops, open); code == "" {
					after = next
				}
			}
			if code != "" && o.Do == "must" {
				return m, "", code
			}
			if code != "" {
				reply = code
			}
			seen = append(seen, "("+reply+")")
		}
	}
	return after, strings.Join(seen, " "), ""
}
