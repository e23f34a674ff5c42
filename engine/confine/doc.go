// Package confine keeps guests within their bounds, whichever engine runs them:
// calls in flight from memory that is freed ([Gate]), instances and what they hold
// to what a host has for them ([Account]), memories to their address space ([Map]),
// starts to their time ([Start]), and runs to their fuel, depth and time ([Tank]). It
// knows neither Wasm nor the guests' ABIs.
package confine
