package sim

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/scheduler"
)

// sabotage is what a run leaves out of the product, to show that it is missed.
type sabotage struct {
	fence    bool // the store applies commits whatever the version
	handOver bool // actors are given away without waiting for their turns
	dropAll  bool // a host that has ended keeps its activations
	lease    bool // a host believes that its lease lasts for ever
}

// ownership is what the host of a process is told.
func (s sabotage) ownership(p *process) host.Ownership {
	if s.lease {
		return endless{p.service}
	}
	return p.service
}

// endless is an ownership whose lease never ends.
type endless struct{ *scheduler.Service }

// Current implements [host.Ownership].
func (endless) Current(time.Time) bool { return true }

// patience is how many seeds may pass before a sabotage is noticed.
const patience = 5000

// TestSabotage: a product without one of its precautions is found out.
func TestSabotage(t *testing.T) {
	if raceEnabled {
		t.Skip("needs many seeds; run without -race")
	}
	for _, c := range []struct {
		name string
		sabotage
	}{
		{"no fence", sabotage{fence: true}},
		{"no hand-over", sabotage{handOver: true}},
		{"activations kept", sabotage{dropAll: true}},
		{"endless lease", sabotage{lease: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for n := range patience {
				if found := violations(t, rand.Uint64(), c.sabotage, new(counts)); len(found) > 0 {
					t.Logf("seed %d: %s", n+1, found[0])
					return
				}
			}
			t.Errorf("not noticed in %d seeds", patience)
		})
	}
}
