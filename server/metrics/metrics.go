package metrics

import (
	"errors"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/routing"
	"github.com/greenroom-run/greenroom/server/recent"
)

// Metrics counts what happens in a registry of its own. Make it first, give its
// [Metrics.HostEvents] to the host and itself to the server.
//
// Labels come from a bounded set: types and methods count only when a deployment
// has them, and actor IDs are never a label.
type Metrics struct {
	registry *prometheus.Registry

	turns       *prometheus.CounterVec
	turnTime    *prometheus.HistogramVec
	queueTime   *prometheus.HistogramVec
	reruns      prometheus.Counter
	fuel        *prometheus.CounterVec
	egress      *prometheus.CounterVec
	egressBytes *prometheus.CounterVec
	timers      *prometheus.CounterVec
	commits     *prometheus.CounterVec
	committed   [host.LaneStateless + 1]atomic.Pointer[commitMetrics]
	commitTime  *prometheus.HistogramVec
	commitTurns prometheus.Histogram
	active      prometheus.Gauge
	activated   prometheus.Counter
	deactivated *prometheus.CounterVec
	idleSkipped prometheus.Counter
	instances   *prometheus.CounterVec
	errors      *prometheus.CounterVec
	requests    *prometheus.CounterVec
	requestTime *prometheus.HistogramVec
	refused     prometheus.Counter // connections

	forwarded *prometheus.CounterVec
	sessions  *prometheus.CounterVec

	streams streamMetrics

	// Chains are the chains of turns, and Recent the turns of the last hour.
	Chains *Chains
	Recent *recent.Turns

	mu     sync.RWMutex
	series map[turnSeries]*turnMetrics
}

// Gauges are values that are asked for when metrics are collected. A nil one is
// left out. They are called from any goroutine.
type Gauges struct {
	// QueueDepth is how many invocations wait in mailboxes.
	QueueDepth func() int
	// WaitingForProcessor is how many turns wait for a processor.
	WaitingForProcessor func() int
	// Pools are the pools in which turns wait for a processor.
	Pools []Pool
	// Instances is how many guest instances exist.
	Instances func() int
	// GuestMemory is the memory of all instances, in bytes.
	GuestMemory func() int64
	// StateMemory and CallMemory are what the states of actors and the calls under
	// way count for, in bytes.
	StateMemory, CallMemory func() int64
	// Timers is how many timers are set.
	Timers func() int
	// Stored calls its argument with what is stored by each app that was counted. Defaults to none.
	Stored func(each func(app string, stored actor.Stored))
	// StoreRetries is how often the store has tried something again because of a
	// serialization failure.
	StoreRetries func() uint64
}

// Pool is a pool of turns: how many run, and how many wait.
type Pool struct {
	Name             string
	Running, Waiting func() int
}

// turnSeries names what one set of turn metrics counts.
type turnSeries struct {
	app, typ, method string
	lane             host.Lane
}

// turnMetrics are looked up once per series, since Prometheus' own lookup costs
// more than the rest of counting a turn.
type turnMetrics struct {
	succeeded prometheus.Counter
	took      prometheus.Observer
	queued    prometheus.Observer
	fuel      prometheus.Counter
	recent    *recent.Type // nil: of no type that is deployed
}

// streamMetrics are those of InvokeStreams.
type streamMetrics struct {
	open                        prometheus.Gauge
	invocations, received, sent prometheus.Counter // received and sent count messages
}

// commitMetrics are those of a lane, looked up once likewise.
type commitMetrics struct {
	succeeded prometheus.Counter
	took      prometheus.Observer
}

// New returns metrics that have counted nothing.
func New() *Metrics {
	seconds := []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	m := &Metrics{registry: prometheus.NewRegistry(), series: make(map[turnSeries]*turnMetrics), Recent: recent.New()}
	m.turns = counter(m.registry, "greenroom_turns_total", "Turns by outcome: ok, or the kind of the error.", "app", "type", "method", "lane", "outcome")
	m.turnTime = histogram(m.registry, "greenroom_turn_seconds", "Time from an invocation's arrival at the host to its answer.", seconds, "app", "type", "lane")
	m.queueTime = histogram(m.registry, "greenroom_turn_queue_seconds", "Part of it before the turn began.", seconds, "app", "type", "lane")
	m.reruns = counter(m.registry, "greenroom_turn_reruns_total", "Runs of a turn beyond its first, after conflicts.").WithLabelValues()
	m.fuel = counter(m.registry, "greenroom_fuel_total", "Fuel that guests used: about one unit for a simple instruction.", "app", "type")
	m.egress = counter(m.registry, "greenroom_egress_requests_total", "HTTP requests of guests by outcome: ok, or why there was no answer.", "app", "type", "outcome")
	m.egressBytes = counter(m.registry, "greenroom_egress_bytes_total", "Bytes of their bodies, by direction.", "app", "type", "direction")
	m.timers = counter(m.registry, "greenroom_timer_firings_total", "Firings of timers by outcome: fired, or failed.", "app", "type", "outcome")
	m.commits = counter(m.registry, "greenroom_commits_total", "Commits by outcome: ok, or the kind of the error.", "lane", "outcome")
	m.commitTime = histogram(m.registry, "greenroom_commit_seconds", "Time until a commit's outcome was known.", seconds, "lane")
	turns := []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}
	m.commitTurns = histogram(m.registry, "greenroom_commit_turns", "Turns that one commit carried.", turns).WithLabelValues().(prometheus.Histogram)
	m.activated = counter(m.registry, "greenroom_activations_total", "Actors that came into memory.").WithLabelValues()
	m.deactivated = counter(m.registry, "greenroom_deactivations_total", "Actors that left memory, by reason.", "reason")
	m.idleSkipped = counter(m.registry, "greenroom_idle_deactivation_skipped_total", "Actors of sticky types that were idle for long and stayed in memory.").WithLabelValues()
	m.active = promauto.With(m.registry).NewGauge(prometheus.GaugeOpts{Name: "greenroom_active_actors", Help: "Actors in memory."})
	m.instances = counter(m.registry, "greenroom_instances_total", "Guest instances made and closed.", "event")
	m.errors = counter(m.registry, "greenroom_errors_total", "Errors answered to callers, by kind.", "kind")
	m.requests = counter(m.registry, "greenroom_http_requests_total", "HTTP requests by route and status. Calls over gRPC have status 200 whatever their outcome.", "route", "status")
	m.requestTime = histogram(m.registry, "greenroom_http_request_seconds", "Time to serve a request; for streams, their life.", seconds, "route")
	m.refused = counter(m.registry, "greenroom_connections_refused_total", "Connections that were closed at once, since too many were open.").WithLabelValues()
	m.forwarded = counter(m.registry, "greenroom_forwarded_calls_total", "Calls that were passed on to the host that holds their actor, by outcome: reply, redirect (it does not hold it), refused, lost (the session broke).", "outcome")
	m.sessions = counter(m.registry, "greenroom_peer_sessions_total", "Sessions to other hosts that were opened and that broke.", "event")
	m.Chains = newChains(m.registry)
	m.streams.open = promauto.With(m.registry).NewGauge(prometheus.GaugeOpts{Name: "greenroom_invoke_streams", Help: "Open InvokeStreams."})
	m.streams.invocations = counter(m.registry, "greenroom_invoke_stream_invocations_total", "Invocations that came over InvokeStreams.").WithLabelValues()
	messages := counter(m.registry, "greenroom_invoke_stream_messages_total", "Messages of InvokeStreams, by direction; each carries invocations or replies.", "direction")
	m.streams.received, m.streams.sent = messages.WithLabelValues("received"), messages.WithLabelValues("sent")
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewBuildInfoCollector())
	return m
}

func counter(r prometheus.Registerer, name, help string, labels ...string) *prometheus.CounterVec {
	return promauto.With(r).NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// gauge adds a gauge that is asked for its value; without value it does nothing.
func gauge[N int | int64 | float64](r prometheus.Registerer, name, help string, value func() N) error {
	if value == nil {
		return nil
	}
	return r.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value()) }))
}

// HostEvents returns the callbacks that count what the host does. Guest logs are
// not counted. The call registers metrics, so that a process calls HostEvents once.
func (m *Metrics) HostEvents() host.Events {
	return host.Events{
		TurnEnd: func(e host.TurnEnd) {
			m.turnEnd(e)
			m.Chains.turnEnd(e)
		},
		Commit:    m.commitEnd,
		Activated: func(actor.Key) { m.activated.Inc(); m.active.Inc() },
		Deactivated: func(d host.Deactivation) {
			m.deactivated.WithLabelValues(string(d.Reason)).Inc()
			m.active.Dec()
		},
		IdleSkipped:    func(actor.Key) { m.idleSkipped.Inc() },
		Egress:         m.egressEnd,
		TimerFired:     m.timerFired,
		InstanceMade:   func(host.InstanceEvent) { m.instances.WithLabelValues("made").Inc() },
		InstanceClosed: func(host.InstanceEvent) { m.instances.WithLabelValues("closed").Inc() },
	}
}

// RoutingEvents returns the callbacks that count what the router does.
func (m *Metrics) RoutingEvents() routing.Events {
	outcomes := make(map[string]prometheus.Counter)
	for _, o := range []string{"reply", "redirect", "refused", "lost"} {
		outcomes[o] = m.forwarded.WithLabelValues(o)
	}
	opened, broken := m.sessions.WithLabelValues("opened"), m.sessions.WithLabelValues("broken")
	return routing.Events{
		Forwarded: func(outcome string) {
			if c, ok := outcomes[outcome]; ok {
				c.Inc()
			}
		},
		SessionOpened: func(actor.HostID) { opened.Inc() },
		SessionBroken: func(actor.HostID) { broken.Inc() },
	}
}

func (m *Metrics) timerFired(f host.TimerFired) {
	outcome := "fired"
	if f.Err != nil {
		outcome = "failed"
	}
	m.timers.WithLabelValues(f.Key.App, f.Key.Type, outcome).Inc()
}

func (m *Metrics) egressEnd(e host.EgressEnd) {
	m.egress.WithLabelValues(e.Key.App, e.Key.Type, e.Outcome).Inc()
	m.egressBytes.WithLabelValues(e.Key.App, e.Key.Type, "sent").Add(float64(e.Sent))
	m.egressBytes.WithLabelValues(e.Key.App, e.Key.Type, "received").Add(float64(e.Received))
}

// methodDelete stands for Delete, which is no method; no name has a parenthesis.
const methodDelete = "(delete)"

func (m *Metrics) turnEnd(e host.TurnEnd) {
	series := turnSeries{e.Key.App, e.Key.Type, e.Method, e.Lane}
	if e.Method == "" {
		series.method = methodDelete
	}
	// A name that no deployment has is only what a caller wrote.
	if e.Lane == host.LaneNone {
		series = turnSeries{}
	}
	t := m.turnMetrics(series)
	observe(t.took, e.Duration, e.Trace)
	observe(t.queued, e.QueueWait, e.Trace)
	t.fuel.Add(float64(e.Fuel))
	if t.recent != nil {
		t.recent.Add(time.Now(), e.Duration, e.Err != nil)
	}
	if e.Runs > 1 {
		m.reruns.Add(float64(e.Runs - 1))
	}
	if e.Err == nil {
		t.succeeded.Inc()
		return
	}
	m.turns.WithLabelValues(series.app, series.typ, series.method, series.lane.String(), outcomeOf(e.Err)).Inc()
}

func (m *Metrics) turnMetrics(s turnSeries) *turnMetrics {
	m.mu.RLock()
	t, ok := m.series[s]
	m.mu.RUnlock()
	if ok {
		return t
	}
	lane := s.lane.String()
	t = &turnMetrics{
		succeeded: m.turns.WithLabelValues(s.app, s.typ, s.method, lane, outcomeOK),
		took:      m.turnTime.WithLabelValues(s.app, s.typ, lane),
		queued:    m.queueTime.WithLabelValues(s.app, s.typ, lane),
		fuel:      m.fuel.WithLabelValues(s.app, s.typ),
	}
	if s.typ != "" {
		t.recent = m.Recent.Type(s.app, s.typ)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.series[s] = t // whoever comes second stores the same counters
	return t
}

func (m *Metrics) commitEnd(e host.CommitEnd) {
	c := m.commitMetrics(e.Lane)
	c.took.Observe(e.Duration.Seconds())
	m.commitTurns.Observe(float64(e.GroupSize))
	if e.Err == nil {
		c.succeeded.Inc()
		return
	}
	m.commits.WithLabelValues(e.Lane.String(), outcomeOf(e.Err)).Inc()
}

func (m *Metrics) commitMetrics(l host.Lane) *commitMetrics {
	c := m.committed[l].Load()
	if c == nil {
		c = &commitMetrics{m.commits.WithLabelValues(l.String(), outcomeOK), m.commitTime.WithLabelValues(l.String())}
		m.committed[l].Store(c) // whoever comes second stores the same counters
	}
	return c
}

// Streams count what InvokeStreams carry: [stream.Counters].
type Streams struct{ *Metrics }

// StreamOpened counts a stream that is open from now on.
func (c Streams) StreamOpened() { c.streams.open.Inc() }

// StreamClosed counts off a stream that was open.
func (c Streams) StreamClosed() { c.streams.open.Dec() }

// MessageSent counts a message of answers.
func (c Streams) MessageSent() { c.streams.sent.Inc() }

// MessageReceived counts a message, and the invocations in it.
func (c Streams) MessageReceived(invocations int) {
	c.streams.received.Inc()
	c.streams.invocations.Add(float64(invocations))
}

// ConnectionRefused counts a connection that was closed at once, since too many were open.
func (m *Metrics) ConnectionRefused() { m.refused.Inc() }

// Failed counts a failed request by the kind of its error.
func (m *Metrics) Failed(kind actor.Kind) { m.errors.WithLabelValues(string(kind)).Inc() }

// Route counts the requests of one route.
type Route struct {
	all  *prometheus.CounterVec
	name string
	ok   prometheus.Counter // status 200, looked up once
	took prometheus.Observer
}

// Route returns the counters of the route with the given name.
func (m *Metrics) Route(name string) *Route {
	return &Route{m.requests, name, m.requests.WithLabelValues(name, "200"), m.requestTime.WithLabelValues(name)}
}

// Served counts a request that was answered with an HTTP status. Its trace may be nil.
func (r *Route) Served(status int, took time.Duration, of *actor.Trace) {
	observe(r.took, took, of)
	if status == http.StatusOK {
		r.ok.Inc()
		return
	}
	r.all.WithLabelValues(r.name, strconv.Itoa(status)).Inc()
}

// RegisterGauges adds gauges; one server does it once.
func (m *Metrics) RegisterGauges(g Gauges) error {
	var retries error
	if g.StoreRetries != nil {
		retries = m.registry.Register(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "greenroom_store_retries_total", Help: "What the store tried again after a serialization failure.",
		}, func() float64 { return float64(g.StoreRetries()) }))
	}
	var stored error
	if g.Stored != nil {
		stored = m.registry.Register(storedCollector(g.Stored))
	}
	var pools []error
	for _, p := range g.Pools {
		of := prometheus.WrapRegistererWith(prometheus.Labels{"pool": p.Name}, m.registry)
		pools = append(pools,
			gauge(of, "greenroom_pool_running_turns", "Turns whose guests have a processor, by pool.", p.Running),
			gauge(of, "greenroom_pool_waiting_turns", "Turns whose guests wait for a processor, by pool.", p.Waiting))
	}
	return errors.Join(
		retries, stored, errors.Join(pools...),
		gauge(m.registry, "greenroom_queue_depth", "Invocations that wait in mailboxes.", g.QueueDepth),
		gauge(m.registry, "greenroom_turns_waiting_for_processor", "Turns whose guests wait for a processor.", g.WaitingForProcessor),
		gauge(m.registry, "greenroom_timers", "Timers that are set.", g.Timers),
		gauge(m.registry, "greenroom_instances", "Guest instances.", g.Instances),
		gauge(m.registry, "greenroom_guest_memory_bytes", "Memory of all guest instances.", g.GuestMemory),
		gauge(m.registry, "greenroom_state_memory_bytes", "Memory of the states of actors.", g.StateMemory),
		gauge(m.registry, "greenroom_call_memory_bytes", "Memory of the calls under way.", g.CallMemory),
	)
}

// Handler serves what is counted, of all apps, in the format that the request accepts: text without
// exemplars, OpenMetrics, or Protobuf, which alone has native histograms.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
}
