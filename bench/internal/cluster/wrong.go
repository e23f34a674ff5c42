package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/must"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
	"github.com/greenroom-run/greenroom/bench/internal/wire"
)

// wrongActors is how many actors the servers share.
const wrongActors = 30_000

// wrongServer is cluster.5.
func wrongServer(b *bar.B) {
	b.Scope(func() {
		c, database := serve(b, servers, "--sticky")
		actors := b.Count(wrongActors)
		fill(b, c, actors)
		url := c.Servers[0].URL
		owners := bar.Call[map[string][]int](b, wire.OwnersRole, wire.OwnersSpec{URL: url, Method: "Get", Actors: actors})
		local, remote := owners[url], owners[c.Servers[1].URL]
		n := min(len(local), len(remote))
		if n == 0 {
			must.Check(fmt.Errorf("of %d actors the first server holds %d and the second one %d; use more", actors, len(local), len(remote)))
		}
		b.Note("%d actors of the server that is called, and as many of another one; the processes of the caller, of all servers and of PostgreSQL are counted", n)
		watch := c.Watch()
		watch["PostgreSQL"] = database
		call := func(what string, run int, pick []int, readOnly bool) load.Result {
			s := calls(c)
			s.URLs, s.Forget, s.Pick, s.Plan = nil, true, pick[:n], b.Plan(many, actors, watch)
			if readOnly {
				s.Method, s.Payload, s.ReadOnly = "Get", "", true
			}
			return b.Measure(what, run, wire.Role, s)
		}
		before, forwarded := acquisitions(b, c), int64(0)
		b.Each(func(run int) {
			base := call("turns where they belong", run, local, false)
			turns := call("turns on the wrong server", run, remote, false)
			b.Compare("turns, CPU", bar.Micros(turns.CPUPerCall()), bar.Micros(base.CPUPerCall()))
			base = call("reads where they belong", run, local, true)
			reads := call("reads on the wrong server", run, remote, true)
			forwarded += turns.Calls + reads.Calls
			b.Note("run %d, reads: %.1f µs of processor time on the wrong server, %.1f where they belong: %.2f times",
				run, bar.Micros(reads.CPUPerCall()), bar.Micros(base.CPUPerCall()), bar.Micros(reads.CPUPerCall())/bar.Micros(base.CPUPerCall()))
		})
		b.Compare("acquisitions of known owners", acquisitions(b, c)-before, float64(forwarded))
	})
	leaderCosts(b)
}

// acquisitions returns how often the servers have asked the leader for an actor.
func acquisitions(b *bar.B, c *rig.Cluster) (sum float64) {
	for _, url := range c.URLs() {
		sum += must.Get(counted(b.Context(), url, "greenroom_sticky_acquire_total"))
	}
	return sum
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
