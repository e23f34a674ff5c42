package activation

import (
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/residency"
)

// Leave ends what [Ownership.Enter] began.
func (s *Shard) Leave(c *call.Call) {
	s.Mu.Lock()
	s.Running.Remove(&c.Place)
	if c.Left != nil {
		close(c.Left)
	}
	s.Mu.Unlock()
	s.Work.Done()
}

// Withdraw takes a call out of its mailbox, or from those that go again, and
// reports whether it was there: then it leaves no trace.
func (s *Shard) Withdraw(c *call.Call) bool {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	a := s.Actors[c.Inv.Key]
	return a != nil && a.Calls.GiveUp(&c.Place, c.Cost())
}

// Used makes an activation the newest. The caller has the shard's lock.
func (s *Shard) Used(a *Activation) {
	if !s.order.Last(&a.used) {
		s.order.Remove(&a.used)
		s.order.Push(&a.used, a)
	}
}

// NoteNewer records a newer version for the activation a, which may be nil. The caller
// has the lock.
func (s *Shard) NoteNewer(a *Activation, version uint64) {
	if a == nil {
		s.History.NoteNewer(nil, version)
		return
	}
	s.History.NoteNewer(&a.Known, version)
}

// noteOther takes over that the store has another version than the readers of an activation
// see. The caller has the lock.
func (s *Shard) noteOther(a *Activation, version uint64) { s.History.NoteOther(&a.Known, version) }

// Show lets the readers of an activation with a state see l, unless it is older than what
// they see. The caller has the lock.
func (s *Shard) Show(a *Activation, l *residency.Row, asked time.Time, forgets uint64) {
	s.History.Show(&a.Known, l, asked, forgets)
	a.Weigh()
}

// BeginLookUp counts a call that is looked up before it is admitted; one of
// Shard.Work is its own.
func (s *Shard) BeginLookUp(c *call.Call) error {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.Closed {
		return actor.ErrStopping
	}
	s.Work.Add(1)
	c.Looking = true
	return nil
}

// EndLookUp reports whether a call is still being looked up, and ends that.
func (s *Shard) EndLookUp(c *call.Call) bool {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	was := c.Looking
	c.Looking = false
	return was
}

// EndTimers ends the timers and the watches of the actors for which end returns true.
func (s *Shard) EndTimers(end func(key actor.Key, placed bool) bool) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Timers.MovedFunc(end)
}

// DropDelayed drops the volatile messages that wait for their time.
func (s *Shard) DropDelayed() {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Timers.DropDelayed()
}

// Alone appends to wait what is closed when the calls have left that run beside the
// activations of actors that are named.
func (s *Shard) Alone(moving func(actor.Key) bool, wait []<-chan struct{}) []<-chan struct{} {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	for c := range s.Running.All() {
		if c.Home != nil || c.Copied || !moving(c.Inv.Key) {
			continue
		}
		if c.Left == nil {
			c.Left = make(chan struct{})
		}
		wait = append(wait, c.Left)
	}
	return wait
}

// Pick takes out the call that the activation's worker is to run. Without one
// the worker ends. The caller has the lock.
func (s *Shard) Pick(a *Activation) *call.Call {
	var c *call.Call
	if a.Member.MayBegin() && !a.Full() {
		c = a.Calls.Take()
	}
	if c == nil {
		a.Working = false
		return nil
	}
	a.Member.Begin()
	s.Running.Push(&c.Place, c)
	if s.Killed {
		c.Killed.Store(true)
	}
	return c
}
