// Package recent remembers, for each actor type, how many turns ended in the last hour, how many
// of them failed and how long they took, in steps of half a minute. The console shows it, so that
// a server without Prometheus has pictures too.
//
//   - [Turns] has all types, and [Type] one of them; [Type.Add] counts a turn.
//   - [Turns.Of] is what was counted of an app, and [Add] adds up what several servers counted.
//
// A turn costs a few atomic additions. A type's step takes memory once a turn ended in it, and
// until an hour has passed. Apps share this memory (internal/fair): a type whose step finds no
// room is not counted in it, and [Counts.Uncounted] says how many turns that were. Steps of apps
// that have more than their share never displace those of others.
//
// What is remembered ends with the process. Time is what callers of the package say that it is; a
// turn that ends in a step older than the newest one by an hour is not counted.
package recent
