package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// knowledge is what callers know of an actor, which counts.
type knowledge struct {
	answered map[int64]string // by count: the call that was answered it, of those that add
	unknown  int64            // calls that add of which nobody knows
	highest  []answered       // each higher than those before
	adds     []span           // that were answered
	deletes  []*span
}

// span is when something was under way; over is zero if nobody knows.
type span struct{ began, over time.Time }

// mayBeGone reports whether who asked at one time, and was answered at another, may be
// told that there is no such actor: it was deleted, and not made anew before.
func (k *knowledge) mayBeGone(asked, answered time.Time) bool {
	var gone time.Time // not after this
	found := false
	for _, d := range k.deletes {
		switch {
		case d.began.After(answered):
		case d.over.IsZero():
			return true
		default:
			if found = true; d.over.After(gone) {
				gone = d.over
			}
		}
	}
	for _, a := range k.adds {
		if a.began.After(gone) && a.over.Before(asked) {
			return false
		}
	}
	return found
}

// lifetime is how high an actor counts that is deleted now and then, in one life.
const lifetime = 10_000

// lifeAt is where an actor begins to count that is made at a time: above all that it
// counted before it was deleted.
func (w *world) lifeAt(t time.Time) int64 { return t.Sub(w.begun).Milliseconds() * lifetime }

type answered struct {
	at time.Time
	n  int64
}

func newKnowledge() *knowledge { return &knowledge{answered: map[int64]string{}} }

// before returns the highest count that was answered before a time.
func (k *knowledge) before(t time.Time) int64 {
	for _, a := range slices.Backward(k.highest) {
		if !a.at.After(t) {
			return a.n
		}
	}
	return 0
}

func (k *knowledge) learn(n int64) {
	if len(k.highest) == 0 || n > k.highest[len(k.highest)-1].n {
		k.highest = append(k.highest, answered{time.Now(), n})
	}
}

// valueOf is the count in a reply: that of an actor that is not there is 0.
func valueOf(r actor.Reply, err error) (int64, bool) {
	if errors.Is(err, actor.ErrActorNotFound) {
		return 0, true
	}
	n, parseErr := strconv.ParseInt(string(r.Payload.Data), 10, 64)
	return n, err == nil && parseErr == nil
}

// client calls, one call at a time, as long as faults happen.
func (w *world) client(number int) {
	rng := rand.New(rand.NewPCG(w.seed, uint64(10+number))) //nolint:gosec // small
	seen := map[actor.Key]int64{}
	for call := 0; until(w.faults, time.Duration(rng.Int64N(int64(lease/5)))); call++ {
		if w.ledgers != nil && rng.IntN(2) == 0 {
			w.chain(rng, int64(number), int64(call))
			continue
		}
		inv := actor.Invocation{
			ID:     fmt.Sprintf("c%d-%d", number, call),
			Method: []string{"Add", "Add", "Touch", "Read", "Read"}[rng.IntN(5)],
		}
		typ := w.counters[rng.IntN(len(w.counters))]
		inv.Key = keyOf(typ.name, rng.IntN(typ.actors))
		if typ.stateless() {
			inv.Payload.Data = strconv.AppendInt(nil, rng.Int64N(1e9), 10)
		}
		switch {
		case typ.deletes && rng.IntN(6) == 0:
			w.deletes(inv.Key, rng.IntN(processes))
			continue
		case inv.Method == "Read":
			inv.ReadOnly = true
			if rng.IntN(3) == 0 {
				inv.Consistency = actor.ConsistencyStrong
			}
		case inv.Method == "Add" && rng.IntN(2) == 0:
			inv.IdempotencyKey = inv.ID
		}
		w.call(inv, seen, rng)
		if inv.ReadOnly && typ.hasReaders() { // one after the other, wherever it is answered
			for n := range 4 {
				inv.ID = fmt.Sprintf("c%d-%d-%d", number, call, n)
				w.call(inv, seen, rng)
			}
		}
	}
}

// outcome is what the attempts of a call came to.
type outcome struct {
	reply   actor.Reply
	err     error
	known   bool // reply is the answer, or that there is no such actor
	unknown bool // an attempt may have taken effect
}

// attempts makes a call. A call with an idempotency key is repeated while its outcome is unknown,
// and now and then sent twice at once.
func (w *world) attempts(inv actor.Invocation, rng *rand.Rand) outcome {
	if inv.IdempotencyKey == "" {
		return w.attempt(inv, rng.IntN(processes))
	}
	var got, twin outcome
	var twins sync.WaitGroup
	if rng.IntN(4) == 0 {
		w.happened("call sent twice")
		other := rng.IntN(processes)
		twins.Go(func() { twin = w.attempt(inv, other) })
	}
	unknown := false
	for tries := 0; tries < 4 && !got.known; tries++ {
		if tries > 0 {
			w.happened("call with a key sent again")
		}
		got = w.attempt(inv, rng.IntN(processes))
		unknown = unknown || got.unknown
	}
	twins.Wait()
	if twin.known && got.known && !bytes.Equal(twin.reply.Payload.Data, got.reply.Payload.Data) {
		w.judge.Lock()
		w.fail("%s, %s of %v with a key, answers both %s and %s", inv.ID, inv.Method, inv.Key, twin.reply.Payload.Data, got.reply.Payload.Data)
		w.judge.Unlock()
	}
	if !got.known {
		got = twin
	}
	got.unknown = unknown || twin.unknown
	return got
}

// call makes a call, and judges its answer.
func (w *world) call(inv actor.Invocation, seen map[actor.Key]int64, rng *rand.Rand) {
	began := time.Now()
	outcome := w.attempts(inv, rng)
	n, known := valueOf(outcome.reply, outcome.err)
	w.judge.Lock()
	defer w.judge.Unlock()
	k := w.known[inv.Key]
	adds := inv.Method == "Add"
	if !known {
		if adds && outcome.unknown {
			k.unknown++
			w.total.add("unknown outcome", 1)
		}
		return
	}
	w.total.add("answered", 1)
	typ := w.typeOf(inv.Key)
	if typ.stateless() {
		if sent, _ := strconv.ParseInt(string(inv.Payload.Data), 10, 64); n != sent {
			w.fail("%s of %v is answered %d, and sent %d", inv.ID, inv.Key, n, sent)
		}
		return
	}
	since := began
	if !adds && inv.Consistency != actor.ConsistencyStrong {
		since = began.Add(-actor.MaxReadAge)
	}
	least := k.before(since)
	if typ.deletes && !adds && n == 0 {
		if least != 0 && !k.mayBeGone(since, time.Now()) {
			w.fail("%s, %s of %v (%v), answers that there is none, after %d", inv.ID, inv.Method, inv.Key, inv.Consistency, least)
		}
		return
	}
	switch {
	case adds && k.answered[n] != "":
		w.fail("%s, Add of %v, answers %d, as %s did", inv.ID, inv.Key, n, k.answered[n])
	case adds && n <= least, n < least:
		w.fail("%s, %s of %v (%v), answers %d, after %d", inv.ID, inv.Method, inv.Key, inv.Consistency, n, least)
	case n < seen[inv.Key]:
		w.fail("%s, %s of %v: its caller is shown %d after %d", inv.ID, inv.Method, inv.Key, n, seen[inv.Key])
	}
	seen[inv.Key] = n
	k.learn(n)
	if adds {
		k.answered[n] = inv.ID
		k.adds = append(k.adds, span{began, time.Now()})
	}
}

// deletes deletes an actor, through a process.
func (w *world) deletes(key actor.Key, n int) {
	p := w.processAt(n)
	if p == nil || !p.alive() {
		<-time.After(lease / 16)
		return
	}
	d := &span{began: time.Now()}
	w.judge.Lock()
	k := w.known[key]
	k.deletes = append(k.deletes, d)
	w.judge.Unlock()
	err := w.through(p, w.noiseOf(fmt.Sprint("delete ", key, " ", p.life, " ", d.began.Sub(w.begun))), 3*lease, func(ctx context.Context) error { return p.router.Delete(ctx, key) })
	w.note("delete %v at %s: %v", key, p.name, err)
	w.judge.Lock()
	defer w.judge.Unlock()
	switch {
	case err == nil:
		w.total.add("deleted", 1)
		d.over = time.Now()
		k.learn(w.lifeAt(d.began)) // what is shown from now on was made later
	case errors.Is(err, errUnsent), errors.Is(err, actor.ErrActorNotFound):
		k.deletes = slices.DeleteFunc(k.deletes, func(other *span) bool { return other == d })
	default:
		w.total.add("not deleted: "+kindOf(err), 1)
	}
}

// attempt sends a call to a process, if that is alive.
func (w *world) attempt(inv actor.Invocation, n int) outcome {
	w.mu.Lock()
	p := w.processes[n]
	w.mu.Unlock()
	if p == nil || !p.alive() {
		<-time.After(lease / 16)
		return outcome{err: errUnsent}
	}
	reply, err := w.ask(p, inv, 3*lease)
	if w.note("%s %s of %v at %s: %s %v", inv.ID, inv.Method, inv.Key, p.name, reply.Payload.Data, err); err != nil {
		w.total.add("refused: "+kindOf(err), 1)
	}
	return outcome{
		reply: reply, err: err, known: err == nil || errors.Is(err, actor.ErrActorNotFound),
		unknown: errors.Is(err, errLost) || errors.Is(err, actor.ErrAmbiguous),
	}
}
