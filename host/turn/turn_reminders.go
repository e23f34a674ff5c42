package turn

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
)

func (t *Turn) reminderName(name []byte) actor.ReminderName {
	return actor.ReminderName{Key: t.spec.Key, Name: string(name)}
}

// ReminderSet implements [engine.Calls].
func (t *Turn) ReminderSet(r *abi.Reminder) abi.Code {
	t.reminders.problem = ""
	if code := cmp.Or(t.mayWrite(), mayKeep(t)); code != 0 {
		return code
	}
	if t.env.Reminders == nil {
		return t.refuse(abi.CodeNotReady, "this host has no reminders")
	}
	spec, err := specOf(t.spec.Key, r)
	if err != nil {
		return t.refuse(abi.CodeInvalid, err.Error())
	}
	if problem := t.spec.Methods.MethodProblem("reminder", spec.Method); problem != "" {
		return t.refuse(abi.CodeInvalid, problem)
	}
	spec.Link = t.spec.Trace.Link()
	return setReminder(t, spec)
}

// setReminder sets a reminder, or a cursor.
func setReminder(t *Turn, spec actor.ReminderSpec) abi.Code {
	if code := t.mayChange(); code != 0 {
		return code
	}
	made, err := t.env.Reminders.Prepare(t.ctx, spec)
	var invalid *actor.ArgumentError
	switch {
	case errors.As(err, &invalid):
		return t.refuse(abi.CodeInvalid, err.Error())
	case err != nil:
		t.Log(int32(slog.LevelWarn), "cannot set the reminder "+strconv.Quote(spec.Name)+" now: "+err.Error())
		return t.refuse(abi.CodeNotReady, "the host cannot create reminders and subscriptions now")
	}
	t.tokens = append(t.tokens, made.ID)
	size := int64(made.Size())
	if t.reminders.bytes+size > t.spec.ReminderBytes {
		return t.refuse(abi.CodeTooLarge, fmt.Sprintf("the messages and reminders of this turn have more than %d bytes; keep the data in the state, and name it in the reminder", t.spec.ReminderBytes))
	}
	t.reminders.bytes += size
	t.reminders.changes++
	t.done.Reminders.Sets(&made)
	return 0
}

// ReminderCancel implements [engine.Calls].
func (t *Turn) ReminderCancel(name []byte) abi.Code {
	t.reminders.problem = ""
	if code := cmp.Or(t.mayWrite(), mayKeep(t)); code != 0 {
		return code
	}
	if err := actor.ValidateReminderName(string(name)); err != nil {
		return t.refuse(abi.CodeInvalid, err.Error())
	}
	if code := t.mayChange(); code != 0 {
		return code
	}
	t.reminders.changes++
	t.done.Reminders.Cancels(t.reminderName(name))
	return 0
}

// ReminderGet implements [engine.Calls].
func (t *Turn) ReminderGet(name []byte) (*abi.Reminder, abi.Code, error) {
	t.reminders.problem = ""
	if t.spec.Stateless {
		return nil, abi.CodeNoState, nil
	}
	if code := mayKeep(t); code != 0 {
		return nil, code, nil
	}
	if err := actor.ValidateReminderName(string(name)); err != nil {
		return nil, t.refuse(abi.CodeInvalid, err.Error()), nil
	}
	r, code, err := t.visibleReminder(t.reminderName(name))
	if code != 0 || err != nil {
		return nil, code, err
	}
	if r == nil {
		return nil, abi.CodeNotFound, nil
	}
	return frameOf(r), 0, nil
}

// visibleReminder returns a reminder as the turn sees it, nil if there is none.
func (t *Turn) visibleReminder(n actor.ReminderName) (*actor.Reminder, abi.Code, error) {
	e := &t.done.Reminders
	var set *actor.Reminder
	for i := range e.Set {
		if e.Set[i].Name == n.Name && e.Set[i].Message == nil {
			set = &e.Set[i]
		}
	}
	switch f := t.spec.Firing; {
	case set != nil && !set.Keep:
		return set, 0, nil
	case set == nil && slices.Contains(e.Cancel, n):
		return nil, 0, nil
	case f != nil && f.Step.ReminderName == n && f.Step.Then == nil:
		return set, 0, nil
	case f != nil && f.Step.ReminderName == n:
		if code, err := t.findFired(); code != 0 || err != nil {
			return nil, code, err
		}
		next := *t.spec.Fired
		next.ReminderProgress = *f.Step.Then
		return &next, 0, nil
	}
	found, known := t.reminders.found[n.Name]
	if !known {
		code, err := t.ask(func() (err error) {
			found, err = t.env.Reminders.Find(t.ctx, n)
			return err
		})
		if code != 0 || err != nil {
			return nil, code, err
		}
		if t.reminders.found == nil {
			t.reminders.found = map[string]actor.Reminder{}
		}
		t.reminders.found[n.Name] = found
	}
	if found.Version == 0 {
		return set, 0, nil
	}
	return &found, 0, nil
}

// findFired reads the reminder whose firing asks for the turn, unless that was done. One
// that has changed ends the guest: the turn cannot be committed.
func (t *Turn) findFired() (abi.Code, error) {
	if t.spec.Fired != nil {
		return 0, nil
	}
	var found actor.Reminder
	step := &t.spec.Firing.Step
	code, err := t.ask(func() (err error) {
		found, err = t.env.Reminders.Find(t.ctx, step.ReminderName)
		return err
	})
	switch {
	case code != 0 || err != nil:
		return code, err
	case found.ID != step.ID || found.Version != step.Version:
		return 0, actor.ErrFiringTaken
	}
	t.spec.Fired = &found
	return 0, nil
}

// ReminderNames implements [engine.Calls].
func (t *Turn) ReminderNames(prefix []byte) ([]byte, abi.Code, error) {
	t.reminders.problem = ""
	if t.spec.Stateless {
		return nil, abi.CodeNoState, nil
	}
	if code := mayKeep(t); code != 0 {
		return nil, code, nil
	}
	if strings.HasPrefix(string(prefix), actor.CursorNames) {
		return nil, 0, nil // which no reminder has
	}
	names, code, err := visibleNames(t, string(prefix))
	if code != 0 || err != nil {
		return nil, code, err
	}
	t.buf = abi.AppendKeyList(t.buf[:0], names[:min(len(names), maxReminderNames)])
	return t.buf, 0, nil
}

// visibleNames returns the names of reminders, or of cursors if the prefix is theirs, as the turn
// sees them: [maxReminderNames] or more if there are as many.
func visibleNames(t *Turn, prefix string) ([]string, abi.Code, error) {
	names, known := t.reminders.listed[prefix]
	if !known {
		code, err := t.ask(func() (err error) {
			// As many of them may be gone by what the turn does.
			names, err = t.env.Reminders.Names(t.ctx, t.spec.Key, prefix, maxReminderNames+maxReminderChanges)
			return err
		})
		if code != 0 || err != nil {
			return nil, code, err
		}
		if t.reminders.listed == nil {
			t.reminders.listed = map[string][]string{}
		}
		t.reminders.listed[prefix] = names
	}
	gone := func(name string) bool {
		n := actor.ReminderName{Key: t.spec.Key, Name: name}
		f := t.spec.Firing
		return slices.Contains(t.done.Reminders.Cancel, n) || f != nil && f.Step.ReminderName == n && f.Step.Then == nil
	}
	names = slices.DeleteFunc(slices.Clone(names), gone)
	for i := range t.done.Reminders.Set {
		r := &t.done.Reminders.Set[i]
		if r.Message == nil && (r.Cursor != nil) == (prefix == actor.CursorNames) && strings.HasPrefix(r.Name, prefix) {
			names = append(names, r.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), 0, nil
}
