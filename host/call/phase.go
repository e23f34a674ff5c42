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

// Phase begins a phase of c, which the result ends. Nothing is noted if the trace of c is not
// sampled.
func (c *Call) Phase(name PhaseName) (end func()) {
	if !c.Inv.Trace.IsSampled() {
		return func() {}
	}
	from := time.Now()
	return func() { c.Stats.Phases = append(c.Stats.Phases, Phase{name, from, time.Now()}) }
}

// Commits ends a wait for a commit, which began when the guest had run.
func (s *Stats) Commits(now time.Time) {
	if n := len(s.Phases); n > 0 && s.Phases[n-1].Name == PhaseGuest {
		s.Phases = append(s.Phases[:n:n], Phase{PhaseCommit, s.Phases[n-1].To, now})
	}
}
