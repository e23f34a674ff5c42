package sim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
)

// TestLateCommitOfChain freezes a process between the reads of a chain and its commit. Meanwhile a
// chain of another process reads what the first one changes, and changes what it has read: a write
// skew, unless the late commit is refused. The test notices a missing fence of what was read.
func TestLateCommitOfChain(t *testing.T) {
	for name, s := range map[string]sabotage{"fenced": {}, "no fence of what was read": {readFence: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { lateCommitOfChain(t, s) })
		})
	}
}

func lateCommitOfChain(t *testing.T, s sabotage) {
	w := newWorld(t, 1, s, new(counts))
	w.calm()
	w.ledgers = newLedgers(rand.New(rand.NewPCG(1, 1)))
	w.ledgers.types[0].policies = []string{abi.PlacementRing}
	w.counters, w.types, w.known = nil, w.ledgers.types, map[actor.Key]*knowledge{}
	for n := range processes {
		w.start(n)
	}
	w.ledgersSettle(20 * lease)
	first, second := w.ledgers.places[0][0], w.ledgers.places[0][1]
	holders := w.holders(first)
	if len(holders) != 1 {
		t.Fatalf("%d processes hold %v", len(holders), first)
	}
	frozen := holders[0]
	// changes reads one ledger and appends to another in one chain, and reports whether it was answered.
	changes := func(p *process, number int64, own, other actor.Key) bool {
		s := script{Chain: number, Steps: []step{
			{Do: "call", To: nameOfLedger(other), Method: "See", Steps: []step{{Do: "read"}}}, {Do: "wait", N: 200}, {Do: "append"},
		}}
		inv := actor.Invocation{ID: fmt.Sprint("late-", number), Key: own, Method: "Do", Payload: actor.Payload{Data: must(json.Marshal(s))}}
		c := w.newChain(number, inv.ID, own)
		reply, err := w.ask(p, inv, 4*lease)
		got := outcome{known: err == nil, unknown: true}
		var ops did
		if got.known {
			ops = must(decoded(reply.Payload.Data))
		}
		w.concludes(c, got, ops.Ops, false)
		return got.known
	}
	var late sync.WaitGroup
	late.Go(func() { changes(frozen, 1, first, second) })
	<-time.After(lease / 10)
	frozen.frozen.close()
	w.net.changed()
	<-time.After(lease)
	var other *process
	for _, p := range w.alive() {
		if p != frozen {
			other = p
		}
	}
	number := int64(2)
	for ; !changes(other, number, second, first); number++ {
		if number > 20 {
			t.Fatalf("no process takes over %v", second)
		}
	}
	frozen.frozen.open()
	w.net.thawed(frozen)
	late.Wait()
	w.ledgersSettle(20 * lease)
	w.booksAreInOrder()
	if noticed := len(w.violations) > 0; noticed != s.readFence {
		t.Errorf("found %v", w.violations)
	}
	t.Log(w.violations)
	for _, p := range w.alive() {
		p.crash(false)
	}
	w.running.Wait()
	<-time.After(10 * lease)
}
