//go:build unix

// Package pgtest gives tests a PostgreSQL of their own: real, durable (fsync
// on), on loopback, and gone with the test process.
//
// # Life of a server
//
// [URL] starts one server per test process at its first call and gives each
// caller a fresh database on it. [Start] starts one for a single test, which
// may stop, kill and restart it.
//
// Beside every server waits a small shell, the watchdog, reading a pipe whose
// other end the test process holds. When that pipe closes, the watchdog stops
// the server and removes its folder. The kernel closes it whenever the test
// process ends, by return, os.Exit, panic or SIGKILL, so nothing needs to be
// called at the end, and nothing is left behind. Both have a process group of
// their own, so that Ctrl-C reaches the tests and not the server.
//
// PostgreSQL refuses to run as root: for root, the server and its watchdog run
// as the user postgres, or nobody if there is none.
//
// Nothing here skips: without PostgreSQL the test fails and names the command
// that installs it.
package pgtest
