package listappend

import (
	"fmt"
	"strings"
)

// Op is one operation of a transaction: an append, or a read of a whole list.
type Op struct {
	Key     string
	IsRead  bool
	Element int64   // appended
	List    []int64 // read
}

// Append returns the operation that appends an element to a list.
func Append(key string, element int64) Op { return Op{Key: key, Element: element} }

// Read returns the operation that reads a list.
func Read(key string, list ...int64) Op { return Op{Key: key, IsRead: true, List: list} }

// String returns the operation as text.
func (o Op) String() string {
	if o.IsRead {
		return fmt.Sprintf("%s is %v", o.Key, o.List)
	}
	return fmt.Sprintf("%s += %d", o.Key, o.Element)
}

// Outcome is what is known of a transaction.
type Outcome int

const (
	// Committed transactions were acknowledged.
	Committed Outcome = iota
	// Aborted transactions must have no effect. One whose append a read shows is an anomaly, and
	// counts as committed in the search for others.
	Aborted
	// Unknown transactions may have taken effect, at any time after they began. They are in the
	// order if a read shows an append of theirs; then their reads count, too.
	Unknown
)

// Transaction is one transaction of a history.
type Transaction struct {
	Name    string // for people
	Ops     []Op   // in their order; the known ones, if the outcome is not Committed
	Outcome Outcome
	// Begin and End are times: a transaction comes before all that begin after its end. End is
	// not used of transactions whose outcome is unknown.
	Begin, End int64
}

// String returns the transaction as text.
func (t *Transaction) String() string {
	ops := make([]string, len(t.Ops))
	for i, o := range t.Ops {
		ops[i] = o.String()
	}
	outcome := [...]string{"committed", "aborted", "unknown"}[t.Outcome]
	return fmt.Sprintf("%s (%s, %d to %d): %s", t.Name, outcome, t.Begin, t.End, strings.Join(ops, ", "))
}

// Kind names an anomaly.
type Kind string

// Direct anomalies, which need no cycle.
const (
	// AbortedRead is a read of what an aborted transaction has appended (G1a).
	AbortedRead Kind = "aborted read (G1a)"
	// IntermediateRead is a read of a list between two appends of another transaction (G1b).
	IntermediateRead Kind = "intermediate read (G1b)"
	// IncompatibleOrders are two reads of a list that are not prefixes of each other.
	IncompatibleOrders Kind = "incompatible orders"
	// DuplicateAppend is an element that is twice in a list.
	DuplicateAppend Kind = "duplicate append"
	// UnwrittenRead is a read of an element that nobody has appended.
	UnwrittenRead Kind = "unwritten read"
	// Internal is a read that contradicts the other operations of its transaction, or that shows
	// the appends of a transaction in another order than its own.
	Internal Kind = "internal inconsistency"
	// LostAppend is the append of an acknowledged transaction that no read shows, although one
	// has begun later. Only real time can tell.
	LostAppend Kind = "lost append"
)

// Cycles.
const (
	G0       Kind = "G0"
	G1c      Kind = "G1c"
	GSingle  Kind = "G-single"
	G2       Kind = "G2"
	Realtime Kind = "realtime violation"
)

// Anomaly is why a history is refused.
type Anomaly struct {
	Kind Kind
	Text string // of several lines: the transactions that prove it
}

// String returns the anomaly as text.
func (a Anomaly) String() string { return string(a.Kind) + ": " + a.Text }
