package metrics

import (
	"errors"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler"
)

// ClusterEvents returns the callbacks that count what a process does in its cluster.
// The call registers them, so that a process calls ClusterEvents once.
func (m *Metrics) ClusterEvents() scheduler.Events {
	acquired := counter(m.registry, "greenroom_sticky_acquire_total", "Acquisitions of sticky actors by outcome: granted, or refused since another host owns the actor.", "outcome")
	granted, refused := acquired.WithLabelValues("granted"), acquired.WithLabelValues("refused")
	released := counter(m.registry, "greenroom_sticky_release_total", "Sticky actors that this host gave up.").WithLabelValues()
	cleared := counter(m.registry, "greenroom_sticky_clears_total", "Sticky actors of hosts whose leases ran out, counted by the leader.").WithLabelValues()
	drains := counter(m.registry, "greenroom_drains_total", "Drains that ended, by reason: stop, or asked.", "reason")
	terms := counter(m.registry, "greenroom_leader_terms_total", "Terms in which this process led the cluster.").WithLabelValues()
	heat := counter(m.registry, "greenroom_heat_moves_total", "Ranges that the leader moved because of their heat, by kind: split (a part of one), whole, or back (it was cold).", "kind")
	ended := counter(m.registry, "greenroom_host_restarts_total", "Times that the host began anew, because its lease had run out and it was cleared.").WithLabelValues()
	seconds := []float64{.0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	handed := histogram(m.registry, "greenroom_hand_over_seconds", "Time in which this host ended what it had begun of ranges that moved to other hosts.", seconds).WithLabelValues()
	paused := histogram(m.registry, "greenroom_range_pause_seconds", "Time in which nobody had ranges that moved from this host to others: what calls of their actors waited for, each at most.", seconds).WithLabelValues()
	waited := histogram(m.registry, "greenroom_sticky_acquire_seconds", "Time until the leader answered acquisitions of sticky actors: what calls of actors without an owner waited for.", seconds).WithLabelValues()
	return scheduler.Events{
		HandedOver:  func(took time.Duration) { handed.Observe(took.Seconds()) },
		RangesMoved: func(_ int, pause time.Duration) { paused.Observe(pause.Seconds()) },
		StickyAcquired: func(ok bool, took time.Duration) {
			waited.Observe(took.Seconds())
			if ok {
				granted.Inc()
			} else {
				refused.Inc()
			}
		},
		StickyReleased: func(n int) { released.Add(float64(n)) },
		StickyCleared:  func(n int) { cleared.Add(float64(n)) },
		Drained:        func(reason string) { drains.WithLabelValues(reason).Inc() },
		Led: func(_ uint64, leads bool) {
			if leads {
				terms.Inc()
			}
		},
		HeatMoved: func(kind string) { heat.WithLabelValues(kind).Inc() },
		Ended:     func(actor.HostID) { ended.Inc() },
	}
}

// Cluster is what is counted of the servers that share a store; [*scheduler.Service] has it.
type Cluster interface {
	Leadership() scheduler.Leadership
	LeaseSeconds() float64
	Owned() int
	KnownOwners() int
}

// RegisterCluster adds the gauges of a cluster; unreachable counts the hosts that calls from
// here could not reach.
func (m *Metrics) RegisterCluster(c Cluster, unreachable func() int) error {
	return errors.Join(
		gauge(m.registry, "greenroom_sticky_activations", "Sticky actors that this host owns.", c.Owned),
		gauge(m.registry, "greenroom_sticky_owners_known", "Owners of sticky actors that this host remembers.", c.KnownOwners),
		gauge(m.registry, "greenroom_leader", "1 if this process leads the cluster.", func() float64 { return number(c.Leadership().Here && c.Leadership().Connected) }),
		gauge(m.registry, "greenroom_leader_connected", "1 if this process has a session with the leader.", func() float64 { return number(c.Leadership().Connected) }),
		gauge(m.registry, "greenroom_leader_epoch", "Number of the newest leader's term that this process has met.", func() float64 { return float64(c.Leadership().Epoch) }),
		gauge(m.registry, "greenroom_lease_age_seconds", "Time since the host's lease was renewed.", c.LeaseSeconds),
		gauge(m.registry, "greenroom_unreachable_hosts", "Hosts of the cluster for which this one has calls, or had, and could not connect to.", unreachable),
	)
}

func number(v bool) float64 {
	if v {
		return 1
	}
	return 0
}
