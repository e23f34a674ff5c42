package enginetest

import (
	"maps"
	"slices"
	"strings"

	"github.com/greenroom-run/greenroom/abi"
)

// Reminders is the part of a turn that has reminders, for a fake [engine.Calls]. The zero
// value is ready.
type Reminders struct {
	// Kept are those that are there, by name.
	Kept map[string]abi.Reminder
	// Refuse is answered by all, if it is not 0, with Why.
	Refuse abi.Code
	Why    string
	// Err ends the guest when it asks.
	Err error
}

// ReminderSet implements [engine.Calls].
func (f *Reminders) ReminderSet(r *abi.Reminder) abi.Code {
	if f.Refuse != 0 {
		return f.Refuse
	}
	if f.Kept == nil {
		f.Kept = map[string]abi.Reminder{}
	}
	f.Kept[r.Name] = *r
	return 0
}

// ReminderCancel implements [engine.Calls].
func (f *Reminders) ReminderCancel(name []byte) abi.Code {
	delete(f.Kept, string(name))
	return f.Refuse
}

// ReminderGet implements [engine.Calls].
func (f *Reminders) ReminderGet(name []byte) (*abi.Reminder, abi.Code, error) {
	r, ok := f.Kept[string(name)]
	switch {
	case f.Err != nil || f.Refuse != 0:
		return nil, f.Refuse, f.Err
	case !ok:
		return nil, abi.CodeNotFound, nil
	}
	return &r, 0, nil
}

// ReminderNames implements [engine.Calls].
func (f *Reminders) ReminderNames(prefix []byte) ([]byte, abi.Code, error) {
	names := slices.Sorted(maps.Keys(f.Kept))
	names = slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, string(prefix)) })
	return abi.AppendKeyList(nil, names), f.Refuse, f.Err
}

// Problem implements [engine.Calls].
func (f *Reminders) Problem() string { return f.Why }
