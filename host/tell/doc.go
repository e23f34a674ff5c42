// Package tell has the volatile messages that turns have sent, from the answer of the sender's
// turn to the receiver's mailbox. It knows neither actors in memory nor other hosts: package
// host delivers.
//
// It guarantees that messages are handed over in the order in which they were put into an
// [Outbox], one after the other. Turns put their messages there when they are answered, in the
// order of the turns: so the messages of one sender stay in order. A message that is lost with
// its host is lost.
package tell
