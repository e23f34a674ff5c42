package activation

import (
	"time"

	"github.com/greenroom-run/greenroom/host/residency"
)

// confirmation is a question for the version of one actor, which all readers that
// need it wait for.
type confirmation struct {
	done chan struct{}
	err  error // set before done is closed
}

// Migration is a turn under way that does nothing but migrate an actor's state. All
// readers that came upon the state wait for it.
type Migration struct {
	Done chan struct{}
	Err  error // set before done is closed
}

// StateCopy is the copy of one actor's state. The shard's lock guards it.
type StateCopy struct {
	State   *residency.Row // nil: none was read yet, or it is damaged
	Current time.Time      // after this it was the newest
	Used    time.Time
	weighed int64  // what it counts for in Table.States
	Fetch   *Fetch // under way; nil: none
}

// Fetch brings a copy up to date.
type Fetch struct {
	Done chan struct{}
	// What follows is set before done is closed.
	Asked time.Time // state was the newest after this
	State *residency.Row
	Err   error
}
