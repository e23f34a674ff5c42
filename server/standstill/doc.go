// Package standstill keeps calls with an idempotency key that waited in a connection while the
// process stood still (stopped by a signal, a suspended machine, a processor that others took)
// from running when it goes on.
//
// The caller of such a call has often given up that attempt and made the call again, at another
// server or here. That attempt may have been refused, and a refusal records nothing. If the older
// attempt ran now, it could take effect after its caller got the refusal. A server cannot see how
// old a request is: its timeout counts from when the request is read. So the requests that are
// read just after the process stood still are refused with [actor.ErrStoodStill], which is safe to
// repeat. Calls without a key are not refused: their callers must not repeat them.
package standstill
