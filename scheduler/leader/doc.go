// Package leader is the leader's part of a process in a cluster: it is elected by the leader's
// lease, serves the sessions of all hosts, and performs what package assignment decides about
// ranges and package ownership about sticky actors.
//
// An [Elector] lives as long as its process and leads in terms. A term has its own state, lock
// and lease, and nothing of it outlives the lease. The lease is renewed under no lock, so that
// nothing that the leader does can end its term.
//
// # States of a term
//
//	            lease taken, epoch + 1           all hosts registered then have claimed or are cleared
//	(standby) ─────────────────────────▶ gathering ───────────────────────────────────────▶ granting
//	    ▲                                    │                                                 │
//	    └────────────────────────────────────┴── the leader's count is over, or it resigned ───┘
//
// # States of a range
//
//	           LOCK to all hosts            all holders released,           all new holders answered:
//	(settled) ───────────────────▶ releasing ───────────────────▶ updating ────────────────▶ (settled)
//	                                         or are cleared: UPDATE         UNLOCK to all hosts
//
// The words are those of package scheduler, and protocol.md beside it has the protocols.
package leader
