// Package metrics counts what a server does, for Prometheus: turns, commits, requests, calls
// between hosts, reminders and what the cluster decides. Each part of the server gets the
// callbacks or the counters that it needs from one [Metrics], and knows nothing of the others.
// The times of turns and requests have the traces of sampled calls as exemplars; other calls pay one
// test for it. docs/metrics.md lists every metric; a test keeps it and this package the same.
package metrics
