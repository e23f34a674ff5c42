package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/server/diagnosis"
)

// chainEnds returns what counts the chains of turns that have called others. The call registers the
// metrics.
func (m *Metrics) chainEnds() func(host.TurnEnd) {
	m.chains = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "greenroom_chains_total", Help: "Turns that called other actors, by outcome.",
	}, []string{"app", "type", "outcome"})
	sizes := func(name, help string, buckets ...float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	}
	actors := sizes("greenroom_chain_actors", "Actors of a turn and those that it called.", 1, 2, 3, 4, 8, 16, 32, 64)
	calls := sizes("greenroom_chain_calls", "Calls of a turn and those that it called.", 1, 2, 4, 8, 16, 32, 64, 128, 256)
	depth := sizes("greenroom_chain_depth", "How deep the calls of a turn were nested.", 1, 2, 3, 4, 8, 16, 32)
	m.deadlocks = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "greenroom_chain_deadlocks_total", Help: "Turns that ran again because they and others waited for each other's actors.",
	}, []string{"app", "type"})
	reruns := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "greenroom_chain_reruns_total", Help: "Further runs of turns that called other actors, for any reason.",
	})
	m.registry.MustRegister(m.chains, actors, calls, depth, m.deadlocks, reruns)
	return func(e host.TurnEnd) {
		if e.Chain == nil {
			return
		}
		outcome := outcomeOK
		if e.Err != nil {
			outcome = outcomeOf(e.Err)
		}
		m.chains.WithLabelValues(e.Key.App, e.Key.Type, outcome).Inc()
		actors.Observe(float64(e.Chain.Actors))
		calls.Observe(float64(e.Chain.Calls))
		depth.Observe(float64(e.Chain.Depth))
		if n := e.Chain.Deadlocks; n > 0 {
			m.deadlocks.WithLabelValues(e.Key.App, e.Key.Type).Add(float64(n))
		}
		reruns.Add(float64(max(0, e.Runs-1)))
	}
}

// Chains returns how many turns of each type called others, and how often they ran again because of
// a deadlock; nothing before [Metrics.HostEvents] was called.
func (m *Metrics) Chains() map[diagnosis.ActorType]diagnosis.Chains {
	byType := map[diagnosis.ActorType]diagnosis.Chains{}
	if m.chains == nil {
		return byType
	}
	counted(m.chains, func(of diagnosis.ActorType, n float64) {
		c := byType[of]
		c.Began += n
		byType[of] = c
	})
	counted(m.deadlocks, func(of diagnosis.ActorType, n float64) {
		c := byType[of]
		c.Deadlocks += n
		byType[of] = c
	})
	return byType
}

// counted calls each with what a counter has for each of its label values.
func counted(vec *prometheus.CounterVec, each func(of diagnosis.ActorType, n float64)) {
	all := make(chan prometheus.Metric)
	go func() {
		defer close(all)
		vec.Collect(all)
	}()
	for metric := range all {
		var written dto.Metric
		if metric.Write(&written) != nil {
			continue // a counter is always written
		}
		var of diagnosis.ActorType
		for _, label := range written.GetLabel() {
			switch label.GetName() {
			case "app":
				of.App = label.GetValue()
			case "type":
				of.Type = label.GetValue()
			}
		}
		each(of, written.GetCounter().GetValue())
	}
}
