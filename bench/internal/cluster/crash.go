package cluster

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/must"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
	"github.com/greenroom-run/greenroom/bench/internal/wire"
)

const (
	crashActors = 1_000
	// elsewhere is how soon the actors of a server that crashed are to answer again.
	elsewhere = lease + time.Second
	// unmoved is for how long actors of other servers may pause.
	unmoved = 250 * time.Millisecond
	// after is for how long a crash is looked at.
	after = elsewhere + 2*time.Second
)

// held are actors, some of a server's, the others not.
type held struct{ its, others map[int]bool }

// holds asks another server which actors one holds.
func holds(b *bar.B, c *rig.Cluster, s *rig.Server, actors int) held {
	h := held{map[int]bool{}, map[int]bool{}}
	asked := c.Servers[0]
	if asked == s {
		asked = c.Servers[1]
	}
	owners := bar.Call[map[string][]int](b, wire.OwnersRole, wire.OwnersSpec{URL: asked.URL, Method: "Get", Actors: actors})
	for url, numbers := range owners {
		for _, n := range numbers {
			if url == s.URL {
				h.its[n] = true
			} else {
				h.others[n] = true
			}
		}
	}
	if len(h.its) == 0 || len(h.others) == 0 {
		must.Check(fmt.Errorf("the server at %s holds %d of %d actors", s.URL, len(h.its), actors))
	}
	return h
}

// crash kills a server while load goes on, starts it again, and returns when it died.
func crash(b *bar.B, c *rig.Cluster, s *rig.Server) (died time.Time) {
	must.Check(s.Kill())
	died = time.Now()
	b.Pause(after)
	restart(b, c, s)
	return died
}

// crashed is a server's crash.
type crashed struct {
	held
	quiet window // before it
	died  time.Time
}

// hostCrash is cluster.3. The worst of the runs counts.
func hostCrash(b *bar.B) {
	c, _ := serve(b, servers)
	actors := b.Count(crashActors)
	rate := third(b, c, actors)
	s := calls(c)
	s.Keys = true // what was under way at the server is made again
	end := begin(b, s, load.TracePlan{Actors: actors, Rate: rate})
	var crashes []crashed
	b.Each(func(int) {
		victim := c.Servers[0]
		if victim == must.Get(c.Leader(b.Context())) {
			victim = c.Servers[1]
		}
		k := crashed{quiet: window{from: time.Now()}, held: holds(b, c, victim, actors)}
		b.Pause(b.Warmup)
		k.quiet.to = time.Now()
		k.died = crash(b, c, victim)
		crashes = append(crashes, k)
	})
	all := end()
	back, pause := time.Duration(0), time.Duration(0)
	for i, k := range crashes {
		window := window{k.died, k.died.Add(after)}
		its := firsts(all.within(window).of(k.its))
		if len(its) < len(k.its) {
			b.Note("run %d: %d of the %d actors did not answer within %v", i+1, len(k.its)-len(its), len(k.its), after)
			back = max(back, after)
		}
		others := all.within(window).of(k.others)
		before := all.within(k.quiet).those(func(c load.Traced) bool { return c.Ended().Before(k.died) })
		last := its.last().Sub(k.died)
		back, pause = max(back, last), max(pause, others.quantile(1))
		b.Note("run %d: its %d actors answered again within %.0f ms; calls of the others' %d: p99 %.1f ms, longest %s; in the second before: p99 %.1f ms, longest %.1f ms", i+1,
			len(k.its), bar.Millis(last), len(k.others), bar.Millis(others.quantile(0.99)), others.slowest(k.died),
			bar.Millis(before.quantile(0.99)), bar.Millis(before.quantile(1)))
	}
	b.Compare("its actors answer elsewhere", bar.Millis(back), bar.Millis(elsewhere))
	b.Compare("longest pause of others' actors", bar.Millis(pause), bar.Millis(unmoved))
	b.Compare("failed calls", float64(len(all.failed())), float64(len(all)))
	if why := all.why(); why != "" {
		b.Note("failed: %s", why)
	}
}

// firsts returns the first call of each actor that was answered.
func firsts(t trace) trace {
	first := map[int]load.Traced{}
	for _, c := range t {
		if was, found := first[c.Actor]; c.Error == "" && (!found || c.Ended().Before(was.Ended())) {
			first[c.Actor] = c
		}
	}
	return slices.Collect(maps.Values(first))
}

const (
	// fresh is the number of the first actor that nobody has called before, and
	// freshRate how many of them are called in a second.
	fresh     = 1_000_000
	freshRate = 100
)

// leaderCrash is cluster.4. The worst of the runs counts.
func leaderCrash(b *bar.B) {
	c, _ := serve(b, servers, "--sticky")
	actors := b.Count(crashActors)
	rate := third(b, c, actors)
	s := calls(c)
	s.Keys = true // what was under way at the server is made again
	endActive := begin(b, s, load.TracePlan{Actors: actors, Rate: rate})
	endFresh := begin(b, s, load.TracePlan{First: fresh, Actors: fresh, Rate: freshRate})
	b.Pause(2 * b.Warmup) // the client learns who holds what
	var crashes []crashed
	b.Each(func(int) {
		leader := must.Get(c.Leader(b.Context()))
		k := crashed{held: holds(b, c, leader, actors)}
		k.died = crash(b, c, leader)
		crashes = append(crashes, k)
	})
	calls, acquisitions := endActive(), endFresh()
	failed, made, resumed := 0, 0, time.Duration(0)
	for i, k := range crashes {
		both := calls.within(window{k.died.Add(-time.Second), k.died.Add(after)})
		others, its := both.of(k.others), both.of(k.its)
		failed, made = failed+len(both.failed()), made+len(both)
		if why := both.why(); why != "" {
			b.Note("run %d: failed: %s", i+1, why)
		}
		// Those that had to wait: all that began in the second after.
		waited := acquisitions.within(window{k.died, k.died.Add(time.Second)})
		if len(waited) == 0 {
			must.Check(errors.New("no acquisition was begun after the leader had died"))
		}
		last := waited.last().Sub(k.died)
		resumed = max(resumed, last)
		b.Note("run %d: %d calls of others' actors, p99 %.1f ms, longest %s, %d failed; %d calls of its own, longest %.0f ms, %d failed", i+1,
			len(others), bar.Millis(others.quantile(0.99)), others.slowest(k.died), len(others.failed()), len(its), bar.Millis(its.quantile(1)), len(its.failed()))
		b.Note("run %d: %d acquisitions were begun in the second after, %d of them failed; the first was answered after %.0f ms, the last after %.0f ms", i+1,
			len(waited), len(waited.failed()), bar.Millis(first(waited).Sub(k.died)), bar.Millis(last))
		if why := waited.why(); why != "" {
			b.Note("run %d: failed: %s", i+1, why)
			resumed = max(resumed, after)
		}
	}
	b.Compare("failed calls of active actors", float64(failed), float64(made))
	b.Compare("acquisitions of new actors resume", bar.Millis(resumed), bar.Millis(elsewhere))
}

// first returns when the first of some calls was answered.
func first(t trace) (at time.Time) {
	for _, c := range t {
		if c.Error == "" && (at.IsZero() || c.Ended().Before(at)) {
			at = c.Ended()
		}
	}
	return at
}
