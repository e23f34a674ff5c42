package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
	"github.com/greenroom-run/greenroom/bench/internal/role"
	"github.com/greenroom-run/greenroom/bench/internal/wire"
)

// wrongActors are those of which a server holds its part.
const wrongActors = 30_000

// wrongServer is cluster.5.
func wrongServer(ctx context.Context, r *rig.Rig, rec *bar.Record) error {
	err := withCluster(ctx, r, servers, func(c *rig.Cluster, database int) error {
		actors := r.Count(wrongActors)
		if err := fill(ctx, c, actors); err != nil {
			return err
		}
		url := c.Servers[0].URL
		owners, err := role.Call[map[string][]int](ctx, wire.OwnersRole, wire.OwnersSpec{URL: url, Method: "Get", Actors: actors})
		if err != nil {
			return err
		}
		local, remote := owners[url], owners[c.Servers[1].URL]
		n := min(len(local), len(remote))
		if n == 0 {
			return fmt.Errorf("of %d actors the first server holds %d and the second one %d; use more", actors, len(local), len(remote))
		}
		rec.Note("%d actors of the server that is called, and as many of another one; the processes of the caller, of all servers and of PostgreSQL are counted", n)
		watch := c.Watch()
		watch["PostgreSQL"] = database
		call := func(what string, run int, pick []int, readOnly bool) (load.Result, error) {
			s := calls(c)
			s.URLs, s.Forget, s.Pick = nil, true, pick[:n]
			s.Plan = load.Plan{Outstanding: many, Actors: n, Warmup: r.Warmup, Duration: r.Duration, Watch: watch}
			if readOnly {
				s.Method, s.Payload, s.ReadOnly = "Get", "", true
			}
			return called(ctx, rec, what, run, s)
		}
		before, err := acquisitions(ctx, c)
		if err != nil {
			return err
		}
		forwarded := int64(0)
		for run := 1; run <= r.Runs; run++ {
			base, err := call("turns where they belong", run, local, false)
			if err != nil {
				return err
			}
			res, err := call("turns on the wrong server", run, remote, false)
			if err != nil {
				return err
			}
			forwarded += res.Calls
			rec.Compare("turns, CPU", micros(res.CPUPerCall()), micros(base.CPUPerCall()))
			base, err = call("reads where they belong", run, local, true)
			if err != nil {
				return err
			}
			if res, err = call("reads on the wrong server", run, remote, true); err != nil {
				return err
			}
			forwarded += res.Calls
			rec.Note("run %d, reads: %.1f µs of processor time on the wrong server, %.1f where they belong: %.2f times",
				run, micros(res.CPUPerCall()), micros(base.CPUPerCall()), micros(res.CPUPerCall())/micros(base.CPUPerCall()))
		}
		asked, err := acquisitions(ctx, c)
		if err != nil {
			return err
		}
		rec.Compare("acquisitions of known owners", asked-before, float64(forwarded))
		return nil
	}, "--sticky")
	if err != nil {
		return err
	}
	return leaderCosts(ctx, r, rec)
}

// acquisitions returns how often the servers have asked the leader for an actor.
func acquisitions(ctx context.Context, c *rig.Cluster) (sum float64, err error) {
	for _, url := range c.URLs() {
		n, err := counted(ctx, url, "greenroom_sticky_acquire_total")
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// counted returns the sum of a server's counter over its labels.
func counted(ctx context.Context, url, name string) (sum float64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	found := false
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), name)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			return 0, fmt.Errorf("metric %s of %s: %w", name, url, err)
		}
		sum, found = sum+n, true
	}
	if !found && lines.Err() == nil {
		err = fmt.Errorf("%s has no metric %s", url, name)
	}
	return sum, errors.Join(err, lines.Err())
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
