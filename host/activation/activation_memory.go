package activation

import (
	"time"
)

// Idle reports whether no turn of the actor runs, and none waits for a method set.
func (a *Activation) Idle() bool { return !a.Busy && a.Calls.Aside() == 0 }

// Empty reports whether the activation holds nothing worth keeping.
func (a *Activation) Empty() bool { return a.Loaded == nil && a.dedicated == nil }

// DropState forgets the activation's state; its next turn reads the row.
func (a *Activation) DropState() {
	s := a.Shard
	s.Mu.Lock()
	a.Forget()
	s.Mu.Unlock()
}

// Forget drops the activation's state. The caller has the shard's lock.
func (a *Activation) Forget() {
	a.Shard.History.Drop(a.Key, &a.Known, time.Now())
	a.Weigh()
}

// activationCost is what an activation takes beside its state.
const activationCost = 2 << 10

// waitingCost is what a message that waits for a method set counts for in memory.
const waitingCost = 32

// weight is what the activation counts for in Config.StateMemory: every state
// that it holds, which may be four while it works.
func (a *Activation) weight() int64 {
	w := activationCost + int64(len(a.Key.ID)) + int64(len(a.waiting.messages))*waitingCost + a.Cost()
	if f := a.Member.Flight(); f != nil {
		if after := f.Payload.After(a); after != a.Tip && after != a.Loaded {
			w += after.Cost()
		}
	}
	return w
}

// Weigh brings the account up to date with what the activation holds. The caller
// has the shard's lock; the activation is in the table.
func (a *Activation) Weigh() {
	w := a.weight()
	if w != a.weighed {
		a.Shard.states.Add(w - a.weighed)
		a.weighed = w
	}
}
