package host

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

// migration is a turn under way that does nothing but migrate an actor's state. All
// readers that came upon the state wait for it.
type migration struct {
	done chan struct{}
	err  error // set before done is closed
}

// stateCopy is the copy of one actor's state. The shard's lock guards it.
type stateCopy struct {
	state   *residency.Row // nil: none was read yet, or it is damaged
	current time.Time      // after this it was the newest
	used    time.Time
	weighed int64  // what it counts for in table.states
	fetch   *fetch // under way; nil: none
}

// fetch brings a copy up to date.
type fetch struct {
	done chan struct{}
	// What follows is set before done is closed.
	asked time.Time // state was the newest after this
	state *residency.Row
	err   error
}
