package sim

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
)

// TestLateDeployment: when a type gets holders that was any, and a process that runs it is
// late, since it is cut off from the others or stopped, no default read is older than what
// that process has acknowledged: neither if it cannot read the deployment, nor if it can and
// does not hear from the leader.
func TestLateDeployment(t *testing.T) {
	for name, late := range map[string]lateness{
		"cut off, sticky":             {policy: abi.PlacementSticky},
		"cut off, ring":               {policy: abi.PlacementRing},
		"cut off, reads it, ring":     {policy: abi.PlacementRing, reads: true},
		"cut off, reads it, checkout": {policy: "checkout:3", reads: true},
		"stopped, sticky":             {policy: abi.PlacementSticky, stopped: true},
		"stopped, ring":               {policy: abi.PlacementRing, stopped: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { lateDeployment(t, late) })
		})
	}
}

// lateness is how a process is late.
type lateness struct {
	policy  string // of the deployment
	stopped bool   // instead of cut off from the other processes
	reads   bool   // it reads the deployment
}

func lateDeployment(t *testing.T, how lateness) {
	w := newWorld(t, 1, sabotage{}, new(counts))
	w.calm()
	typ := &actorType{name: "L", actors: 8, deployed: &deployed{policies: []string{abi.PlacementAny, how.policy}, generation: 1}}
	w.types, w.known = []*actorType{typ}, map[actor.Key]*knowledge{}
	for i := range typ.actors {
		w.known[keyOf(typ.name, i)] = newKnowledge()
	}
	for n := range processes {
		w.start(n)
	}
	var calls atomic.Int64
	ask := func(p *process, i int, method string) (ok bool) {
		inv := actor.Invocation{Key: keyOf(typ.name, i), ID: fmt.Sprint("late-", calls.Add(1)), Method: method, ReadOnly: method == "Read"}
		known, began := w.known[inv.Key], time.Now()
		n, ok := valueOf(w.ask(p, inv, lease))
		w.judge.Lock()
		defer w.judge.Unlock()
		if least := known.before(began.Add(-actor.MaxReadAge)); ok && n < least {
			t.Errorf("%s of %v at %s answers %d, and %d was answered before", method, inv.Key, p.name, n, least)
		}
		if ok {
			known.learn(n)
		}
		return ok
	}
	eventually := func(what string, fits func() bool) {
		t.Helper()
		for until := time.Now().Add(20 * lease); !fits(); <-time.After(lease / 20) {
			if time.Now().After(until) {
				t.Fatalf("not in time: %s", what)
			}
		}
	}
	for n := range processes {
		eventually("every process answers", func() bool { return ask(w.processAt(n), 0, "Add") })
	}
	eventually("one leads", func() bool { return w.leader() >= 0 })
	late := w.processAt((w.leader() + 1) % processes)
	others := []*process{w.processAt((w.leader() + 2) % processes), w.processAt(w.leader())}
	var ways []way
	for _, p := range others {
		ways = append(ways, way{late.name, p.name}, way{p.name, late.name})
	}

	late.late.Store(!how.reads)
	if how.stopped {
		late.frozen.close()
		w.net.changed()
	} else {
		w.net.cuts(true, ways...)
	}
	w.deploys(others[0], typ)
	var clients sync.WaitGroup
	var done atomic.Bool
	var acknowledged, read atomic.Int64
	// What makes a sticky actor's holder sure is a fence, which leaves the row of the older
	// deployment as it is; a turn that changes it is refused by late processes since it is of a
	// newer one.
	for p, method := range map[*process]string{late: "Add", others[0]: "Touch", others[1]: "Read"} {
		pause := lease / 50
		for i := range typ.actors {
			clients.Go(func() {
				for ; !done.Load(); <-time.After(pause) {
					if !ask(p, i, method) {
						continue
					}
					if p == late {
						acknowledged.Add(1)
					} else if method == "Read" {
						read.Add(1)
					}
				}
			})
		}
	}
	<-time.After(4 * lease)
	late.frozen.open()
	w.net.thawed(late)
	<-time.After(4 * lease) // and still reads no deployments
	late.late.Store(false)
	w.net.cuts(false, ways...)
	before := read.Load()
	eventually("reads are answered", func() bool { return read.Load() > before+100 })
	eventually("the late process goes on", func() bool { return ask(late, 0, "Add") })
	done.Store(true)
	clients.Wait()
	if acknowledged.Load() == 0 {
		t.Error("the late process has acknowledged nothing")
	}
	for _, p := range w.alive() {
		p.crash(false)
	}
	w.late.Wait()
	w.running.Wait()
	<-time.After(10 * lease)
}
