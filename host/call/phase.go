package call

import "time"

// PhaseName says what a turn did for a while.
type PhaseName string

// The phases of a turn.
const (
	PhaseLoad   PhaseName = "load"   // its row was read
	PhaseGuest  PhaseName = "guest"  // one run of the guest
	PhaseCommit PhaseName = "commit" // its answer waited for a commit: of its effects, or of what it has seen
)

// Phase is a part of a turn.
type Phase struct {
	Name     PhaseName
	From, To time.Time
}
