// Package instance keeps the instances of guests that a host has, in a pool for
// each module and app, within the memory that guests may have together.
//
// Shared instances go from actor to actor: they are bounded, handed to whoever waits
// longest, used in last-in, first-out order, and closed when nobody needed them for
// a while. Dedicated ones belong to an activation and are only counted here.
//
// Invariants: nobody has an instance that another one has; one that failed in any
// way but a guest's own error is closed and not used again; the bytes of all are within
// [Config].Memory, and those of each app within MemoryPerApp, whatever running ones
// touch or grow by: each takes bytes before it has them ([Instance.Take]). At a bound,
// and where the engine has no room, what is not held is given back, and what is not in
// use is closed first; no app takes anything from one that holds less. A pool without instances keeps no program in memory.
package instance
