// Package standstill keeps calls with an idempotency key that waited in a connection while the
// process stood still (stopped by a signal, a suspended machine, a processor that others took)
// from running when it goes on.
//
// The caller of such a call has often given up that attempt and made the call again, at another
// server or here, and that attempt may have been answered with a refusal, which records nothing:
// run now, the older attempt could take effect after its caller was told that it did not. How old
// a request is cannot be seen: its timeout counts from when it is read. So those that are read
// just after the process stood still are refused with [actor.ErrStoodStill], which is safe to
// repeat. Calls without a key are not: their callers must not make them twice.
package standstill
