// Package listappend checks histories of transactions that append to lists and read whole
// lists: whether some serial order of the transactions explains every read, and whether that
// order can follow real time (strict serializability). It is for tests.
//
// The idea is Elle's (Kingsbury and Alvaro, "Elle: Inferring Isolation Anomalies from
// Experimental Observations", VLDB 2020). Each element is appended to a list at most once, so a
// read shows the order of all appends before it, and all reads of a list are prefixes of the
// longest one. From these orders follow the dependencies of Adya's thesis:
//
//	ww   the one appends to a list, the other appends the next element
//	wr   the one appends an element, the other reads the list up to it
//	rw   the one reads a list, the other appends the next element
//	rt   the one is acknowledged before the other begins
//
// An append that no read shows comes after all that reads show. A history without a direct
// anomaly (an aborted read, for instance) is serializable if and only if the dependencies have
// no cycle; with rt among them, strictly serializable. Each cycle is named for what it takes:
//
//	dependencies of the cycle      anomaly
//	ww                             G0
//	ww, wr                         G1c
//	ww, wr, rw once                G-single
//	ww, wr, rw                     G2
//	one of these, and rt           realtime
//
// Time and memory are linear in the size of the history, as long as there is no anomaly.
package listappend
