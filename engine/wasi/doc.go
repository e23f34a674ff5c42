// Package wasi is WASI preview 1 for guests that have no system around them: a
// table of all its functions, without files, arguments, environment or sockets.
// Clock, randomness and sleep are those of the turn, so that the same turn does the
// same on every machine.
//
// # No state
//
// There are three descriptors, 0 to 2, in every instance and at any time. What
// would change one does nothing or fails, closing it included: an instance has
// nothing outside of its memory, globals and tables that one actor could leave to
// the next.
//
//	args, environ             empty
//	clock_time_get            realtime stands still during a turn; monotonic moves
//	                          on by what the guest slept
//	fd_write to 1 and 2       the guest's log; to others: badf
//	fd_read from 0            the end of the file; from others: badf
//	fd_close of 0 to 2        success, without an effect
//	fd_fdstat_get             a character device that cannot seek, so that C
//	                          libraries write each line as it ends
//	fd_prestat_get            badf: there are no directories
//	path_*, sock_*, seeking   badf, or what a device answers: notdir, notsock, spipe
//	poll_oneoff               moves the turn's clock on to the first event
//	proc_exit                 ends the guest, whatever the code
//	proc_raise                nosys
//
// # What it costs
//
// Each function charges the guest for what it is about to do, by bytes, vectors,
// lines and subscriptions, in pieces of at most some thousand units of fuel (package
// engine/meter), so that a guest whose fuel or time is over is stopped between two
// of them.
//
// # Pointers
//
// Whatever numbers a guest passes, a function touches nothing outside of its memory,
// and answers fault where they reach beyond it. It then has written nothing.
package wasi
