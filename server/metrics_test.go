package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/metrics"
	"github.com/greenroom-run/greenroom/server/rpc"
)

func TestMetrics(t *testing.T) {
	m := metrics.New()
	f := start(t, func(c *Config) {
		c.Metrics = m
		c.Gauges = metrics.Gauges{QueueDepth: func() int { return 12 }, WaitingForProcessor: func() int { return 3 }, Pools: []metrics.Pool{{Name: "batch", Running: func() int { return 2 }, Waiting: func() int { return 7 }}}, Instances: func() int { return 3 }, GuestMemory: func() int64 { return 65536 }}
	})
	ev := m.HostEvents()
	ev.TurnEnd(host.TurnEnd{Key: key("a"), Method: "Add", Lane: host.LaneWarm, Duration: time.Millisecond, Runs: 3})
	ev.TurnEnd(host.TurnEnd{Key: key("b"), Method: "Add", Lane: host.LaneWarm, Err: &actor.TurnError{Key: key("b"), Err: actor.ErrMailboxFull}})
	ev.TurnEnd(host.TurnEnd{Key: key("b"), Lane: host.LaneWarm})
	ev.TurnEnd(host.TurnEnd{Key: actor.Key{App: "invented", Type: "up", ID: "x"}, Method: "Nonsense", Err: actor.ErrTypeNotFound})
	ev.TurnEnd(host.TurnEnd{Key: actor.Key{App: "invented", Type: "up", ID: "x"}, Err: actor.ErrActorNotFound}) // a Delete
	ev.TurnEnd(host.TurnEnd{Key: key("c"), Method: "Add", Lane: host.LaneCalled, Depth: 1, Runs: 1})
	ev.TurnEnd(host.TurnEnd{Key: key("c"), Method: "Pay", Lane: host.LaneWarm, Runs: 3, Chain: &host.ChainStats{Actors: 4, Calls: 5, Depth: 2, Deadlocks: 1}})
	ev.Commit(host.CommitEnd{Lane: host.LaneLocked, GroupSize: 5, Duration: time.Millisecond})
	ev.Commit(host.CommitEnd{Lane: host.LaneWarm, GroupSize: 1, Err: actor.ErrStale})
	ev.Activated(key("a"))
	ev.Activated(key("b"))
	ev.Deactivated(host.Deactivation{Key: key("a"), Reason: host.DeactivateIdle})
	ev.IdleSkipped(key("b"))
	ev.InstanceMade(host.InstanceEvent{})
	ev.TimerFired(host.TimerFired{Key: key("a"), Name: "t"})
	ev.TimerFired(host.TimerFired{Key: key("a"), Name: "t", Err: actor.ErrMailboxFull})

	c := client(t, false)
	if a := do(t, c, "PUT", f.url+actorPath(key("a"), "Add"), "1"); a.StatusCode != http.StatusOK {
		t.Fatal(a.Status)
	}
	for _, path := range []string{"/invented/path", "/another"} {
		do(t, c, "GET", f.url+path, "")
	}
	a := do(t, c, "GET", f.url+"/metrics", "")
	for _, line := range []string{
		`greenroom_turns_total{app="default",lane="warm",method="Add",outcome="ok",type="Counter"} 1`,
		`greenroom_turns_total{app="default",lane="warm",method="Add",outcome="mailbox_full",type="Counter"} 1`,
		`greenroom_turns_total{app="default",lane="warm",method="(delete)",outcome="ok",type="Counter"} 1`,
		`greenroom_turns_total{app="",lane="none",method="",outcome="type_not_found",type=""} 1`,
		`greenroom_turn_seconds_count{app="default",lane="warm",type="Counter"} 4`,
		`greenroom_turn_reruns_total 4`,
		`greenroom_turns_total{app="default",lane="called",method="Add",outcome="ok",type="Counter"} 1`,
		`greenroom_chains_total{app="default",outcome="ok",type="Counter"} 1`,
		`greenroom_chain_actors_sum 4`,
		`greenroom_chain_calls_sum 5`,
		`greenroom_chain_depth_sum 2`,
		`greenroom_chain_deadlocks_total{app="default",type="Counter"} 1`,
		`greenroom_chain_reruns_total 2`,
		`greenroom_timer_firings_total{app="default",outcome="fired",type="Counter"} 1`,
		`greenroom_timer_firings_total{app="default",outcome="failed",type="Counter"} 1`,
		`greenroom_commits_total{lane="locked",outcome="ok"} 1`,
		`greenroom_commits_total{lane="warm",outcome="conflict"} 1`,
		`greenroom_commit_turns_sum 6`,
		`greenroom_commit_seconds_count{lane="locked"} 1`,
		`greenroom_activations_total 2`,
		`greenroom_active_actors 1`,
		`greenroom_deactivations_total{reason="idle"} 1`,
		`greenroom_idle_deactivation_skipped_total 1`,
		`greenroom_instances_total{event="made"} 1`,
		`greenroom_queue_depth 12`,
		`greenroom_turns_waiting_for_processor 3`,
		`greenroom_instances 3`,
		`greenroom_guest_memory_bytes 65536`,
		`greenroom_errors_total{kind="path_not_found"} 2`,
		`greenroom_http_requests_total{route="/v2.0/actors",status="200"} 1`,
		`greenroom_http_requests_total{route="other",status="404"} 2`,
	} {
		if !strings.Contains(a.body, line+"\n") {
			t.Errorf("lacks %s", line)
		}
	}
	for _, madeUp := range []string{"Nonsense", "invented", "another"} {
		if strings.Contains(a.body, madeUp) {
			t.Errorf("a caller's %q became a label", madeUp)
		}
	}
}

// TestRequestsHaveExemplars: the trace of a sampled request is the exemplar of the time that it took.
func TestRequestsHaveExemplars(t *testing.T) {
	f := start(t, func(c *Config) { c.Metrics = metrics.New() })
	c := client(t, false)
	do(t, c, "PUT", f.url+actorPath(key("a"), "Add"), "1", "traceparent", asParent)
	text := do(t, c, "GET", f.url+"/metrics", "", "Accept", "application/openmetrics-text;version=1.0.0").body
	const series = `greenroom_http_request_seconds_bucket{route="/v2.0/actors",`
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, series) && strings.Contains(line, `# {trace_id="`+traceID+`"}`) {
			return
		}
	}
	t.Errorf("no %s has the trace as its exemplar in\n%s", series, text)
}

func TestMetricsOfOneServerOnly(t *testing.T) {
	conf := Config{Config: edge.Config{Metrics: metrics.New()}, Backends: rpc.Backends{Host: &fakeHost{}, Modules: newFakeModules(), Actors: fakeLister(0)}, Gauges: metrics.Gauges{QueueDepth: func() int { return 0 }}}
	if _, err := New(conf); err != nil {
		t.Fatal(err)
	}
	if _, err := New(conf); err == nil {
		t.Error("two servers registered gauges with the same metrics")
	}
}

// TestRequestsWithoutAnswer: a request that was cut off is counted with a status that says
// so, and one whose handler said nothing with what net/http answers.
func TestRequestsWithoutAnswer(t *testing.T) {
	f := newFixture(t, nil)
	const path = "/readyz"
	ask := func(ctx context.Context, h http.HandlerFunc) {
		defer func() { _ = recover() }() // as net/http does
		f.edge.HandlePlain(path, true, h)
		f.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+path, nil))
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	ask(t.Context(), func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	ask(gone, func(http.ResponseWriter, *http.Request) {})
	ask(t.Context(), func(http.ResponseWriter, *http.Request) {})
	page := httptest.NewRecorder()
	f.ServeHTTP(page, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/metrics", nil))
	text := page.Body.String()
	for _, line := range []string{`{route="` + path + `",status="499"} 2`, `{route="` + path + `",status="200"} 1`} {
		if !strings.Contains(text, "greenroom_http_requests_total"+line) {
			t.Errorf("no line %s", line)
		}
	}
	if strings.Contains(text, `status="0"`) {
		t.Error("there is a status 0")
	}
}
