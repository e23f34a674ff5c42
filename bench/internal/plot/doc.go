// Package plot draws pictures in SVG: how far bars are above or below what was
// promised, and how latency grows with load.
package plot
