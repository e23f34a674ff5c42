package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/greenroom-run/greenroom/actor"
)

// storedCollector has what apps store, of those that were counted.
type storedCollector func(each func(app string, stored actor.Stored))

var storedDesc = prometheus.NewDesc("greenroom_app_stored", "What apps store, as this server counted it last, by the name of the quota that bounds it.", []string{"app", "quota"}, nil)

// Describe implements [prometheus.Collector].
func (storedCollector) Describe(to chan<- *prometheus.Desc) { to <- storedDesc }

// Collect implements [prometheus.Collector].
func (c storedCollector) Collect(to chan<- prometheus.Metric) {
	c(func(app string, stored actor.Stored) {
		for _, q := range actor.StoredQuotas() {
			to <- prometheus.MustNewConstMetric(storedDesc, prometheus.GaugeValue, float64(*stored.Of(q)), app, string(q))
		}
	})
}
