package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/history/listappend"
)

// chain is one request of a client, or one reminder, to ledgers.
type chain struct {
	number       int64
	name         string
	root         actor.Key
	began, ended time.Time
	outcome      listappend.Outcome
	ops          []listappend.Op // of one that was acknowledged
	told         bool            // it sends a notice, and was acknowledged
	runs         map[int64][]listappend.Op
}

// several begins the IDs of invocations that ask for several calls.
const several = "several-"

// perClient is how many chains a client asks for at most.
const perClient = 1000

// newChain records that a chain begins.
func (w *world) newChain(number int64, name string, root actor.Key) *chain {
	c := &chain{number: number, name: name, root: root, began: time.Now(), outcome: listappend.Unknown, runs: map[int64][]listappend.Op{}}
	w.judge.Lock()
	defer w.judge.Unlock()
	if there := w.chains[number]; there != nil { // a reminder that is delivered again
		return there
	}
	w.chains[number] = c
	return c
}

// newRun returns the number of a run of a chain.
func (w *world) newRun() int64 {
	w.judge.Lock()
	defer w.judge.Unlock()
	w.runs++
	return w.runs
}

// ran records the operations of a run of a chain. They count if the run is committed.
func (w *world) ran(number, run int64, ops []listappend.Op) {
	w.judge.Lock()
	defer w.judge.Unlock()
	w.chains[number].runs[run] = ops
}

// chain makes a random call of ledgers, and records its outcome.
func (w *world) chain(rng *rand.Rand, client, call int64) {
	plan := &plan{rng: rng, ledgers: w.ledgers, place: rng.IntN(2)}
	here := w.ledgers.places[plan.place]
	inv := actor.Invocation{ID: fmt.Sprintf("chain-%d-%d", client, call), Key: here[rng.IntN(len(here))], Method: "Do"}
	if rng.IntN(2) == 0 {
		inv.IdempotencyKey = inv.ID
	}
	s := script{Chain: 1 + client*perClient + call}
	stale := time.Duration(0)
	switch rng.IntN(10) {
	case 0:
		w.severalCalls(plan, &inv, s.Chain)
		return
	case 1: // reads alone
		inv.Method, inv.ReadOnly, inv.IdempotencyKey = "See", true, ""
		s.Steps = w.reads(inv.Key, rng.IntN(4), "See")
		if rng.IntN(2) == 0 {
			inv.Consistency = actor.ConsistencyStrong
		} else {
			stale = actor.MaxReadAge
		}
	case 2: // a turn that changes nothing
		s.Steps = w.reads(inv.Key, rng.IntN(4), []string{"See", "Do"}[rng.IntN(2)])
		stale = actor.MaxReadAge
	case 3, 4, 5: // reads of others before a change of one ledger: two at once would be a write skew
		s.Steps = append(w.reads(inv.Key, 1+rng.IntN(2), "See"), step{Do: "wait"}, step{Do: "append", N: 1})
	default:
		s.Steps = plan.steps(3, []string{nameOfLedger(inv.Key)})
		if plan.tells(2.0 / 3) {
			s.Steps = append([]step{plan.tell()}, s.Steps...)
		}
	}
	c := w.newChain(s.Chain, inv.ID, inv.Key)
	c.began = c.began.Add(-stale)
	w.asks(c, inv, &s, rng)
}

// reads are the steps that read the list of a ledger, and those of as many others.
func (w *world) reads(own actor.Key, others int, method string) []step {
	steps := []step{{Do: "read"}}
	for _, key := range w.ledgers.placeOf(own) {
		if key != own && others > 0 {
			others--
			steps = append(steps, step{Do: "call", To: nameOfLedger(key), Method: method, Steps: []step{{Do: "read"}}})
		}
	}
	return steps
}

// placeOf returns the ledgers of a ledger's place.
func (l *ledgers) placeOf(key actor.Key) []actor.Key {
	return l.places[slices.IndexFunc(l.places, func(place []actor.Key) bool { return slices.Contains(place, key) })]
}

// asks makes the call that begins a chain, and records its outcome.
func (w *world) asks(c *chain, inv actor.Invocation, s *script, rng *rand.Rand) {
	inv.Payload.Data = must(json.Marshal(s))
	got := w.attempts(inv, rng)
	var reply did
	if got.known {
		reply = must(decoded(got.reply.Payload.Data))
	}
	w.concludes(c, got, reply.Ops, slices.ContainsFunc(s.Steps, func(s step) bool { return s.Do == "tell" && !s.Try }))
}

func decoded(data []byte) (reply did, err error) {
	err = json.Unmarshal(data, &reply)
	return reply, err
}

// concludes records the outcome of a chain, and whether it tells another ledger of something.
func (w *world) concludes(c *chain, got outcome, ops []listappend.Op, tells bool) {
	w.judge.Lock()
	defer w.judge.Unlock()
	switch {
	case got.known:
		c.outcome, c.ops, c.ended, c.told = listappend.Committed, ops, time.Now(), tells
		w.total.add("chain answered", 1)
	case got.unknown:
		w.total.add("chain of unknown outcome", 1)
	default:
		c.outcome = listappend.Aborted
		w.total.add("chain refused", 1)
	}
}

// severalCalls asks for several calls of ledgers at once.
func (w *world) severalCalls(plan *plan, inv *actor.Invocation, number int64) {
	inv.ID = several + inv.ID
	if inv.IdempotencyKey != "" {
		inv.IdempotencyKey = inv.ID
	}
	inv.Method = actor.MethodAll
	var calls []actor.Call
	var appends []listappend.Op // known without an answer
	for n := range 2 + plan.rng.Int64N(3) {
		typ, id, _ := strings.Cut(plan.target(), " ")
		call := actor.Call{Key: actor.Key{App: app, Type: typ, ID: id}, Method: "Do"}
		s := script{Chain: number, Steps: []step{{Do: "read"}, {Do: "append", N: n}, {Do: "take", N: 1}}}
		if n == 0 {
			s.Steps = append(s.Steps, step{Do: "take", N: -1}) // what the others take
			inv.Key = call.Key
		}
		appends = append(appends, listappend.Append(nameOfLedger(call.Key), number*elements+n))
		call.Payload.Data = must(json.Marshal(s))
		calls = append(calls, call)
	}
	take := script{Chain: number, Steps: []step{{Do: "take", N: -int64(len(calls) - 1)}}}
	calls = append(calls, actor.Call{Key: inv.Key, Method: "Do", Payload: actor.Payload{Data: must(json.Marshal(take))}})
	inv.Payload.Data = actor.EncodeCalls(calls)
	c := w.newChain(number, inv.ID, inv.Key)
	got := w.attempts(*inv, plan.rng)
	ops := appends
	if got.known {
		ops = nil
		for _, p := range must(actor.DecodePayloads(got.reply.Payload.Data)) {
			ops = append(ops, must(decoded(p.Data)).Ops...)
		}
		w.happened("several calls answered")
	}
	w.concludes(c, got, ops, false)
	c.ops = ops
}

// ledgersSettle checks that soon after the last fault one transaction calls all ledgers of a place,
// through every process, and that no reminder is left.
func (w *world) ledgersSettle(within time.Duration) {
	healed := time.Now()
	w.judge.Lock()
	number := int64(callers*perClient + len(w.chains)) // above all numbers but those of reminders
	w.judge.Unlock()
	for n, place := range w.ledgers.places {
		for _, p := range w.alive() {
			for {
				number++
				key := place[n%len(place)]
				s := script{Chain: number, Steps: w.reads(key, len(place), "Do")}
				inv := actor.Invocation{ID: fmt.Sprint("last-", number), Key: key, Method: "Do", Payload: actor.Payload{Data: must(json.Marshal(s))}}
				c := w.newChain(number, inv.ID, key)
				reply, err := w.ask(p, inv, lease)
				if err == nil {
					w.concludes(c, outcome{known: true}, must(decoded(reply.Payload.Data)).Ops, false)
					break
				}
				if time.Since(healed) > within {
					w.judge.Lock()
					defer w.judge.Unlock()
					w.fail("the ledgers of %v are not called together through %s: %v\n%s", key, p.name, err, w.standing(key))
					return
				}
				<-time.After(lease / 20)
			}
		}
	}
	for len(w.db.due()) > 0 {
		if time.Since(healed) > 2*within {
			w.judge.Lock()
			defer w.judge.Unlock()
			w.fail("reminders stay: %s of %v", w.db.due()[0].Payload.Data, w.db.due()[0].Key)
			return
		}
		<-time.After(lease / 20)
	}
}

// booksAreInOrder checks at the end that some order of all chains explains their reads, and that
// each acknowledged chain has happened once.
func (w *world) booksAreInOrder() {
	w.judge.Lock()
	defer w.judge.Unlock()
	for _, v := range w.db.books.violations {
		w.fail("%s", v)
	}
	committed := w.db.books.committed()
	var history []listappend.Transaction
	since := func(t time.Time) int64 { return int64(t.Sub(w.begun)) }
	for _, number := range slices.Sorted(maps.Keys(w.chains)) {
		c := w.chains[number]
		var happened []int64
		for run := range c.runs {
			if committed[run] {
				happened = append(happened, run)
			}
		}
		t := listappend.Transaction{Name: c.name, Ops: c.ops, Outcome: c.outcome, Begin: since(c.began), End: since(c.ended)}
		switch {
		case len(happened) > 1:
			w.fail("%s has happened %d times", c.name, len(happened))
		case len(happened) == 1 && c.outcome == listappend.Aborted:
			w.fail("%s was refused, and has happened", c.name)
		case len(happened) == 0 && c.outcome == listappend.Committed && len(c.runs) > 0:
			w.fail("%s was acknowledged, and has not happened", c.name)
		case len(happened) == 1 && c.outcome == listappend.Unknown:
			t.Ops = c.runs[happened[0]]
			w.total.add("chain of unknown outcome has happened", 1)
		}
		if c.told && !w.db.books.told[c.number] {
			w.fail("%s was acknowledged, and its ledger does not know of the notice", c.name)
		}
		history = append(history, t)
	}
	for _, a := range listappend.StrictlySerializable(history) {
		w.fail("%s", a)
	}
}

// deliver delivers due reminders, each until one delivery of it has taken effect.
func (w *world) deliver(until func(time.Duration) bool) {
	rng := rand.New(rand.NewPCG(w.seed, 5))
	tried := map[actor.ReminderID]time.Time{}
	for until(lease / 10) {
		for _, r := range w.db.due() {
			last := tried[r.ID]
			if time.Since(last) < lease/2 {
				continue
			}
			f := &actor.Firing{
				Reminder: r.ID, Key: r.Key, Name: r.Name, Method: r.Method, Payload: r.Payload, Due: r.Due, Attempt: 1, Fresh: last.IsZero(),
				Step: actor.ReminderStep{ReminderName: actor.ReminderName{Key: r.Key, Name: r.Name}, ID: r.ID, Version: r.Version},
			}
			tried[r.ID] = time.Now()
			var s script
			if err := json.Unmarshal(r.Payload.Data, &s); err != nil {
				panic(err)
			}
			w.newChain(s.Chain, fmt.Sprint("reminder-", s.Chain), r.Key)
			first, second := rng.IntN(processes), rng.IntN(processes)
			w.running.Go(func() { w.fires(f, first) })
			if again := *f; rng.IntN(4) == 0 {
				again.Fresh = false
				w.running.Go(func() { w.fires(&again, second) })
			}
		}
	}
}

// fires delivers a reminder once.
func (w *world) fires(f *actor.Firing, n int) {
	inv := actor.Invocation{ID: fmt.Sprint("firing-", f.Reminder.Token), Key: f.Key, Method: f.Method, Payload: f.Payload, Firing: f}
	switch got := w.attempt(inv, n); {
	case got.err == nil:
		w.happened("reminder delivered")
	case errors.Is(got.err, actor.ErrFiringTaken):
		w.happened("reminder delivered before")
	}
}
