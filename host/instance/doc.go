// Package instance keeps the instances of guests that a host has, in a pool for
// each module and app, within the memory that guests may have together.
//
// Shared instances go from actor to actor: the turns that have one at a time are bounded, and the
// turn that waits longest is next. Called turns do not count, since their callers do, or have lent
// their place while they wait. Idle instances are used in last-in, first-out order, and an
// instance is closed after it was idle for a while. Dedicated instances belong to an
// activation and are only counted here.
//
// Invariants:
//
//   - No two turns have the same instance.
//   - An instance that failed in any way except by a guest's own error is closed.
//   - The bytes of all instances are within [Config].Memory, and those of each app within
//     MemoryPerApp: an instance takes bytes before it touches them ([Instance.Take]).
//   - At a bound, or if the engine has no room, memory that is counted but not held is
//     given back first, then unused instances are closed. No app takes anything from an
//     app that holds less.
//   - A pool without instances keeps no program in memory.
package instance
