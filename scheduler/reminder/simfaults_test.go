package reminder

import (
	"maps"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/scheduler/reminder/remindertest"
)

// plague lets things go wrong for some minutes, and then heals them all.
func (w *simulation) plague() {
	some := func(d time.Duration) time.Duration { return time.Duration(w.plan.Int64N(int64(d))) }
	end := time.Now().Add(time.Minute + some(6*time.Minute))
	for time.Now().Before(end) {
		<-time.After(some(20 * time.Second))
		n := w.plan.IntN(len(w.processes))
		w.mu.Lock()
		p := w.processes[n]
		w.mu.Unlock()
		w.db.mu.Lock()
		leads := string(w.db.lease.Holder) == p.name
		w.db.mu.Unlock()
		switch w.plan.IntN(10) {
		case 0, 1:
			w.happened("crash")
			if leads {
				w.happened("leader crashed")
			}
			p.crash()
			<-time.After(some(time.Second))
			if w.plan.IntN(3) == 0 {
				<-time.After(some(50 * time.Second))
			}
			w.start(n)
		case 2, 3:
			w.happened("freeze")
			if leads {
				w.happened("leader frozen")
			}
			p.freeze(some([]time.Duration{time.Second, 15 * time.Second, 90 * time.Second}[w.plan.IntN(3)]))
		case 4:
			w.happened("cut off from the database")
			p.cutOff(some(45 * time.Second))
		case 5:
			w.happened("database down")
			w.dbDown.Store(true)
			<-time.After(some(20 * time.Second))
			w.dbDown.Store(false)
		case 6:
			w.happened("left in order")
			p.leave()
			<-time.After(some(10 * time.Second))
			w.start(n)
		case 7:
			w.jump(some(90 * time.Second))
			w.happened("clock forward")
		case 8:
			const year = 365 * 24 * time.Hour
			switch w.plan.IntN(5) {
			case 0, 1:
				w.jump(some(60 * 24 * time.Hour))
				w.happened("clock forward by days")
			case 2: // years of cron, with their clock changes and leap days
				w.jump(year + some(2*year))
				w.happened("clock forward by years")
			default:
				w.jump(-some([]time.Duration{time.Second, time.Minute}[w.plan.IntN(2)]))
				w.happened("clock back")
			}
		case 9:
			w.happened("bucket nearly used up")
			s := p.service
			c := s.creators.current()
			c.mu.Lock()
			apps := slices.Collect(maps.Values(c.apps))
			c.mu.Unlock()
			for _, t := range apps {
				t.mu.Lock()
				if t.used < nearlyUsed-3 {
					t.used = nearlyUsed - 3
				} else if t.next != nil {
					t.used = max(t.used, 99_998)
				}
				t.mu.Unlock()
			}
		}
	}
}

// jump sets the database's clock.
func (w *simulation) jump(d time.Duration) {
	w.db.mu.Lock()
	w.db.ahead += d
	if d < 0 {
		w.backward -= d
	}
	w.db.mu.Unlock()
	w.judge.mu.Lock()
	if d > 0 {
		w.forward = time.Now()
	}
	w.judge.mu.Unlock()
	if d < 0 {
		for _, p := range w.alive() {
			p.mu.Lock()
			p.lag, p.lagged = p.lag-d, time.Now()
			p.mu.Unlock()
		}
	}
}

// freeze has a process stand still.
func (p *simProcess) freeze(d time.Duration) {
	p.mu.Lock()
	if p.ended || p.frozen != nil {
		p.mu.Unlock()
		return
	}
	thaw := make(chan struct{})
	p.frozen = thaw
	p.mu.Unlock()
	p.w.running.Go(func() {
		p.w.pause(p.w.faults, d)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.frozen == thaw {
			close(thaw)
			p.frozen = nil
		}
	})
}

// cutOff keeps the database from a process.
func (p *simProcess) cutOff(d time.Duration) {
	set := func(cut bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.cut = cut
	}
	set(true)
	p.w.running.Go(func() {
		p.w.pause(p.w.faults, d)
		set(false)
	})
}

const (
	// simHealing is within what time everything has fired that was due at the last fault: a
	// lease and an execution time out, and what is due is looked for.
	simHealing = 2*remindertest.MemberLease + simExecution + longestIdle + 20*time.Second
	// simPunctual is how late a turn begins then at most: nobody has told its process of
	// what was set, and a few things are slow.
	simPunctual = pollEvery + 2*time.Second
	// simUnnoticed is how much later a reminder may fire that was resumed at another process
	// than its bucket's owner, who finds it when it looks for what is due: in a bucket that has
	// no other, when it asks next whether that is empty.
	simUnnoticed = longestIdle + pollEvery
)

// settle sees to it that everything fires that is due, and from then on in time.
func (w *simulation) settle() {
	w.db.mu.Lock()
	longer := w.backward // for so much longer leases last
	w.db.mu.Unlock()
	<-time.After(simHealing + longer)
	w.nothingIsLeft(simHealing / 2)
	w.late.Store(0)
	<-time.After(2 * time.Minute)
	if late := time.Duration(w.late.Load()); late > simPunctual {
		w.judge.mu.Lock()
		w.judge.fail("long after the last fault a turn began %v late", late)
		w.judge.mu.Unlock()
	}
	w.nothingIsLeft(simPunctual)
}

// nothingIsLeft checks that no reminder waits that was due some time ago.
func (w *simulation) nothingIsLeft(ago time.Duration) {
	w.db.mu.Lock()
	defer w.db.mu.Unlock()
	w.judge.mu.Lock()
	defer w.judge.mu.Unlock()
	for _, r := range w.db.reminders {
		late := w.judge.excess(r.ID, r.Version, w.db.now().Sub(r.FireAt))
		if !r.Paused && late > ago {
			w.judge.fail("%v of %v, version %d, with %d failures, has not fired %v after its time; its bucket is %+v", r.ID, r.Key, r.Version, r.Failures, late,
				w.db.buckets[r.ID.Bucket()])
		}
	}
}

// lateness notes how late a turn began.
func (w *simulation) lateness(d time.Duration) {
	for {
		was := w.late.Load()
		if int64(d) <= was || w.late.CompareAndSwap(was, int64(d)) {
			return
		}
	}
}

// memoryIsBounded checks, when nobody sets anything any more, that memory holds what is
// due within the window, and a retry or two.
func (w *simulation) memoryIsBounded() {
	// What an instance had read of a bucket that it gave up goes as time passes.
	for range 20 {
		<-time.After(simWindow + 2*pollEvery)
		if time.Since(w.begun) > time.Duration(w.assigned.Load())+simWindow+pollEvery {
			break
		}
	}
	w.db.mu.Lock()
	defer w.db.mu.Unlock()
	soon := 0
	for _, r := range w.db.reminders {
		if !r.Paused && r.FireAt.Before(w.db.now().Add(simWindow+pollEvery+w.backward)) { // what was read by then stays
			soon++
		}
	}
	held := 0
	for _, p := range w.alive() {
		held += p.service.Stats().InMemory
	}
	if held > soon {
		w.judge.mu.Lock()
		defer w.judge.mu.Unlock()
		w.judge.fail("%d are in memory of %d that are due within the window", held, soon)
	}
}
