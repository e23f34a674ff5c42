package actor

import (
	"slices"
)

// ReminderEffects is what a [Commit] does to reminders, in this order: the steps, then
// the cancellations, then the sets. No reminder has two steps, and no name is set or
// cancelled twice.
type ReminderEffects struct {
	// Steps are fences as well: one whose reminder is not at its version refuses the
	// commit with [ErrFiringTaken].
	Steps []ReminderStep
	// Cancel removes reminders, whatever their version; those that are not there are
	// none.
	Cancel []ReminderName
	// Set writes reminders in the place of those of the same name, unless they are to
	// be kept. Their IDs were never used before, and their Version is ignored: the store
	// gives them their first.
	Set []Reminder
}

// Empty reports whether nothing is done to any reminder.
func (e *ReminderEffects) Empty() bool {
	return len(e.Steps) == 0 && len(e.Cancel) == 0 && len(e.Set) == 0
}

// Add folds what a later turn does into e, so that one commit does both in their order.
// None of the steps of later is of a reminder that e steps, cancels or sets: its turn would
// have to see that first.
func (e *ReminderEffects) Add(later *ReminderEffects) {
	e.Steps = append(e.Steps, later.Steps...)
	for _, n := range later.Cancel {
		e.Cancels(n)
	}
	for i := range later.Set {
		e.Sets(&later.Set[i])
	}
}

// Cancels adds a cancellation, which comes after all that e does.
func (e *ReminderEffects) Cancels(n ReminderName) {
	if at := e.setAt(n); at >= 0 {
		e.Set = slices.Delete(e.Set, at, at+1)
	}
	if !slices.Contains(e.Cancel, n) {
		e.Cancel = append(e.Cancel, n)
	}
}

// Sets adds a reminder that is set after all that e does.
func (e *ReminderEffects) Sets(r *Reminder) {
	if r.Message != nil { // no two messages have one name, which may not be known yet
		e.Set = append(e.Set, *r)
		return
	}
	n := ReminderName{Key: r.Key, Name: r.Name}
	at, canceled := e.setAt(n), slices.Index(e.Cancel, n)
	switch {
	case at >= 0 && r.Keep:
		return // there is one by then, one way or the other
	case at >= 0:
		e.Set[at] = *r
		return
	}
	set := *r
	if canceled >= 0 {
		e.Cancel = slices.Delete(e.Cancel, canceled, canceled+1)
		set.Keep = false // there is none by then
	}
	e.Set = append(e.Set, set)
}

func (e *ReminderEffects) setAt(n ReminderName) int {
	for i := range e.Set { // a reminder is much to copy
		if r := &e.Set[i]; r.Name == n.Name && r.Key == n.Key {
			return i
		}
	}
	return -1
}

// Names reports whether e steps, cancels or sets a reminder.
func (e *ReminderEffects) Names(n ReminderName) bool {
	return e.setAt(n) >= 0 || slices.Contains(e.Cancel, n) ||
		slices.ContainsFunc(e.Steps, func(s ReminderStep) bool { return s.ReminderName == n })
}

// Size is about how many bytes e takes in a commit.
func (e *ReminderEffects) Size() int {
	size := ReminderOverhead * (len(e.Steps) + len(e.Cancel))
	for i := range e.Set {
		size += e.Set[i].Size()
	}
	return size
}
