// Package query answers questions about the stored actors of a type: which of them meet a
// filter, and what expressions are of each. Filters and expressions are in CEL, the Common
// Expression Language. docs/query.md is the text for users.
//
// A query goes this way:
//
//	Compile    parses and checks the expressions, takes from the filter a range of IDs and
//	           exclusions, and makes programs. It refuses what no actor could answer.
//	Run        reads rows of the range in order (store.ActorScan), and evaluates the
//	           expressions of each row, until the page is full or a bound is reached.
//
// # What holds
//
//   - A query reads committed rows only, takes no lock, wakes no actor and runs no guest.
//   - Order is that of the bytes of IDs. Run returns the ID after which the query goes on, also
//     if it found nothing within its bounds.
//   - Every row that Run counts as examined is matched, or its state is not JSON and counted, or
//     the filter failed and it is counted, or it is damaged and counted, or the filter is false.
//   - A store may leave out rows for an exclusion. An exclusion rules out only states for which
//     a part of the filter that is joined by && is false, whatever the rest is: in CEL, false &&
//     an error is false. So exclusions change no answer and no count; rows that come back
//     are evaluated in full.
//
// # Values
//
// A state is read where an expression asks for a member, and no further ([object]). A number of
// JSON is an int if it is written as an integer that 64 bits have, a uint if it is above those,
// and otherwise the nearest double, infinite beyond the range of doubles. CEL compares the three as
// numbers. A member that occurs twice has its last value.
//
// # Bounds
//
// The length of an expression, its nodes and its nesting are bounded when it is compiled, and
// so is what it may cost by its text alone. What it costs for one row is bounded by CEL's own count of
// steps ([MaxCost]): beyond, it has failed for this row. Rows, time, bytes of states and of
// values are bounded for each Run ([Bounds]). A Run rests a third of the
// time, so that turns find a processor. How many run at the same time is up to the caller.
package query
