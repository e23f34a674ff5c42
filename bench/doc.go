// Command bench measures what Greenroom promises about speed.
//
//	go run ./bench                     all bars
//	go run ./bench -area pipeline      one area
//	go run ./bench -bar pipeline.1     one bar
//	go run ./bench -record FILE        all bars, and their figures in a document
//	go run ./bench -table FILE         no bar: what users may expect, into a document
//	go run ./bench -scale FILE         no bar: what larger clusters say, into a document
//
// Every promise is a bar: a value over a baseline that is measured in the same
// run, held against a target. For each the program prints a table for people and
// then a line of JSON. It exits with status 1 if a bar is missed, and 2 if one
// could not be measured.
//
// Whoever makes the calls is a process of its own, and so is every baseline: the
// program starts itself anew for each (package role). Servers are greenroom
// serve, built from this tree.
//
// # Where things are
//
//	internal/bar       what a bar is, what it measures with (B), how runs are judged and
//	                   shown
//	internal/must      ends a measurement at its first error
//	internal/rig       binary, guest, servers, databases
//	internal/load      the closed and the open loop, and what is measured of them; a
//	                   trace of calls that may fail
//	internal/usage     processor time and memory of processes
//	internal/role      parts of this program in processes of their own
//	internal/wire      role: calls over the network; role: a server of no work
//	internal/inhost    role: calls inside the host's process
//	internal/bare      roles: the databases without Greenroom
//	internal/survey    what users may expect: the tables of docs/performance.md
//	internal/section   the parts of documents that the program writes
//	internal/plot      the pictures of the documents
//	internal/pipeline  the bars of the area pipeline
//	internal/metering  the bars of the area metering
//	internal/cluster   the bars of the area cluster
//	internal/reminders the bars of the area reminders
//	internal/uploads   the bars of the area uploads
//	internal/fair      the bars of the area fair, of pools and quotas, and of queries
//	internal/chains    the bars of the area chains
//	internal/messages  the bars of the area messages
//	internal/sight     the bars of the area sight: console, typed calls, traces
//	guest              the guest: a counter in Rust
//	goguest            the same in Go
//	reminderguest      the counter in Rust, with reminders
//	tellguest          actors in Rust that tell each other
//	smallguest         the same without the SDK, for what an instance takes
//
// README.md has the bars, their last figures and what was tried. A new area is a
// package like internal/pipeline with a function Bars, and its name in bars.go. Its bars are
// functions of a bar.B, which ends them at an error and undoes what they set up.
package main
