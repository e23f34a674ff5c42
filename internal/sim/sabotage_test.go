package sim

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/scheduler"
)

// sabotage is what a run leaves out of the product, to show that it is missed.
type sabotage struct {
	fence    bool // the store applies commits whatever the version
	handOver bool // actors are given away without waiting for their turns
	dropAll  bool // a host that has ended keeps its activations
	lease    bool // a host believes that its lease lasts for ever

	member     bool // the commit of a chain leaves one row out
	readFence  bool // the commit of a chain has no fences of what was read: see TestLateCommitOfChain
	savepoint  bool // a called turn that has failed leaves its changes
	forwarding bool // a call of an actor at another host has no key, so that it is applied twice
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

// chains reports whether only seeds with ledgers can notice the sabotage.
func (s sabotage) chains() bool { return s.member || s.readFence || s.savepoint || s.forwarding }

// commits returns what is sent to the database instead of commits.
func (s sabotage) commits(all []actor.Commit) []actor.Commit {
	if !s.member && !s.readFence {
		return all
	}
	all = slices.Clone(all)
	for i := range all {
		if rows := all[i].Rows; s.member && len(rows) > 1 {
			all[i].Rows = rows[:len(rows)-1]
		}
		if s.readFence && len(all[i].Rows) > 0 {
			all[i].Fences = nil
		}
	}
	return all
}

// peers returns the [host.Peers] of a process.
func (s sabotage) peers(p *process) host.Peers {
	if s.forwarding {
		return keyless{peers{p}}
	}
	return peers{p}
}

// peers is the [host.Peers] of a process, whose router is made after its host.
type peers struct{ p *process }

// Locate implements [host.Peers].
func (p peers) Locate(ctx context.Context, key actor.Key) (holder, self actor.HostID, err error) {
	return p.p.router.Locate(ctx, key)
}

// Session implements [host.Peers].
func (p peers) Session(id actor.HostID) context.Context { return p.p.router.Session(id) }

// Begin implements [host.Peers].
func (p peers) Begin(ctx context.Context, inv actor.Invocation, to host.Receiver) host.Begun {
	p.p.w.happened("call of an actor at another host")
	return p.p.router.Begin(ctx, inv, to)
}

// keyless are peers that call without idempotency keys.
type keyless struct{ peers }

// Begin implements [host.Peers].
func (k keyless) Begin(ctx context.Context, inv actor.Invocation, to host.Receiver) host.Begun {
	inv.IdempotencyKey = ""
	return k.peers.Begin(ctx, inv, to)
}

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
		{"half of a chain committed", sabotage{member: true}},
		{"no savepoint", sabotage{savepoint: true}},
		{"forwarded call without a key", sabotage{forwarding: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for n := range patience {
				seed := rand.Uint64()
				if found := violations(t, seed, c.sabotage, new(counts)); len(found) > 0 {
					t.Logf("after %d seeds, %d: %s", n+1, seed, found[0])
					return
				}
			}
			t.Errorf("not noticed in %d seeds", patience)
		})
	}
}
