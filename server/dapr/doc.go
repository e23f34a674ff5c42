// Package dapr is the plain HTTP form of the API, that of the Dapr Actors V2 proposal: calls of
// actors, their reminders and their timers, all below /v2.0/actors/APP/TYPE/ID. Package edge
// has admitted and bounded a request before [Actors] serves it. The package keeps no state.
package dapr
