// Package survey measures what users may expect of a machine: calls and latency by
// protocol, language of the guest and store, what an idempotency key costs, what
// actors take of memory, a transaction per turn beside it, and how latency grows
// with load. It promises nothing; promises are bars.
//
// A turn is that of the bars: a counter adds one, with 200 bytes of state, and is
// answered when that is durable.
package survey

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/bare"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/plot"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
	"github.com/greenroom-run/greenroom/bench/internal/usage"
	"github.com/greenroom-run/greenroom/bench/internal/wire"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
)

const (
	actors      = 10_000
	stateBytes  = 200
	ballast     = stateBytes - 43 // beside the counter's own, encoded
	connections = 64              // of HTTP and Connect, and of the transaction per turn
	many        = 1024            // calls outstanding that keep every part busy
	hot         = 256             // calls outstanding of one actor
)

// The names of stores, in the tables.
const (
	embeddedStore = "embedded"
	postgres      = "PostgreSQL"
)

// Report is what was measured.
type Report struct {
	Machine Machine
	Runs    int
	Calls   []Calls
	// Transactions are turns without Greenroom, a transaction each.
	Transactions []Calls
	Memory       []Memory
	Curves       []plot.Curve
	// Missing says what could not be measured here.
	Missing []string
}

// Calls is a line of a table.
type Calls struct {
	Store, Guest string
	kind
	Result load.Result
}

// kind is how calls are made.
type kind struct {
	Protocol    wire.Protocol
	Outstanding int
	Actors      int
	Reads, Keys bool
}

// Memory is what actors in memory take, each: the growth of the server's resident
// memory from one number of them to another.
type Memory struct {
	What     string
	From, To int
	Bytes    float64
}

// The kinds of calls that are measured. Their order is that of the table.
var (
	lone   = kind{Protocol: wire.HTTP, Outstanding: 1, Actors: actors}
	http   = kind{Protocol: wire.HTTP, Outstanding: connections, Actors: actors}
	unary  = kind{Protocol: wire.Connect, Outstanding: connections, Actors: actors}
	some   = kind{Protocol: wire.Stream, Outstanding: connections, Actors: actors}
	stream = kind{Protocol: wire.Stream, Outstanding: many, Actors: actors}
	keyed  = kind{Protocol: wire.Stream, Outstanding: many, Actors: actors, Keys: true}
	reads  = kind{Protocol: wire.Stream, Outstanding: many, Actors: actors, Reads: true}
	single = kind{Protocol: wire.Stream, Outstanding: hot, Actors: 1}
)

// Measure takes some five minutes with two runs of three seconds.
func Measure(ctx context.Context, r *rig.Rig) (*Report, error) {
	report := &Report{Machine: describe(), Runs: r.Runs}
	return report, bar.Of(func(b *bar.B) {
		m := &measurement{b, report}
		for _, part := range []func(){m.disk, m.embedded, m.languages, m.postgres, m.memory} {
			b.Scope(part)
		}
	})(ctx, r, new(bar.Record))
}

type measurement struct {
	*bar.B
	report *Report
}

// disk measures what one sync of the disk takes.
func (m *measurement) disk() {
	m.report.Machine.Sync = bar.Call[load.Result](m.B, bare.PebbleRole,
		bare.Pebble{Dir: m.Folder(), Plan: m.Plan(1, 1, nil), Group: 1, StateBytes: stateBytes}).P50
}

func (m *measurement) embedded() {
	on := server{Server: m.ServeEmbedded(m.Guest()), store: embeddedStore, guest: "Rust"}
	m.calls(on, lone, http, unary, some, stream, keyed, reads, single)
	m.curves(on)
}

// languages measures guests in Go beside the Rust one.
func (m *measurement) languages() {
	for _, language := range []struct{ name, toolchain string }{{"standard Go", guestbuild.Go}, {"TinyGo", guestbuild.TinyGo}} {
		if _, err := exec.LookPath(language.toolchain); err != nil {
			m.report.Missing = append(m.report.Missing, language.name+" is not installed here")
			continue
		}
		m.Scope(func() {
			s := m.ServeEmbedded(m.Build("bench/goguest", language.toolchain))
			m.calls(server{Server: s, store: embeddedStore, guest: language.name}, http, stream, single)
		})
	}
}

func (m *measurement) postgres() {
	url, pid := m.Postgres()
	for _, actors := range []int{actors, 1} {
		plan := m.Plan(connections, actors, map[string]int{postgres: pid})
		res := m.middle(bare.TransactionRole, bare.SQL{URL: url, Plan: plan, StateBytes: stateBytes})
		m.report.Transactions = append(m.report.Transactions,
			Calls{Store: postgres, kind: kind{Outstanding: connections, Actors: actors}, Result: res})
	}
	on := server{Server: m.Serve(m.Guest(), "--store", url), store: postgres, guest: "Rust", database: pid}
	m.calls(on, lone, http, unary, some, stream, keyed, reads, single)
	m.curves(on)
}

// server is one that is measured.
type server struct {
	*rig.Server
	store, guest string
	database     int // process ID, 0 if none
}

func (s server) spec(k kind, plan load.Plan) wire.Spec {
	plan.Watch = map[string]int{"server": s.PID}
	if s.database != 0 {
		plan.Watch[postgres] = s.database
	}
	spec := wire.Spec{URL: s.URL, Protocol: k.Protocol, Plan: plan, Method: "Add", Payload: "1", Keys: k.Keys}
	if k.Reads {
		spec.Method, spec.Payload, spec.ReadOnly = "Get", "", true
	}
	return spec
}

// calls measures kinds of calls of actors that have their state.
func (m *measurement) calls(s server, kinds ...kind) {
	m.fill(s.URL, 0, m.Count(actors), ballast)
	for _, k := range kinds {
		fmt.Fprintf(m.Log, "measuring %s, %s guest, %s, %d outstanding …\n", s.store, s.guest, k.Protocol, k.Outstanding)
		res := m.middle(wire.Role, s.spec(k, m.Plan(k.Outstanding, k.Actors, nil)))
		m.report.Calls = append(m.report.Calls, Calls{Store: s.store, Guest: s.guest, kind: k, Result: res})
	}
}

// middle plays a role several times and returns the run whose rate is the
// median, of an even number the lower one.
func (m *measurement) middle(role string, spec any) load.Result {
	var all []load.Result
	for range m.Runs {
		all = append(all, bar.Call[load.Result](m.B, role, spec))
	}
	slices.SortFunc(all, func(a, b load.Result) int { return cmp.Compare(a.Rate(), b.Rate()) })
	return all[(len(all)-1)/2]
}

// shares of what a server reached in a closed loop are the loads of a curve.
var shares = []float64{0.05, 0.2, 0.4, 0.6, 0.75, 0.85, 0.95}

// curves measures latency against load in an open loop.
func (m *measurement) curves(s server) {
	for _, k := range []kind{http, stream} {
		full := m.report.find(s.store, s.guest, k).Result.Rate()
		curve := plot.Curve{Panel: panel(k.Protocol), Name: s.store}
		for _, share := range shares {
			plan := m.Plan(k.Outstanding, k.Actors, nil)
			plan.Rate = share * full
			fmt.Fprintf(m.Log, "measuring %s, %s, %.0f calls/s …\n", s.store, k.Protocol, plan.Rate)
			res := bar.Call[load.Result](m.B, wire.Role, s.spec(k, plan))
			curve.Points = append(curve.Points, plot.Point{Load: plan.Rate, Done: res.Rate(), P50: res.P50, P99: res.P99})
		}
		m.report.Curves = append(m.report.Curves, curve)
	}
}

func panel(p wire.Protocol) string {
	if p == wire.HTTP {
		return fmt.Sprintf("HTTP, %d connections", connections)
	}
	return "the stream of the Go client"
}

// find returns the line of a kind of calls, an empty one if there is none.
func (r *Report) find(store, guest string, k kind) Calls {
	for _, c := range r.Calls {
		if c.Store == store && c.Guest == guest && c.kind == k {
			return c
		}
	}
	return Calls{}
}

// memory compares the server's resident memory at two numbers of actors, which
// leaves out what does not grow with them.
func (m *measurement) memory() {
	for _, c := range []struct {
		what     string
		from, to int
		call     func(url string, from, to int)
	}{
		{"an actor with 200 bytes of state", 50_000, 250_000, func(url string, from, to int) { m.fill(url, from, to, ballast) }},
		{"an actor with 10 KB of state", 5_000, 25_000, func(url string, from, to int) { m.fill(url, from, to, 10_000-stateBytes+ballast) }},
		{"an actor with a Wasm instance of its own (`instance: dedicated`), Rust", 5_000, 15_000, func(url string, from, to int) {
			m.once(wire.Spec{URL: url, Type: "Pinned", Method: "Add", Payload: "1"}, from, to)
		}},
	} {
		fmt.Fprintf(m.Log, "measuring the memory of %s …\n", c.what)
		from, to := m.Count(c.from), m.Count(c.from)*(c.to/c.from)
		m.Scope(func() {
			s := m.ServeEmbedded(m.Guest(), "--max-actors", strconv.Itoa(2*c.to), "--max-memory", strconv.Itoa(32<<30), "--idle-timeout", "1h")
			c.call(s.URL, 0, from)
			before := usage.Resident(s.PID)
			c.call(s.URL, from, to)
			bytes := float64(usage.Resident(s.PID)-before) / float64(to-from)
			m.report.Memory = append(m.report.Memory, Memory{What: c.what, From: from, To: to, Bytes: bytes})
		})
	}
}

// fill has actors carry so many bytes beside their count.
func (m *measurement) fill(url string, from, to, bytes int) {
	m.once(wire.Spec{URL: url, Method: "Fill", Payload: strconv.Itoa(bytes)}, from, to)
}

// once calls each actor once over the stream.
func (m *measurement) once(s wire.Spec, from, to int) {
	s.Protocol = wire.Stream
	s.Plan = load.Plan{Outstanding: connections, First: from, Actors: to - from, Once: true}
	bar.Call[load.Result](m.B, wire.Role, s)
}
