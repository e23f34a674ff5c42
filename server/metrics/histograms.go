package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/greenroom-run/greenroom/actor"
)

const (
	// nativeFactor is the ratio of the bounds of neighbouring native buckets, about: a quantile is
	// off by 5 % at most.
	nativeFactor = 1.1
	// nativeBuckets bounds the native buckets of a series: a millionfold between the shortest and the
	// longest time fits. A series with more halves its resolution. It never begins anew, since its
	// classic buckets, which others scrape, would do the same.
	nativeBuckets = 160
)

// histogramOpts describe a histogram that has the given buckets for the text formats, and native ones
// for Prometheus.
func histogramOpts(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: nativeFactor, NativeHistogramMaxBucketNumber: nativeBuckets,
	}
}

func histogram(r prometheus.Registerer, name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return promauto.With(r).NewHistogramVec(histogramOpts(name, help, buckets), labels)
}

// observe adds a duration to a histogram, with the trace as its exemplar if the trace is sampled.
func observe(to prometheus.Observer, took time.Duration, of *actor.Trace) {
	if !of.IsSampled() {
		to.Observe(took.Seconds())
		return
	}
	to.(prometheus.ExemplarObserver).ObserveWithExemplar(took.Seconds(), prometheus.Labels{"trace_id": of.TraceID().String()})
}
