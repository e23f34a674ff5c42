package metrics

import "github.com/prometheus/client_golang/prometheus"

// ConnectionsRefused registers the counter of connections that were closed, and returns it. It
// is called once for each m.
func ConnectionsRefused(m *Metrics) prometheus.Counter {
	refused := prometheus.NewCounter(prometheus.CounterOpts{Name: "greenroom_connections_refused_total", Help: "Connections that were closed at once, since too many were open."})
	m.registry.MustRegister(refused)
	return refused
}
