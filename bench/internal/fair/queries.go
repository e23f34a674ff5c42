package fair

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"connectrpc.com/connect"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/bare"
	"github.com/greenroom-run/greenroom/bench/internal/inhost"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/must"
	"github.com/greenroom-run/greenroom/bench/internal/usage"
	"github.com/greenroom-run/greenroom/bench/internal/wire"
)

const (
	// stored are the actors that are asked for, of storedBytes of state each.
	stored      = 1_000_000
	storedBytes = 200
	// filter reads a member of each state; one of a hundred meets it.
	filter = `state.total >= 990 && id.startsWith("a")`
	// The stores, and how many rows of them a second is to read.
	onEmbedded   = "query, embedded"
	onPostgres   = "query, PostgreSQL"
	embeddedRate = 200_000
	postgresRate = 100_000
)

func readRate(store string) bar.Check {
	return bar.Check{Name: store + ": rows read", Unit: "rows/s", Want: bar.AtLeast, Target: 1}
}

// Queries returns the bar of queries, which is of the area sight.
func Queries() []bar.Bar {
	return []bar.Bar{{
		Name: "sight.2", Title: "a query over 1,000,000 actors of 200 bytes: rows read in a second, against 200,000 on the embedded store and 100,000 on PostgreSQL; and calls of another app beside it, 200 a second, against the same calls alone",
		Checks: append([]bar.Check{readRate(onEmbedded), readRate(onPostgres)}, besides(onEmbedded, onPostgres)...), Run: bar.Of(queries),
	}}
}

func queries(b *bar.B) {
	n := b.Count(stored)
	fill := func(s inhost.Spec) {
		s.StateBytes = storedBytes
		bar.Call[int](b, inhost.FillRole, inhost.FillSpec{Spec: s, App: "asked", Type: "Cart", Count: n})
	}
	b.Scope(func() {
		dir := b.Folder()
		fill(inhost.Spec{Dir: filepath.Join(dir, "store")}) // where a server has it
		eachQuery(b, onEmbedded, embeddedRate, n, "--data-dir", dir)
	})
	url, _ := b.Postgres()
	fill(inhost.Spec{StoreURL: url})
	must.Check(bare.Settle(b.Context(), url, "greenroom_actor"))
	eachQuery(b, onPostgres, postgresRate, n, "--store", url)
}

// eachQuery compares calls beside queries with calls alone, and the speed of a query with a rate.
func eachQuery(b *bar.B, store string, want float64, n int, args ...string) {
	s := b.Serve(b.BuildOnce("bench/reminderguest"), args...)
	call := func() []load.Traced {
		return traced(b, b.Duration, wire.TraceRole, wire.TraceSpec{
			Spec:  wire.Spec{URL: s.URL, Protocol: wire.Unary, Attempts: 1, Method: "Add", Payload: "1"},
			Trace: load.TracePlan{Actors: actors, Rate: rate, Timeout: patience},
		})
	}
	must.Get(count(b.Context(), s.URL, n)) // what a first query finds cold
	for run := 1; run <= b.Runs; run++ {
		used, began := usage.Tree(s.PID), time.Now()
		must.Get(count(b.Context(), s.URL, n))
		took, processor := time.Since(began), usage.Tree(s.PID)-used
		b.Note("%s, run %d: %d rows in %v, with %.2f µs of the server's processor time each", store, run, n, took.Round(time.Millisecond), bar.Micros(processor)/float64(n))
		b.Compare(readRate(store).Name, float64(n)/took.Seconds(), want)

		alone := call()
		ctx, end := context.WithCancel(b.Context())
		ended := make(chan error)
		go func() {
			for {
				if _, err := count(ctx, s.URL, n); err != nil {
					ended <- err
					return
				}
			}
		}()
		beside := call()
		end()
		if err := <-ended; connect.CodeOf(err) != connect.CodeCanceled {
			must.Check(err)
		}
		compare(b, store, run, alone, beside)
	}
}

// count counts the actors that meet the filter, of n that there are.
func count(ctx context.Context, url string, n int) (matched uint64, err error) {
	client := greenroomv1connect.NewActorServiceClient(http.DefaultClient, url)
	req := &greenroomv1.ListActorsRequest{App: "asked", Type: "Cart", Filter: filter, Count: true}
	var examined uint64
	for {
		resp, err := client.ListActors(ctx, connect.NewRequest(req))
		if err != nil {
			return 0, err
		}
		scan := resp.Msg.GetScan()
		matched += scan.GetMatched()
		examined += scan.GetExamined()
		if req.PageToken = resp.Msg.GetNextPageToken(); req.PageToken != "" {
			continue
		}
		if want := uint64(n / 1000 * 10); examined != uint64(n) || matched < want || scan.GetFailed() > 0 {
			return 0, fmt.Errorf("%d actors examined, %d found, %d failed; want %d and at least %d", examined, matched, scan.GetFailed(), n, want)
		}
		return matched, nil
	}
}
