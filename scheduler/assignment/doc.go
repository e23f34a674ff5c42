// Package assignment is the protocol by which the ranges of a type have one holder each: [Tables]
// is what the leader of a term knows and orders, with the [Heat] by which it moves ranges;
// [Holdings] is what a host holds and where it believes the rest to be, which a [View] shows to
// each call. All are pure: they take events and the time, and return what follows. The tests run
// both ends together through random histories; protocol.md in package scheduler describes them.
package assignment
