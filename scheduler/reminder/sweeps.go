package reminder

import (
	"time"

	"github.com/greenroom-run/greenroom/store"
)

// sweeps is the progress of an owner's scans for what is due. It is for the goroutine that polls
// the store.
type sweeps struct {
	at time.Time // when the last one was, by the local clock
	// idle is how long there is until the next one of a bucket that is closed and was found
	// empty: twice as long each time. 0: it was not.
	idle time.Duration
	full time.Time // when it was last found not to be empty
	// Everything due before till was found by one, and what was not delivered is in memory, or
	// left out.
	till time.Time
	// next is where the one under way goes on; nil: none is. When it has ended, till is then.
	next *place
	then time.Time
	// all is where the one of everything goes on, and allAt when it began, by the local clock.
	all   *place
	allAt time.Time
}

// place is a place in what is due of a bucket: at a time, and of what is due then, above a
// token.
type place struct {
	at    time.Time
	token *uint32 // nil: all of it
}

// placeOf is the place at which reading finds a reminder first.
func placeOf(h *store.ReminderHead) place {
	p := place{at: h.FireAt}
	if h.ID.Token > 0 {
		before := h.ID.Token - 1
		p.token = &before
	}
	return p
}
