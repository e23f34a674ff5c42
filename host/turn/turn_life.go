package turn

import (
	"fmt"
	"log/slog"
	"slices"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
)

// maxSpawned is how many actors a turn may spawn, with those that it calls: together with the
// actors of a chain they are few enough for one commit.
const maxSpawned = 64

// Become implements [engine.Calls]. It is committed even if the actor has that set, on the state
// that the host has: on another host it may have got another one.
func (t *Turn) Become(set []byte) abi.Code {
	if code := t.mayLive(); code != 0 {
		return code
	}
	name := string(set)
	if problem := t.spec.Methods.SetProblem(name); problem != "" {
		return t.refuse(abi.CodeInvalid, problem)
	}
	t.done.Life.MethodSet = &name
	return 0
}

// PassAway implements [engine.Calls]. What the turns of the actor have done to its reminders
// and timers has not happened.
func (t *Turn) PassAway() abi.Code {
	if code := t.mayLive(); code != 0 {
		return code
	}
	if t.spec.Awaited {
		return t.refuse(abi.CodeInvalid, "another turn of the actor waits for this one; only that turn can end its life")
	}
	if t.spec.Key.IsAnonymous() { // it has no reminders
		t.done.Life.MethodSet, t.done.Life.PassedAway = nil, true
		return 0
	}
	if t.env.Reminders == nil {
		return t.refuse(abi.CodeNotReady, "this host has no reminders")
	}
	if names, err := t.env.Reminders.Names(t.ctx, t.spec.Key, "", maxEnded); err != nil {
		t.Log(int32(slog.LevelWarn), "cannot read the reminders of an actor that passes away: "+err.Error())
		return t.refuse(abi.CodeNotReady, "the host cannot read the actor's reminders now")
	} else if len(names) == maxEnded {
		return t.refuse(abi.CodeTooMany, fmt.Sprintf("an actor that passes away has fewer than %d reminders; cancel some before", maxEnded))
	}
	t.unset()
	t.done.Timers = TimerChanges{effects: []TimerEffect{{All: true}}}
	t.done.Life.MethodSet, t.done.Life.Services, t.done.Life.PassedAway = nil, nil, true
	return 0
}

// maxEnded is how many reminders are too many to be removed by the commit with which their
// actor passes away.
const maxEnded = 1000

// unset takes back what turns of the actor have done to its own reminders.
func (t *Turn) unset() {
	r, unused := &t.done.Reminders, []actor.ReminderID(nil)
	r.Cancel = slices.DeleteFunc(r.Cancel, func(n actor.ReminderName) bool { return n.Key == t.spec.Key })
	r.Set = slices.DeleteFunc(r.Set, func(set actor.Reminder) bool {
		if set.Key != t.spec.Key {
			return false
		}
		if at := slices.Index(t.tokens, set.ID); at >= 0 { // otherwise a called turn has set it
			t.tokens = slices.Delete(t.tokens, at, at+1)
			unused = append(unused, set.ID)
		}
		return true
	})
	if len(unused) > 0 {
		t.env.Reminders.Unused(t.spec.Key.App, unused)
	}
}

// Spawn implements [engine.Calls].
func (t *Turn) Spawn(typ []byte) (id string, code abi.Code) {
	if code := t.mayLive(); code != 0 {
		return "", code
	}
	if code := mayKeep(t); code != 0 {
		return "", code
	}
	if len(t.done.Life.Spawned) == maxSpawned {
		return "", t.refuse(abi.CodeTooMany, fmt.Sprintf("a turn may spawn %d actors", maxSpawned))
	}
	row, code, problem := t.spec.Spawner.Spawn(string(typ))
	if code != 0 {
		return "", t.refuse(code, problem)
	}
	t.done.Life.Spawned = append(t.done.Life.Spawned, row)
	return row.Key.ID, 0
}

// SpawnChild implements [engine.Calls]. It waits for the commits of earlier turns, so that the children
// can be counted.
func (t *Turn) SpawnChild(typ string, flags uint32) (id string, code abi.Code) {
	if code := t.mayLive(); code != 0 {
		return "", code
	}
	switch {
	case t.spec.Key.IsAnonymous():
		return "", t.refuse(abi.CodeNoState, "a volatile child has no children; have its parent make them")
	case flags&^abi.ChildShared != 0:
		return "", t.refuse(abi.CodeInvalid, fmt.Sprintf("a volatile child has the flag %d alone, and this one has %d", abi.ChildShared, flags))
	case len(t.done.Life.Spawned) == maxSpawned:
		return "", t.refuse(abi.CodeTooMany, fmt.Sprintf("a turn may spawn %d actors", maxSpawned))
	}
	if err := t.spec.Leaver.Await(); err != nil {
		t.fault = err
		return "", t.refuse(abi.CodeNotReady, "the turn is to run again")
	}
	made := 0
	for i := range t.done.Life.Spawned {
		if t.done.Life.Spawned[i].Key.IsAnonymous() {
			made++
		}
	}
	row, code, problem := t.spec.Spawner.SpawnChild(typ, flags&abi.ChildShared != 0, made)
	if code != 0 {
		return "", t.refuse(code, problem)
	}
	t.done.Life.Spawned = append(t.done.Life.Spawned, row)
	return row.Key.ID, 0
}
