package listappend

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// txn returns a committed transaction.
func txn(name string, begin, end int64, ops ...Op) Transaction {
	return Transaction{Name: name, Ops: ops, Begin: begin, End: end}
}

// with returns the transaction with another outcome.
func with(o Outcome, t Transaction) Transaction {
	t.Outcome = o
	return t
}

// TestAnomalies checks one history for each anomaly. Those with a cycle pass without one of the
// kinds of dependencies in the cycle.
func TestAnomalies(t *testing.T) {
	all := ww | wr | rw | rt
	for name, c := range map[string]struct {
		history []Transaction
		want    []Kind
		needs   kind   // nothing is found without any one of these
		shows   string // in the text
	}{
		"aborted read": {[]Transaction{
			with(Aborted, txn("A", 0, 9, Append("x", 1))),
			txn("B", 0, 9, Read("x", 1)),
		}, []Kind{AbortedRead}, 0, "B reads 1 of x, which A has appended"},
		"aborted read in a cycle": {[]Transaction{
			with(Aborted, txn("A", 0, 9, Read("y", 2), Append("x", 1))),
			txn("B", 0, 9, Read("x", 1), Append("y", 2)),
		}, []Kind{AbortedRead, G1c}, 0, "A before B before A"},
		"intermediate read": {[]Transaction{
			txn("A", 0, 9, Append("x", 1), Append("x", 2)),
			txn("B", 0, 9, Read("x", 1)),
		}, []Kind{IntermediateRead, GSingle}, 0, "B reads x up to 1"},
		"incompatible orders": {[]Transaction{
			txn("A", 0, 9, Append("x", 1)), txn("B", 0, 9, Append("x", 2)),
			txn("C", 0, 9, Read("x", 1, 2)), txn("D", 0, 9, Read("x", 2, 1)),
		}, []Kind{IncompatibleOrders}, 0, "[1 2] and [2 1]"},
		"second read in another order": {[]Transaction{
			txn("A", 0, 9, Read("x"), Append("x", 1), Read("x", 1)), txn("B", 0, 9, Append("x", 2)), txn("C", 0, 9, Read("x", 2)),
		}, []Kind{IncompatibleOrders}, 0, "[1] and [2]"},
		"duplicate append": {[]Transaction{
			txn("A", 0, 9, Append("x", 1)), txn("B", 0, 9, Read("x", 1, 1)),
		}, []Kind{DuplicateAppend}, 0, "1 is in x twice"},
		"unwritten read": {[]Transaction{
			txn("A", 0, 9, Read("x", 7)),
		}, []Kind{UnwrittenRead}, 0, "7 is in x"},
		"own append not read": {[]Transaction{
			txn("A", 0, 9, Append("x", 1), Read("x")),
		}, []Kind{Internal}, 0, "A reads x"},
		"read that does not repeat": {[]Transaction{
			txn("A", 0, 9, Read("x"), Read("x", 1)), txn("B", 0, 9, Append("x", 1)),
		}, []Kind{Internal}, 0, "A reads x"},
		"own append read before": {[]Transaction{
			txn("A", 0, 9, Read("x", 1), Append("x", 1)),
		}, []Kind{Internal}, 0, "before it appends it"},
		"appends in the wrong order": {[]Transaction{
			txn("A", 0, 9, Append("x", 1), Append("x", 2)), txn("B", 0, 9, Read("x", 2, 1)),
		}, []Kind{Internal, IntermediateRead}, 0, "without 1 before 2"},
		"one of two appends": {[]Transaction{
			txn("A", 0, 9, Append("x", 1), Append("x", 2)), txn("B", 0, 9, Read("x", 2)),
		}, []Kind{Internal, GSingle}, 0, "without 1 before 2"},
		"lost append": {[]Transaction{
			txn("A", 0, 1, Append("x", 1)), txn("B", 2, 3, Read("x")),
		}, []Kind{LostAppend, Realtime}, rt, "no read shows 1 of x"},
		"write cycle": {[]Transaction{
			txn("A", 0, 9, Append("x", 1), Append("y", 2)), txn("B", 0, 9, Append("x", 3), Append("y", 4)),
			txn("C", 0, 9, Read("x", 1, 3)), txn("D", 0, 9, Read("y", 4, 2)),
		}, []Kind{G0}, ww, "ww: B appends 3 to x, after what A has appended"},
		"appends in between": {[]Transaction{
			txn("A", 0, 9, Append("x", 1), Append("x", 3)), txn("B", 0, 9, Append("x", 2)), txn("C", 0, 9, Read("x", 1, 2, 3)),
		}, []Kind{G0}, ww, "ww: B appends 2 to x"},
		"circular information": {[]Transaction{
			txn("A", 0, 9, Append("x", 1), Read("y", 2)), txn("B", 0, 9, Append("y", 2), Read("x", 1)),
		}, []Kind{G1c}, wr, "wr: B reads 1 of x, which A has appended"},
		"what is read of an unknown one": {[]Transaction{
			with(Unknown, txn("A", 0, 0, Append("x", 1), Read("y", 2))), txn("B", 0, 9, Append("y", 2), Read("x", 1)),
		}, []Kind{G1c}, wr, "A (unknown"},
		"fractured read": {[]Transaction{
			txn("A", 0, 9, Append("x", 1), Append("y", 2)), txn("B", 0, 9, Read("x", 1), Read("y")),
		}, []Kind{GSingle}, wr | rw, "rw: B reads y without 2, which A appends"},
		"half of an unknown one": {[]Transaction{
			with(Unknown, txn("A", 0, 0, Append("x", 1), Append("y", 2))), txn("B", 0, 9, Read("x", 1)),
			txn("C", 0, 9, Read("x", 1), Read("y")),
		}, []Kind{GSingle}, wr | rw, "C reads y without 2"},
		"lost update": {[]Transaction{
			txn("A", 0, 9, Read("x"), Append("x", 1)), txn("B", 0, 9, Read("x"), Append("x", 2)), txn("C", 0, 9, Read("x", 1, 2)),
		}, []Kind{GSingle}, rw, "B reads x without 1"},
		"write skew": {[]Transaction{
			txn("A", 0, 9, Read("x"), Append("y", 1)), txn("B", 0, 9, Read("y"), Append("x", 2)),
		}, []Kind{G2}, rw, "A before B before A"},
		"long fork": {[]Transaction{
			txn("A", 0, 9, Append("x", 1)), txn("B", 0, 9, Append("y", 2)),
			txn("C", 0, 9, Read("x", 1), Read("y")), txn("D", 0, 9, Read("x"), Read("y", 2)),
		}, []Kind{G2}, wr | rw, "D reads x without 1"},
		"append before one that has ended": {[]Transaction{
			txn("A", 0, 1, Append("x", 1)), txn("B", 2, 3, Append("x", 2)), txn("C", 4, 5, Read("x", 2, 1)),
		}, []Kind{Realtime}, ww | rt, "rt: A ends at 1, and B begins at 2"},
		"read of the future": {[]Transaction{
			txn("A", 0, 1, Read("x", 1)), txn("B", 2, 3, Append("x", 1)),
		}, []Kind{Realtime}, wr | rt, "rt: A ends at 1"},
		"stale read": {[]Transaction{
			txn("A", 0, 1, Append("x", 1)), txn("B", 2, 3, Read("x")), txn("C", 2, 9, Read("x", 1)),
		}, []Kind{Realtime}, rw | rt, "rt: A ends at 1, and B begins at 2"},
		"two stale reads": {[]Transaction{
			txn("A", 0, 1, Read("x"), Append("y", 1)), txn("B", 2, 3, Read("y"), Append("z", 4)), txn("C", 4, 5, Append("x", 6)),
			txn("D", 4, 9, Read("y", 1)),
		}, []Kind{Realtime}, rw | rt, "B reads y without 1"},
	} {
		t.Run(name, func(t *testing.T) {
			found := check(c.history, all)
			kinds, text := kindsOf(found), ""
			for _, a := range found {
				text += a.String() + "\n"
			}
			if !slices.Equal(kinds, c.want) || !strings.Contains(text, c.shows) {
				t.Errorf("got %v, want %v with %q:\n%s", kinds, c.want, c.shows, text)
			}
			for one := ww; one <= rt; one <<= 1 {
				if c.needs&one != 0 && len(check(c.history, all&^one)) > 0 {
					t.Errorf("found without dependencies %b:\n%v", one, check(c.history, all&^one))
				}
			}
		})
	}
}

func kindsOf(found []Anomaly) (kinds []Kind) {
	for _, a := range found {
		kinds = append(kinds, a.Kind)
	}
	return kinds
}

// TestNoAnomaly checks histories that look strange and are in order.
func TestNoAnomaly(t *testing.T) {
	for name, history := range map[string][]Transaction{
		"nothing":                   nil,
		"unknown, not seen":         {with(Unknown, txn("A", 0, 0, Append("x", 1))), txn("B", 2, 3, Read("x"))},
		"unknown, seen later":       {with(Unknown, txn("A", 0, 0, Append("x", 1))), txn("B", 2, 3, Read("x")), txn("C", 4, 5, Read("x", 1))},
		"reads of an unseen one":    {with(Unknown, txn("A", 0, 0, Read("y", 9, 8), Append("x", 1))), txn("B", 2, 3, Read("x"))},
		"aborted, not seen":         {with(Aborted, txn("A", 0, 1, Append("x", 1))), txn("B", 2, 3, Read("x"))},
		"at once, in either order":  {txn("A", 0, 9, Append("x", 1)), txn("B", 0, 9, Read("x"))},
		"ends as the other begins":  {txn("A", 0, 2, Append("x", 1)), txn("B", 2, 3, Read("x"))},
		"own appends":               {txn("A", 0, 9, Append("x", 1), Read("x", 1), Append("x", 2), Read("x", 1, 2)), txn("B", 0, 9, Read("x", 1, 2))},
		"own appends after another": {txn("A", 0, 9, Append("x", 2), Read("x", 1, 2)), txn("B", 0, 9, Append("x", 1))},
		"the same element in lists": {txn("A", 0, 9, Append("x", 1)), txn("B", 0, 9, Append("y", 1)), txn("C", 0, 9, Read("x", 1), Read("y", 1))},
	} {
		if found := StrictlySerializable(history); len(found) > 0 {
			t.Errorf("%s: %v", name, found)
		}
	}
	stale := []Transaction{txn("A", 0, 1, Append("x", 1)), txn("B", 2, 3, Read("x")), txn("C", 2, 3, Read("x", 1))}
	if found := Serializable(stale); len(found) > 0 {
		t.Errorf("serializable without real time: %v", found)
	}
}

// TestShortestCycle shows the one cycle of two transactions among larger ones.
func TestShortestCycle(t *testing.T) {
	found := Serializable([]Transaction{
		txn("A", 0, 9, Append("x", 1), Append("w", 1)), txn("B", 0, 9, Append("x", 2), Append("y", 1)), txn("C", 0, 9, Append("y", 2), Append("z", 1)),
		txn("D", 0, 9, Append("z", 2), Append("w", 2), Append("v", 1)), txn("E", 0, 9, Append("v", 2), Append("w", 3)),
		txn("R", 0, 9, Read("x", 1, 2), Read("y", 1, 2), Read("z", 1, 2), Read("v", 1, 2), Read("w", 3, 2, 1)),
	})
	if len(found) != 1 || !strings.HasPrefix(found[0].Text, "D before E before D\n") && !strings.HasPrefix(found[0].Text, "E before D before E\n") {
		t.Errorf("got %v", found)
	}
}

// TestShortestCycleInRealTime shows a cycle of two transactions, between which others are
// acknowledged, and not one that has another transaction and fewer of those.
func TestShortestCycleInRealTime(t *testing.T) {
	found := StrictlySerializable([]Transaction{
		txn("A", 0, 1, Append("x", 1)), txn("B", 2, 3, Append("y", 2)), txn("C", 4, 5), txn("D", 6, 7), txn("E", 8, 9),
		txn("F", 10, 11, Read("x"), Read("y", 2)), txn("R", 0, 12, Read("x", 1)),
	})
	if len(found) != 1 || found[0].Kind != Realtime || !strings.HasPrefix(found[0].Text, "F before A before F\n") {
		t.Errorf("got %v", found)
	}
}

// serial is a generated history with the lists as they are in the end.
type serial struct {
	history []Transaction
	lists   map[string][]int64
}

// generate runs random transactions one after the other, each at a moment between its beginning
// and its end, which overlap those of others. The last one reads all lists.
func generate(rng *rand.Rand, n, keys int) serial {
	s := serial{lists: map[string][]int64{}}
	next := int64(0)
	for i := range n {
		now := int64(i) * 10
		t := Transaction{Name: fmt.Sprint("T", i), Begin: now - rng.Int64N(100), End: now + rng.Int64N(100), Outcome: []Outcome{0, 0, 0, 0, 0, 0, Aborted, Unknown}[rng.IntN(8)]}
		lists := s.lists
		if happened := t.Outcome == Committed || t.Outcome == Unknown && rng.IntN(2) == 0; !happened {
			lists = map[string][]int64{}
		}
		for range 1 + rng.IntN(4) {
			key := fmt.Sprint("k", rng.IntN(keys))
			if rng.IntN(2) == 0 {
				next++
				lists[key] = append(slices.Clone(lists[key]), next)
				t.Ops = append(t.Ops, Append(key, next))
			} else {
				t.Ops = append(t.Ops, Read(key, lists[key]...))
			}
		}
		s.history = append(s.history, t)
	}
	all := Transaction{Name: "all", Begin: int64(n)*10 + 1000, End: int64(n)*10 + 2000}
	for key, list := range s.lists {
		all.Ops = append(all.Ops, Read(key, list...))
	}
	s.history = append(s.history, all)
	return s
}

// TestSerialHistories finds nothing in histories of serial executions, and something in each of
// them after one change that no order explains.
func TestSerialHistories(t *testing.T) {
	changed := map[string]int{}
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		s := generate(rng, 4+rng.IntN(60), 1+rng.IntN(4))
		if found := StrictlySerializable(s.history); len(found) > 0 {
			t.Fatalf("seed %d: %v", seed, found)
		}
		how := s.mutate(rng)
		if how == "" {
			continue
		}
		changed[how]++
		if found := StrictlySerializable(s.history); len(found) == 0 {
			t.Fatalf("seed %d: not found: %s", seed, how)
		}
	}
	t.Logf("changed: %v", changed)
	if len(changed) != len(mutations) {
		t.Errorf("changed: %v", changed)
	}
}

// mutations change one thing in a history, so that nothing explains it any more; false: nothing in
// it can be changed so.
var mutations = map[string]func(s *serial, rng *rand.Rand) bool{
	"an acknowledged transaction is aborted": func(s *serial, rng *rand.Rand) bool {
		t := &s.history[rng.IntN(len(s.history))]
		appends := slices.ContainsFunc(t.Ops, func(o Op) bool { return !o.IsRead })
		if t.Outcome == Committed && appends {
			t.Outcome = Aborted
		}
		return t.Outcome == Aborted && appends && s.shows(t)
	},
	"an element is read twice": func(s *serial, rng *rand.Rand) bool {
		o := s.someRead(rng, 1)
		if o == nil {
			return false
		}
		o.List = append(slices.Clone(o.List), o.List[0])
		return true
	},
	"an element in the middle is not read": func(s *serial, rng *rand.Rand) bool {
		o := s.someRead(rng, 2)
		if o == nil || len(o.List) == len(s.lists[o.Key]) { // perhaps nobody else reads the last ones
			return false
		}
		o.List = slices.Delete(slices.Clone(o.List), 0, 1)
		return true
	},
	"an acknowledged append is nowhere": func(s *serial, rng *rand.Rand) bool {
		t := &s.history[rng.IntN(len(s.history)-1)]
		at := slices.IndexFunc(t.Ops, func(o Op) bool { return !o.IsRead })
		if at < 0 || t.Outcome != Committed {
			return false
		}
		lost := t.Ops[at]
		for i := range s.history {
			for j := range s.history[i].Ops {
				if o := &s.history[i].Ops[j]; o.IsRead && o.Key == lost.Key {
					o.List = slices.DeleteFunc(slices.Clone(o.List), func(e int64) bool { return e == lost.Element })
				}
			}
		}
		return t.End < s.history[len(s.history)-1].Begin
	},
	"a read is older than what was acknowledged": func(s *serial, rng *rand.Rand) bool {
		reader := &s.history[rng.IntN(len(s.history))]
		if reader.Outcome != Committed {
			return false
		}
		at := slices.IndexFunc(reader.Ops, func(o Op) bool { return o.IsRead && len(o.List) > 0 })
		if at < 0 {
			return false
		}
		o := &reader.Ops[at]
		last := o.List[len(o.List)-1]
		if by := s.appender(o.Key, last); by == nil || by.Outcome != Committed || by.End >= reader.Begin {
			return false
		}
		o.List = o.List[:len(o.List)-1]
		return true
	},
	"two appends are in the wrong order everywhere": func(s *serial, rng *rand.Rand) bool {
		for key, list := range s.lists {
			if len(list) < 2 {
				continue
			}
			at := rng.IntN(len(list) - 1)
			a, b := s.appender(key, list[at]), s.appender(key, list[at+1])
			if a.Outcome != Committed || a.End >= b.Begin {
				continue
			}
			first, second := list[at], list[at+1]
			for i := range s.history {
				for j := range s.history[i].Ops {
					o := &s.history[i].Ops[j]
					if n := slices.Index(o.List, second); o.Key == key && n > 0 {
						o.List = slices.Clone(o.List)
						o.List[n-1], o.List[n] = second, first
					}
				}
			}
			return true
		}
		return false
	},
}

// mutate changes something, and says what; empty if it has not.
func (s *serial) mutate(rng *rand.Rand) string {
	var names []string
	for name := range mutations {
		names = append(names, name)
	}
	slices.Sort(names)
	before := s.history
	for range 20 {
		s.history = slices.Clone(before)
		for i := range s.history {
			s.history[i].Ops = slices.Clone(s.history[i].Ops)
		}
		if name := names[rng.IntN(len(names))]; mutations[name](s, rng) {
			return name
		}
	}
	s.history = before
	return ""
}

// someRead returns a read, by a committed transaction, of so many elements at least.
func (s *serial) someRead(rng *rand.Rand, least int) *Op {
	for range 20 {
		t := &s.history[rng.IntN(len(s.history))]
		if len(t.Ops) == 0 || t.Outcome != Committed {
			continue
		}
		if o := &t.Ops[rng.IntN(len(t.Ops))]; o.IsRead && len(o.List) >= least {
			return o
		}
	}
	return nil
}

func (s *serial) appender(key string, element int64) *Transaction {
	for i := range s.history {
		if slices.ContainsFunc(s.history[i].Ops, func(o Op) bool { return !o.IsRead && o.Key == key && o.Element == element }) {
			return &s.history[i]
		}
	}
	return nil
}

// shows reports whether the last transaction reads what t has appended.
func (s *serial) shows(t *Transaction) bool {
	return slices.ContainsFunc(t.Ops, func(o Op) bool { return !o.IsRead && slices.Contains(s.lists[o.Key], o.Element) })
}

// TestAgainstSearch compares the checker with a search through all orders, on small histories with
// invented reads.
func TestAgainstSearch(t *testing.T) {
	good, bad := 0, 0
	for seed := range uint64(30000) {
		rng := rand.New(rand.NewPCG(seed, 2))
		s := generate(rng, 2+rng.IntN(4), 1+rng.IntN(2))
		for range rng.IntN(3) {
			if o := s.someRead(rng, 0); o != nil {
				list := slices.Clone(s.lists[o.Key])
				if rng.IntN(3) == 0 {
					rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
				}
				o.List = list[:rng.IntN(len(list)+1)]
			}
		}
		for _, realtime := range []bool{false, true} {
			kinds := ww | wr | rw
			if realtime {
				kinds |= rt
			}
			found := check(s.history, kinds)
			if explained := search(s.history, realtime); explained != (len(found) == 0) {
				for i := range s.history {
					t.Log(&s.history[i])
				}
				t.Fatalf("seed %d, real time %v: some order explains it: %v, and the checker finds %v", seed, realtime, explained, found)
			} else if explained {
				good++
			} else {
				bad++
			}
		}
	}
	t.Logf("%d histories are in order, %d are not", good, bad)
}

// search reports whether some order of transactions, those whose outcome is unknown with or
// without, explains all reads of those that are acknowledged.
func search(history []Transaction, realtime bool) bool {
	done := make([]bool, len(history))
	var place func(lists map[string][]int64) bool
	place = func(lists map[string][]int64) bool {
		complete := true
		for i := range history {
			t := &history[i]
			if done[i] || t.Outcome == Aborted {
				continue
			}
			complete = complete && t.Outcome == Unknown
			early := realtime && slices.ContainsFunc(history, func(o Transaction) bool {
				at := slices.IndexFunc(history, func(p Transaction) bool { return p.Name == o.Name })
				return o.Outcome == Committed && !done[at] && o.End < t.Begin
			})
			if early {
				continue
			}
			after, ok := run(t, lists)
			if !ok {
				continue
			}
			done[i] = true
			if place(after) {
				done[i] = false
				return true
			}
			done[i] = false
		}
		return complete
	}
	return place(map[string][]int64{})
}

// run returns the lists after a transaction; false if it reads something else than there is.
func run(t *Transaction, lists map[string][]int64) (map[string][]int64, bool) {
	after := map[string][]int64{}
	for key, list := range lists {
		after[key] = list
	}
	for _, o := range t.Ops {
		switch {
		case !o.IsRead:
			after[o.Key] = append(slices.Clone(after[o.Key]), o.Element)
		case !slices.Equal(o.List, after[o.Key]):
			return nil, false
		}
	}
	return after, true
}

// TestManyTransactions checks 100,000 transactions.
func TestManyTransactions(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a second")
	}
	s := generate(rand.New(rand.NewPCG(1, 3)), 100_000, 100)
	began := time.Now()
	found := StrictlySerializable(s.history)
	t.Logf("%d transactions in %v", len(s.history), time.Since(began))
	if len(found) > 0 {
		t.Error(found)
	}
}
