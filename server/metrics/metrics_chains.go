package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/greenroom-run/greenroom/host"
)

// chainEnds returns what counts the chains of turns that have called others. The call registers the
// metrics.
func chainEnds(registry *prometheus.Registry) func(host.TurnEnd) {
	chains := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "greenroom_chains_total", Help: "Turns that called other actors, by outcome.",
	}, []string{"app", "type", "outcome"})
	sizes := func(name, help string, buckets ...float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	}
	actors := sizes("greenroom_chain_actors", "Actors of a turn and those that it called.", 1, 2, 3, 4, 8, 16, 32, 64)
	calls := sizes("greenroom_chain_calls", "Calls of a turn and those that it called.", 1, 2, 4, 8, 16, 32, 64, 128, 256)
	depth := sizes("greenroom_chain_depth", "How deep the calls of a turn were nested.", 1, 2, 3, 4, 8, 16, 32)
	deadlocks := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "greenroom_chain_deadlocks_total", Help: "Turns that ran again because they and others waited for each other's actors.",
	}, []string{"app", "type"})
	reruns := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "greenroom_chain_reruns_total", Help: "Further runs of turns that called other actors, for any reason.",
	})
	registry.MustRegister(chains, actors, calls, depth, deadlocks, reruns)
	return func(e host.TurnEnd) {
		if e.Chain == nil {
			return
		}
		outcome := outcomeOK
		if e.Err != nil {
			outcome = outcomeOf(e.Err)
		}
		chains.WithLabelValues(e.Key.App, e.Key.Type, outcome).Inc()
		actors.Observe(float64(e.Chain.Actors))
		calls.Observe(float64(e.Chain.Calls))
		depth.Observe(float64(e.Chain.Depth))
		if n := e.Chain.Deadlocks; n > 0 {
			deadlocks.WithLabelValues(e.Key.App, e.Key.Type).Add(float64(n))
		}
		reruns.Add(float64(max(0, e.Runs-1)))
	}
}
