package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
	"github.com/greenroom-run/greenroom/bench/internal/role"
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
func holds(ctx context.Context, c *rig.Cluster, s *rig.Server, actors int) (held, error) {
	h := held{map[int]bool{}, map[int]bool{}}
	asked := c.Servers[0]
	if asked == s {
		asked = c.Servers[1]
	}
	owners, err := role.Call[map[string][]int](ctx, wire.OwnersRole, wire.OwnersSpec{URL: asked.URL, Method: "Get", Actors: actors})
	if err != nil {
		return h, err
	}
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
		return h, fmt.Errorf("the server at %s holds %d of %d actors", s.URL, len(h.its), actors)
	}
	return h, nil
}

// crash kills a server while load goes on, starts it again, and returns when it died.
func crash(ctx context.Context, r *rig.Rig, c *rig.Cluster, s *rig.Server) (died time.Time, err error) {
	if err := s.Kill(); err != nil {
		return died, err
	}
	died = time.Now()
	if err := pause(ctx, after); err != nil {
		return died, err
	}
	if err := s.Start(ctx); err != nil {
		return died, err
	}
	if err := c.Settled(ctx); err != nil {
		return died, err
	}
	return died, pause(ctx, r.Warmup)
}

// hostCrash is cluster.3. The worst of the runs counts.
func hostCrash(ctx context.Context, r *rig.Rig, rec *bar.Record) error {
	return withCluster(ctx, r, servers, func(c *rig.Cluster, _ int) (err error) {
		actors := r.Count(crashActors)
		rate, err := third(ctx, r, rec, c, actors)
		if err != nil {
			return err
		}
		s := calls(c)
		s.Keys = true // what was under way at the server is made again
		steady, err := begin(ctx, s, load.TracePlan{Actors: actors, Rate: rate})
		if err != nil {
			return err
		}
		defer func() {
			_, endErr := steady.end()
			err = errors.Join(err, endErr)
		}()
		type crashed struct {
			held
			quiet window
			died  time.Time
		}
		var crashes []crashed
		for range r.Runs {
			leader, err := c.Leader(ctx)
			if err != nil {
				return err
			}
			victim := c.Servers[0]
			if victim == leader {
				victim = c.Servers[1]
			}
			quiet := window{from: time.Now()}
			h, err := holds(ctx, c, victim, actors)
			if err != nil {
				return err
			}
			if err := pause(ctx, r.Warmup); err != nil {
				return err
			}
			quiet.to = time.Now()
			died, err := crash(ctx, r, c, victim)
			if err != nil {
				return err
			}
			crashes = append(crashes, crashed{h, quiet, died})
		}
		all, err := steady.end()
		if err != nil {
			return err
		}
		back, pause := time.Duration(0), time.Duration(0)
		for i, k := range crashes {
			window := window{k.died, k.died.Add(after)}
			its := firsts(all.within(window).of(k.its))
			if len(its) < len(k.its) {
				rec.Note("run %d: %d of the %d actors did not answer within %v", i+1, len(k.its)-len(its), len(k.its), after)
				back = max(back, after)
			}
			others := all.within(window).of(k.others)
			before := all.within(k.quiet).those(func(c load.Traced) bool { return c.Ended().Before(k.died) })
			last := its.last().Sub(k.died)
			back, pause = max(back, last), max(pause, others.quantile(1))
			rec.Note("run %d: its %d actors answered again within %.0f ms; calls of the others' %d: p99 %.1f ms, longest %s; in the second before: p99 %.1f ms, longest %.1f ms", i+1,
				len(k.its), millis(last), len(k.others), millis(others.quantile(0.99)), others.slowest(k.died),
				millis(before.quantile(0.99)), millis(before.quantile(1)))
		}
		rec.Compare("its actors answer elsewhere", millis(back), millis(elsewhere))
		rec.Compare("longest pause of others' actors", millis(pause), millis(unmoved))
		rec.Compare("failed calls", float64(len(all.failed())), float64(len(all)))
		if why := all.why(); why != "" {
			rec.Note("failed: %s", why)
		}
		return nil
	})
}

// firsts returns the first call of each actor that was answered.
func firsts(t trace) trace {
	first := map[int]load.Traced{}
	for _, c := range t {
		if was, found := first[c.Actor]; c.Error == "" && (!found || c.Ended().Before(was.Ended())) {
			first[c.Actor] = c
		}
	}
	var all trace
	for _, c := range first {
		all = append(all, c)
	}
	return all
}

const (
	// fresh is the number of the first actor that nobody has called before, and
	// freshRate how many of them are called in a second.
	fresh     = 1_000_000
	freshRate = 100
)

// leaderCrash is cluster.4. The worst of the runs counts.
func leaderCrash(ctx context.Context, r *rig.Rig, rec *bar.Record) error {
	return withCluster(ctx, r, servers, func(c *rig.Cluster, _ int) (err error) {
		actors := r.Count(crashActors)
		rate, err := third(ctx, r, rec, c, actors)
		if err != nil {
			return err
		}
		s := calls(c)
		s.Keys = true // what was under way at the server is made again
		active, err := begin(ctx, s, load.TracePlan{Actors: actors, Rate: rate})
		if err != nil {
			return err
		}
		acquired, err := begin(ctx, s, load.TracePlan{First: fresh, Actors: fresh, Rate: freshRate})
		defer func() {
			_, activeErr := active.end()
			if acquired != nil {
				_, acquiredErr := acquired.end()
				err = errors.Join(err, acquiredErr)
			}
			err = errors.Join(err, activeErr)
		}()
		if err != nil {
			return err
		}
		type crashed struct {
			held
			died time.Time
		}
		var crashes []crashed
		if err := pause(ctx, 2*r.Warmup); err != nil { // the client learns who holds what
			return err
		}
		for range r.Runs {
			leader, err := c.Leader(ctx)
			if err != nil {
				return err
			}
			h, err := holds(ctx, c, leader, actors)
			if err != nil {
				return err
			}
			died, err := crash(ctx, r, c, leader)
			if err != nil {
				return err
			}
			crashes = append(crashes, crashed{h, died})
		}
		calls, err := active.end()
		if err != nil {
			return err
		}
		acquisitions, err := acquired.end()
		if err != nil {
			return err
		}
		failed, made, resumed := 0, 0, time.Duration(0)
		for i, k := range crashes {
			window := window{k.died.Add(-time.Second), k.died.Add(after)}
			others, its := calls.within(window).of(k.others), calls.within(window).of(k.its)
			both := calls.within(window)
			failed, made = failed+len(both.failed()), made+len(both)
			if why := both.why(); why != "" {
				rec.Note("run %d: failed: %s", i+1, why)
			}
			// Those that had to wait: all that began in the second after.
			window.from, window.to = k.died, k.died.Add(time.Second)
			waited := acquisitions.within(window)
			if len(waited) == 0 {
				return errors.New("no acquisition was begun after the leader had died")
			}
			last := waited.last().Sub(k.died)
			resumed = max(resumed, last)
			rec.Note("run %d: %d calls of others' actors, p99 %.1f ms, longest %s, %d failed; %d calls of its own, longest %.0f ms, %d failed", i+1,
				len(others), millis(others.quantile(0.99)), others.slowest(k.died), len(others.failed()), len(its), millis(its.quantile(1)), len(its.failed()))
			rec.Note("run %d: %d acquisitions were begun in the second after, %d of them failed; the first was answered after %.0f ms, the last after %.0f ms", i+1,
				len(waited), len(waited.failed()), millis(first(waited).Sub(k.died)), millis(last))
			if why := waited.why(); why != "" {
				rec.Note("run %d: failed: %s", i+1, why)
				resumed = max(resumed, after)
			}
		}
		rec.Compare("failed calls of active actors", float64(failed), float64(made))
		rec.Compare("acquisitions of new actors resume", millis(resumed), millis(elsewhere))
		return nil
	}, "--sticky")
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
