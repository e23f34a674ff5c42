package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/server/diagnosis"
)

// Chains counts the chains of turns that have called others.
type Chains struct {
	chains, deadlocks    *prometheus.CounterVec
	actors, calls, depth prometheus.Histogram
	reruns               prometheus.Counter
}

func newChains(registry *prometheus.Registry) *Chains {
	sizes := func(name, help string, buckets ...float64) prometheus.Histogram {
		return prometheus.NewHistogram(histogramOpts(name, help, buckets))
	}
	c := &Chains{
		chains: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "greenroom_chains_total", Help: "Turns that called other actors, by outcome.",
		}, []string{"app", "type", "outcome"}),
		deadlocks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "greenroom_chain_deadlocks_total", Help: "Turns that ran again because they and others waited for each other's actors.",
		}, []string{"app", "type"}),
		actors: sizes("greenroom_chain_actors", "Actors of a turn and those that it called.", 1, 2, 3, 4, 8, 16, 32, 64),
		calls:  sizes("greenroom_chain_calls", "Calls of a turn and those that it called.", 1, 2, 4, 8, 16, 32, 64, 128, 256),
		depth:  sizes("greenroom_chain_depth", "How deep the calls of a turn were nested.", 1, 2, 3, 4, 8, 16, 32),
		reruns: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "greenroom_chain_reruns_total", Help: "Further runs of turns that called other actors, for any reason.",
		}),
	}
	registry.MustRegister(c.chains, c.actors, c.calls, c.depth, c.deadlocks, c.reruns)
	return c
}

func (c *Chains) turnEnd(e host.TurnEnd) {
	if e.Chain == nil {
		return
	}
	outcome := outcomeOK
	if e.Err != nil {
		outcome = outcomeOf(e.Err)
	}
	c.chains.WithLabelValues(e.Key.App, e.Key.Type, outcome).Inc()
	c.actors.Observe(float64(e.Chain.Actors))
	c.calls.Observe(float64(e.Chain.Calls))
	c.depth.Observe(float64(e.Chain.Depth))
	if n := e.Chain.Deadlocks; n > 0 {
		c.deadlocks.WithLabelValues(e.Key.App, e.Key.Type).Add(float64(n))
	}
	c.reruns.Add(float64(max(0, e.Runs-1)))
}

// ByType returns how many turns of each type called others, and how often they ran again because of
// a deadlock.
func (c *Chains) ByType() map[diagnosis.ActorType]diagnosis.Chains {
	byType := map[diagnosis.ActorType]diagnosis.Chains{}
	counted(c.chains, func(of diagnosis.ActorType, n float64) {
		sum := byType[of]
		sum.Began += n
		byType[of] = sum
	})
	counted(c.deadlocks, func(of diagnosis.ActorType, n float64) {
		sum := byType[of]
		sum.Deadlocks += n
		byType[of] = sum
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
