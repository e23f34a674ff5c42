package sim

import (
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/store/faultstore"
)

// kinds are what must happen beside storeFaults, in all seeds together.
var kinds = []string{
	"crash", "crash of a machine", "leader crashed", "freeze", "leader frozen", "cut off from the database", "statement of a process that is cut off",
	"processes cut off from each other", "process cut off one way", "connections reset", "message arrives after its connection broke", "left in order", "leader left in order",
	"commit applied late", "late commit refused", "answer to a commit lost",
	"database down", "all crash", "host began anew", "leader elected", "hand-over", "call sent twice", "call with a key sent again", "unknown outcome", "answered",
	"deployment", "policy changed", "policy changed from any", "policy changed to any", "deleted", "sticky actors released", "crash while leaving", "freeze while leaving", "drain asked for by another",
	"type: sticky", "type: ring", "type: static", "type: checkout", "type: any", "type: stateless",
	"call forwarded: reply", "call forwarded: redirect", "call forwarded: lost", "read at a reader",
	"seed with ledgers", "chain answered", "chain refused", "chain of unknown outcome", "chain of unknown outcome has happened", "several calls answered",
	"call of an actor at another host", "reminder delivered", "reminder delivered before", "called back",
	"failed call: on_purpose", "failed call: trap", "failed call: not_reentrant", "failed call: not_atomic", "failed call: deadline_exceeded",
}

// storeFaults are those of package faultstore, with how often they happen; they must, too.
var storeFaults = map[faultstore.Fault]float64{
	faultstore.LoadFails: 0.02, faultstore.VersionsFail: 0.02, faultstore.RecordLoadFails: 0.02, faultstore.CommitFails: 0.02,
	faultstore.CommitPartlyFails: 0.02, faultstore.CommitLost: 0.01, faultstore.CommitReplyLost: 0.02,
	faultstore.TurnRetried: 0.02, faultstore.TurnFails: 0.02, faultstore.TurnLost: 0.01, faultstore.TurnReplyLost: 0.02,
	faultstore.SettleFails: 0.1, faultstore.SettleReplyLost: 0.05, faultstore.LeaseFails: 0.03, faultstore.LeaseReplyLost: 0.02,
}

// plague lets things go wrong for a while, and then heals them all.
func (w *world) plague() {
	end := time.Duration(fewLeases+w.plan.IntN(manyLeases-fewLeases)) * lease
	var healing sync.WaitGroup
	later := func(most time.Duration, heal func()) {
		wait := time.Duration(w.plan.Int64N(int64(most)))
		healing.Go(func() {
			<-time.After(wait)
			heal()
		})
	}
	var mu sync.Mutex
	var busy [processes]bool // what happens to a process, one thing at a time
	take := func(n int) *process {
		p := w.processAt(n)
		mu.Lock()
		defer mu.Unlock()
		if busy[n] || p == nil || !p.alive() {
			return nil
		}
		busy[n] = true
		return p
	}
	free := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		busy[n] = false
	}
	<-time.After(lease) // a cluster, first
	pace := lease/4 + time.Duration(w.plan.Int64N(int64(3*lease/2)))
	for time.Since(w.begun) < end {
		<-time.After(time.Duration(w.plan.Int64N(int64(pace))))
		n, what, whom := w.plan.IntN(processes), w.plan.IntN(14), ""
		if w.plan.IntN(3) == 0 {
			if leader := w.leader(); leader >= 0 {
				n, whom = leader, "leader"
			}
		}
		say := func(one, leader string) {
			if whom != "" {
				one = leader
			}
			w.happened(one)
			w.note("  at %s", nameOf(n))
		}
		switch what {
		case 0, 1:
			p := take(n)
			if p == nil {
				continue
			}
			machine := what == 1
			say(map[bool]string{false: "crash", true: "crash of a machine"}[machine], "leader crashed")
			p.crash(machine)
			later(3*lease, func() { w.start(n); free(n) })
		case 2, 3:
			p := take(n)
			if p == nil {
				continue
			}
			say("freeze", "leader frozen")
			p.frozen.close()
			w.net.changed()
			later(3*lease, func() { p.frozen.open(); w.net.thawed(p); w.note("thaws: %s", p.name); free(n) })
		case 4:
			p := take(n)
			if p == nil {
				continue
			}
			say("cut off from the database", "cut off from the database")
			p.cut.close()
			later(3*lease, func() { p.cut.open(); w.note("back at the database: %s", p.name); free(n) })
		case 5, 6:
			p := take(n)
			if p == nil {
				continue
			}
			w.note("%s is to leave", p.name)
			leads := p.service.Leadership().Here
			var asks *process
			switch w.plan.IntN(6) {
			case 0:
				later(lease/2, func() {
					if p.alive() {
						w.happened("crash while leaving")
						p.crash(false)
					}
				})
			case 1:
				later(lease/4, func() {
					if p.alive() {
						w.happened("freeze while leaving")
						p.frozen.close()
						w.net.changed()
						<-time.After(w.noise.below(2 * lease))
						p.frozen.open()
						w.net.thawed(p)
					}
				})
			case 2:
				asks = w.processAt((n + 1) % processes)
			}
			healing.Go(func() {
				if asks != nil && asks.alive() && asks.service.DrainHost(p.service.Self()) == nil {
					w.happened("drain asked for by another")
					<-time.After(w.noise.below(lease))
				}
				if p.leave() && leads {
					w.happened("leader left in order")
				}
				w.start(n)
				free(n)
			})
		case 7:
			other := (n + 1 + w.plan.IntN(processes-1)) % processes
			ways := []way{{nameOf(n), nameOf(other)}, {nameOf(other), nameOf(n)}}
			if w.plan.IntN(2) == 0 {
				ways = ways[:1]
				w.happened("process cut off one way")
			} else {
				w.happened("processes cut off from each other")
			}
			w.note("  %v", ways)
			w.net.cuts(true, ways...)
			later(4*lease, func() { w.net.cuts(false, ways...); w.note("healed: %v", ways) })
		case 8: // the database is down, for all that nothing else happens to
			w.happened("database down")
			took := time.Duration(w.plan.Int64N(int64(3 * lease)))
			for n := range processes {
				if p := take(n); p != nil {
					p.cut.close()
					healing.Go(func() { <-time.After(took); p.cut.open(); free(n) })
				}
			}
		case 9: // all at once, as for lack of power
			w.happened("all crash")
			for n := range processes {
				if p := take(n); p != nil {
					p.crash(true)
					later(lease, func() { w.start(n); free(n) })
				}
			}
		case 10, 11:
			if p := w.processAt(n); p != nil && p.alive() {
				w.deploys(p, w.types[w.plan.IntN(len(w.types))])
			}
		default:
			if w.net.resets() > 0 {
				w.happened("connections reset")
			}
		}
	}
	healing.Wait()
}

func (w *world) processAt(n int) *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.processes[n]
}

// leader returns which process leads; -1: none.
func (w *world) leader() int {
	for n := range processes {
		if p := w.processAt(n); p != nil && p.alive() && p.service.Leadership().Here {
			return n
		}
	}
	return -1
}
