package listappend

import (
	"fmt"
	"slices"
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
	// Aborted transactions must have no effect.
	Aborted
	// Unknown transactions may have taken effect, at any time after they began. They are in the
	// order if a read shows an append of theirs; then their reads count, too.
	Unknown
)

// Transaction is one transaction of a history.
type Transaction struct {
	Name    string // for people
	Ops     []Op   // in their order; of a transaction that is not known, those that are
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
	// IncompatibleOrders are two reads of a list, neither of which is a prefix of the other.
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

// maxAnomalies is how many are reported: the first of them are enough to understand what is
// wrong.
const maxAnomalies = 16

// Serializable returns the anomalies of a history, none if some serial order explains it. It
// panics if two transactions append the same element to the same list.
func Serializable(history []Transaction) []Anomaly { return check(history, ww|wr|rw) }

// StrictlySerializable is [Serializable] for an order that follows real time.
func StrictlySerializable(history []Transaction) []Anomaly { return check(history, ww|wr|rw|rt) }

func check(history []Transaction, kinds kind) []Anomaly {
	c := &checker{history: history, byKey: map[string]*list{}, inOrder: make([]bool, len(history)), kinds: kinds}
	c.readAppends()
	c.readOrders()
	if kinds&rt != 0 {
		c.lostAppends()
	}
	c.cycles()
	return c.found
}

// checker checks one history.
type checker struct {
	history []Transaction
	lists   []*list // in the order of their first appearance
	byKey   map[string]*list
	inOrder []bool // by transaction: it has taken effect
	reads   []read // of transactions that have taken effect
	kinds   kind   // of dependencies that count
	found   []Anomaly
}

// list is what is known of one list.
type list struct {
	key     string
	number  int
	appends map[int64]*appended
	order   []int64 // the longest read
	longest int     // the transaction of that read
	latest  int64   // when the last committed transaction began that reads the list
	last    *appended
}

// appended is one append.
type appended struct {
	by      int // the transaction
	element int64
	before  *appended // the previous one of its transaction and list; nil: there is none
	final   bool      // it is the last one of its transaction and list
	place   int       // in the order of its list; -1: no read shows it
}

// read is the first read of a list by a transaction, without what the transaction itself has
// appended before.
type read struct {
	by   int
	of   *list
	upTo int // how many elements of the list's order it shows
}

func (c *checker) fail(k Kind, format string, args ...any) {
	if len(c.found) < maxAnomalies {
		c.found = append(c.found, Anomaly{k, fmt.Sprintf(format, args...)})
	}
}

func (c *checker) list(key string) *list {
	l := c.byKey[key]
	if l == nil {
		l = &list{key: key, number: len(c.lists), appends: map[int64]*appended{}, longest: -1, latest: -1 << 63}
		c.byKey[key] = l
		c.lists = append(c.lists, l)
	}
	return l
}

// readAppends notes who appends which element.
func (c *checker) readAppends() {
	for i := range c.history {
		for _, o := range c.history[i].Ops {
			l := c.list(o.Key)
			if o.IsRead {
				continue
			}
			if other := l.appends[o.Element]; other != nil {
				panic(fmt.Sprintf("listappend: %s and %s append %d to %s", c.history[other.by].Name, c.history[i].Name, o.Element, o.Key))
			}
			a := &appended{by: i, element: o.Element, place: -1, final: true}
			if l.last != nil && l.last.by == i {
				l.last.final, a.before = false, l.last
			}
			l.last, l.appends[o.Element] = a, a
		}
	}
}

// readOrders recovers the order of each list from the reads of transactions that have taken
// effect, which follows from these orders for those of unknown outcome.
func (c *checker) readOrders() {
	var next []int
	enter := func(i int) {
		if !c.inOrder[i] {
			c.inOrder[i] = true
			next = append(next, i)
		}
	}
	for i := range c.history {
		if c.history[i].Outcome == Committed {
			enter(i)
		}
	}
	for len(next) > 0 {
		i := next[0]
		next = next[1:]
		c.readTransaction(i, enter)
	}
}

// seen is what a transaction knows of a list so far.
type seen struct {
	of   *list
	own  []int64 // appended by itself
	base []int64 // before that; nil: not read
	read bool
}

// readTransaction checks the reads of one transaction against each other, and against the order
// of their lists, which they may extend. enter is called for the transactions that it shows to
// have taken effect.
func (c *checker) readTransaction(i int, enter func(int)) {
	t := &c.history[i]
	known := make([]seen, 0, len(t.Ops))
	for _, o := range t.Ops {
		l := c.list(o.Key)
		at := slices.IndexFunc(known, func(s seen) bool { return s.of == l })
		if at < 0 {
			at = len(known)
			known = append(known, seen{of: l})
		}
		k := &known[at]
		if !o.IsRead {
			k.own = append(k.own, o.Element)
			continue
		}
		rest := len(o.List) - len(k.own)
		if rest < 0 || !slices.Equal(o.List[rest:], k.own) || k.read && !slices.Equal(o.List[:rest], k.base) {
			c.fail(Internal, "%s reads %s as %v, after operations of its own that show otherwise\n  %s", t.Name, l.key, o.List, t)
			continue
		}
		if k.read {
			c.extend(l, i, o.List, enter)
			continue
		}
		k.read, k.base = true, o.List[:rest]
		if !c.extend(l, i, o.List, enter) {
			continue
		}
		if t.Outcome == Committed {
			l.latest = max(l.latest, t.Begin)
		}
		c.reads = append(c.reads, read{i, l, rest})
		if rest == 0 {
			continue
		}
		switch last := l.appends[o.List[rest-1]]; {
		case last == nil:
		case last.by == i:
			c.fail(Internal, "%s reads %d of %s before it appends it\n  %s", t.Name, last.element, l.key, t)
		case !last.final:
			c.fail(IntermediateRead, "%s reads %s up to %d, after which %s appends more\n  %s\n  %s", t.Name, l.key, last.element, c.history[last.by].Name, t, &c.history[last.by])
		}
	}
}

// extend reports whether a read by the transaction i agrees with the order of its list, which it
// extends if it is longer.
func (c *checker) extend(l *list, i int, elements []int64, enter func(int)) bool {
	common := min(len(elements), len(l.order))
	if !slices.Equal(elements[:common], l.order[:common]) {
		c.fail(IncompatibleOrders, "of %s: %v and %v\n  %s\n  %s", l.key, l.order, elements, &c.history[l.longest], &c.history[i])
		return false
	}
	if len(elements) <= len(l.order) {
		return true
	}
	for place := common; place < len(elements); place++ {
		a := l.appends[elements[place]]
		switch {
		case a == nil:
			c.fail(UnwrittenRead, "%d is in %s, and nobody has appended it\n  %s", elements[place], l.key, &c.history[i])
			continue
		case a.place >= 0:
			c.fail(DuplicateAppend, "%d is in %s twice: %v\n  %s\n  %s", a.element, l.key, elements, &c.history[a.by], &c.history[i])
			continue
		case c.history[a.by].Outcome == Aborted:
			c.fail(AbortedRead, "%s reads %d of %s, which %s has appended\n  %s\n  %s",
				c.history[i].Name, a.element, l.key, c.history[a.by].Name, &c.history[i], &c.history[a.by])
		case a.before != nil && a.before.place < 0:
			c.fail(Internal, "%s reads %s as %v, without %d before %d, which %s has appended in that order\n  %s\n  %s",
				c.history[i].Name, l.key, elements, a.before.element, a.element, c.history[a.by].Name, &c.history[i], &c.history[a.by])
		}
		if c.history[a.by].Outcome != Aborted {
			enter(a.by)
		}
		a.place = place
	}
	l.order, l.longest = elements, i
	return true
}

// lostAppends finds acknowledged appends that no read shows, though one should.
func (c *checker) lostAppends() {
	for i := range c.history {
		t := &c.history[i]
		if t.Outcome != Committed {
			continue
		}
		for _, o := range t.Ops {
			if o.IsRead {
				continue
			}
			if l := c.list(o.Key); l.appends[o.Element].place < 0 && t.End < l.latest {
				c.fail(LostAppend, "no read shows %d of %s, and the last one began at %d\n  %s", o.Element, l.key, l.latest, t)
			}
		}
	}
}
