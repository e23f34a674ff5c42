package hosttest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/greenroom-run/greenroom/actor"
)

// Model is what scripted actors are where one turn follows the other. It does not change.
type Model struct {
	actors  map[string]ModelActor
	Spawned int // actors, by all of them
}

// ModelActor is what a scripted actor has. It does not change.
type ModelActor struct {
	N     int64
	Set   string // of methods
	Lives int    // that are over
	// Has are the names of its reminders, timers and services. Those of services begin with s, and
	// those of timers with t.
	Has map[string]bool
	// Heard are the numbers that it was told, by who told it, and Events what it has published.
	Heard  map[string]string
	Events string
	// Inbox are the messages to it, each sender's in their order.
	Inbox []ModelMessage
}

// ModelMessage is a message that nobody has consumed.
type ModelMessage struct {
	From, Payload string
	// Life counts the lives of the receiver that were over when the message was sent: in a later
	// one it fails. It is -1 as long as the turn is open that sends it.
	Life int
}

// ModelTell is a volatile message.
type ModelTell struct {
	From, To string
	N        int64
}

func (a ModelActor) String() string {
	inbox := map[string]string{}
	for _, m := range a.Inbox {
		inbox[m.From] += " " + m.Payload
	}
	return fmt.Sprintf("%d in set %q of life %d with %v, heard %v, published%s, inbox %v", a.N, a.Set, a.Lives, slices.Sorted(maps.Keys(a.Has)), a.Heard, a.Events, inbox)
}

// Actor returns what an actor is.
func (m Model) Actor(id string) ModelActor { return m.actors[id] }

// With returns the actors after a change of one.
func (m Model) With(id string, change func(*ModelActor)) Model {
	a := m.actors[id]
	a.Has, a.Heard, a.Inbox = maps.Clone(a.Has), maps.Clone(a.Heard), slices.Clone(a.Inbox)
	if a.Has == nil {
		a.Has = map[string]bool{}
	}
	if a.Heard == nil {
		a.Heard = map[string]string{}
	}
	change(&a)
	m.actors = maps.Clone(m.actors)
	if m.actors == nil {
		m.actors = map[string]ModelActor{}
	}
	m.actors[id] = a
	return m
}

// Durable says what the store has of the actors.
func (m Model) Durable() string {
	var text []string
	for id, a := range m.actors {
		a.Has = maps.Clone(a.Has)
		maps.DeleteFunc(a.Has, func(name string, _ bool) bool { return name[0] == 't' })
		text = append(text, id+": "+a.String())
	}
	slices.Sort(text)
	return fmt.Sprint(text, m.Spawned)
}

// holder returns who stands for a service; empty for nobody.
func (m Model) holder(service string) string {
	for id, a := range m.actors {
		if a.Has[service] {
			return id
		}
	}
	return ""
}

// Run returns what the actors are after a scripted turn, its reply or the code of its error, and what
// it tells, which [Model.Tell] delivers. After an error nothing has changed.
func (m Model) Run(id string, ops []Op) (after Model, tells []ModelTell, reply, code string) {
	c := &modelChain{begun: m, open: map[string]bool{}, over: map[string]bool{}, claimed: map[string]string{}}
	after, reply, code = c.run(m, id, ops)
	if code != "" {
		return m, nil, "", code
	}
	for to := range after.actors {
		after = after.With(to, func(a *ModelActor) {
			for i := range a.Inbox {
				if a.Inbox[i].Life < 0 {
					a.Inbox[i].Life = a.Lives
				}
			}
		})
	}
	return after, c.tells, reply, ""
}

// Consume is Run of the message to an actor with this place in its inbox. The code is "order" if an
// earlier one of its sender is there, and "passed_away" for a message to an earlier life.
func (m Model) Consume(id string, place int, ops []Op) (after Model, tells []ModelTell, reply, code string) {
	inbox := m.actors[id].Inbox
	from := inbox[place].From
	switch {
	case slices.IndexFunc(inbox, func(o ModelMessage) bool { return o.From == from }) < place:
		return m, nil, "", "order"
	case inbox[place].Life < m.actors[id].Lives:
		return m, nil, "", "passed_away"
	}
	if after, tells, reply, code = m.Without(id, place).Run(id, ops); code != "" {
		after = m
	}
	return after, tells, reply, code
}

// Without returns the actors without a message to one of them.
func (m Model) Without(id string, place int) Model {
	return m.With(id, func(a *ModelActor) { a.Inbox = slices.Delete(a.Inbox, place, place+1) })
}

// Tell returns the actors after a volatile message was delivered.
func (m Model) Tell(t ModelTell) Model {
	return m.With(t.To, func(a *ModelActor) { a.Heard[t.From] += fmt.Sprint(" ", t.N) })
}

// modelChain is a turn with those that it calls.
type modelChain struct {
	begun   Model
	open    map[string]bool   // the actors with a turn that is not over
	over    map[string]bool   // those whose life has ended in the chain
	claimed map[string]string // who has claimed services in the chain
	tells   []ModelTell
}

func (c *modelChain) run(m Model, id string, ops []Op) (after Model, reply, code string) {
	awaited, over, claimed, told := c.open[id], maps.Clone(c.over), maps.Clone(c.claimed), len(c.tells)
	c.open[id] = true
	defer func() {
		if c.open[id] = awaited; code != "" {
			c.over, c.claimed, c.tells = over, claimed, c.tells[:told]
		}
	}()
	after = m
	var seen []string
	for _, o := range ops {
		var did string
		switch o.Do {
		case "fail":
			code = "on_purpose"
		case "trap":
			code = "trap"
		case "call", "must":
			if after, did, code = c.call(after, &o); code != "" && o.Do == "call" {
				did, code = code, ""
			}
			did = "(" + did + ")"
		case "names":
			names := slices.Sorted(maps.Keys(after.actors[id].Has))
			did = fmt.Sprint(slices.DeleteFunc(names, func(name string) bool { return name[0] == 't' || name[0] == 's' }))
		case "send":
			after, did = after.With(o.ID, func(a *ModelActor) { a.Inbox = append(a.Inbox, ModelMessage{id, o.Message(), -1}) }), "sent"
		default:
			if c.over[id] {
				code = o.Do + "_-12"
				break
			}
			after, did, code = c.effect(after, id, &o, awaited)
		}
		if code != "" {
			return m, "", code
		}
		seen = append(seen, did)
	}
	return after, strings.Join(seen, " "), ""
}

func (c *modelChain) call(m Model, o *Op) (after Model, reply, code string) {
	to := m.actors[o.ID]
	switch {
	case c.open[o.ID] && !o.Again:
		return m, "", "not_reentrant"
	case c.over[o.ID]:
		return m, "", "passed_away"
	case o.Look:
		return m, fmt.Sprint(to.N), ""
	case o.Again && to.Set == "closed":
		return m, "", "not_accepted"
	}
	return c.run(m, o.ID, o.Ops)
}

// effect does something else than calling and sending to the actor whose turn is open. awaited means
// that an earlier turn of the actor is open as well.
func (c *modelChain) effect(m Model, id string, o *Op, awaited bool) (after Model, did, code string) {
	had := m.actors[id].Has[o.ID]
	after = m.With(id, func(a *ModelActor) {
		switch o.Do {
		case "add":
			a.N += o.N
			did = fmt.Sprint(a.N)
		case "remind":
			a.Has[o.ID], did = true, "set"
		case "cancel":
			delete(a.Has, o.ID)
			did = "canceled"
		case "time":
			a.Has[o.ID], did = true, fmt.Sprint(had)
		case "untime", "release":
			delete(a.Has, o.ID)
			did = fmt.Sprint(had)
		case "claim":
			// What another actor gives up in the chain is its own until that is committed.
			if holder := cmp.Or(m.holder(o.ID), c.begun.holder(o.ID), c.claimed[o.ID]); holder != "" && holder != id {
				code = "claim_-10"
				return
			}
			a.Has[o.ID], c.claimed[o.ID], did = true, id, "claimed"
		case "become":
			a.Set, did = o.ID, o.ID
		case "publish":
			a.Events += fmt.Sprintf(" %d:%s:%d", a.Lives, o.ID, o.N)
			did = "published"
		case "tell":
			c.tells = append(c.tells, ModelTell{id, o.ID, o.N})
			did = "told"
		case "pass":
			if awaited {
				code = "pass_-2"
				return
			}
			// What the turn sends to its own actor is dropped.
			inbox := slices.DeleteFunc(a.Inbox, func(sent ModelMessage) bool { return sent.From == id && sent.Life < 0 })
			if a.Events != "" {
				a.Events += fmt.Sprintf(" %d:%s:", a.Lives, actor.PassedAwayEvent)
			}
			*a = ModelActor{Lives: a.Lives + 1, Inbox: inbox, Events: a.Events}
			maps.DeleteFunc(c.claimed, func(_, by string) bool { return by == id })
			c.over[id], did = true, "passed"
		case "spawn":
			did = "spawned"
		}
	})
	if o.Do == "spawn" {
		after.Spawned++
	}
	return after, did, code
}
