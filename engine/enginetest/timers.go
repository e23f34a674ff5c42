package enginetest

import "github.com/greenroom-run/greenroom/abi"

// Timers is the part of a turn that has timers, for a fake [engine.Calls]. The zero value
// is ready.
type Timers struct {
	// Set are those that are there, by name.
	Set map[string]abi.Reminder
	// RefuseTimers is answered by all, if it is not 0.
	RefuseTimers abi.Code
}

// TimerSet implements [engine.Calls].
func (f *Timers) TimerSet(r *abi.Reminder) (replaced bool, code abi.Code) {
	if f.RefuseTimers != 0 {
		return false, f.RefuseTimers
	}
	if f.Set == nil {
		f.Set = map[string]abi.Reminder{}
	}
	_, replaced = f.Set[r.Name]
	f.Set[r.Name] = *r
	return replaced, 0
}

// TimerCancel implements [engine.Calls].
func (f *Timers) TimerCancel(name []byte) (existed bool, code abi.Code) {
	_, existed = f.Set[string(name)]
	delete(f.Set, string(name))
	return existed, f.RefuseTimers
}
