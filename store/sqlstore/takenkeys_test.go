package sqlstore_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store/sqlstore"
	"github.com/greenroom-run/greenroom/store/sqlstore/internal/pgproxy"
)

// groups counts the groups that a store sends.
type groups struct{ n atomic.Int64 }

func (g *groups) watch(p *pgproxy.Proxy) {
	p.Random(0, func(_ *rand.Rand, u pgproxy.Unit) *pgproxy.Fault {
		if strings.Contains(u.SQL, writeStatement) {
			g.n.Add(1)
		}
		return nil
	})
}

// sent checks what was sent since it was called last.
func (g *groups) sent(b *broken, want int64) {
	b.Helper()
	if n := g.n.Swap(0); n != want {
		b.Errorf("%d groups were sent, want %d", n, want)
	}
}

// TestRepeatedKeys sends groups in which one key is taken: it is refused alone, at
// once, however often it is repeated.
func TestRepeatedKeys(t *testing.T) {
	b := behindProxy(t, sqlstore.Config{})
	var sent groups
	sent.watch(b.proxy)
	row := func(id string) actor.Row { return b.load(key(id)) }
	taken := keyed(write(key("taken"), b.stored("taken"), `{"n":2}`), "k")
	if err := b.around.Commit(t.Context(), []actor.Commit{taken})[0]; err != nil {
		t.Fatal(err)
	}
	const neighbours = 20
	for i := range neighbours {
		b.stored(fmt.Sprint(i))
	}
	for round := range 4 {
		var commits []actor.Commit
		for i := range neighbours {
			commits = append(commits, keyed(write(key(fmt.Sprint(i)), row(fmt.Sprint(i)), `{"n":2}`), fmt.Sprint("k", round), fmt.Sprint("l", round)))
		}
		if round > 0 {
			second := keyed(write(taken.Anchor().Key, row("taken"), `{"n":3}`), "k")
			if round == 3 { // not as the first of its commit
				second.Records = nil
				second = keyed(second, "new", "k")
			}
			commits = append(commits, second)
		}
		errs := b.s.Commit(t.Context(), commits)
		for i, c := range commits[:neighbours] {
			b.is(c.Anchor().Key.ID, errs[i], nil)
			b.became(c, true)
			b.recorded(c, true)
		}
		if round > 0 {
			b.is("a taken key", errs[neighbours], actor.ErrKeyExists)
			b.became(taken, true)
			b.recorded(taken, true)
		}
		sent.sent(b, 1)
	}
	if found, err := b.around.LoadIdempotency(t.Context(), []actor.KeyedCall{{Actor: taken.Anchor().Key, Method: "Add", Key: "new"}}); err != nil || found[0].Found {
		t.Errorf("a refused commit left a record: %+v, %v", found, err)
	}
}

// TestExpiredRecordInPlace puts a record in the place of one that has expired and
// was not swept, which takes the group a second time; it is swept once.
func TestExpiredRecordInPlace(t *testing.T) {
	b := behindProxy(t, sqlstore.Config{})
	var sent groups
	sent.watch(b.proxy)
	old := keyed(write(key("a"), b.stored("a"), `{"n":2}`), "k")
	old.Records[0].TTL = time.Microsecond
	b.is("brief", b.s.Commit(t.Context(), []actor.Commit{old})[0], nil)
	sent.sent(b, 1)
	for there := true; there; {
		found, err := b.around.LoadIdempotency(t.Context(), []actor.KeyedCall{{Actor: old.Anchor().Key, Method: "Add", Key: "k"}})
		if err != nil {
			t.Fatal(err)
		}
		there = found[0].Found
	}
	again := keyed(write(key("a"), b.load(key("a")), `{"n":3}`), "k")
	again.Records[0].TTL = time.Microsecond
	b.is("in its place", b.s.Commit(t.Context(), []actor.Commit{again})[0], nil)
	sent.sent(b, 2)
	b.became(again, true)
	swept := 0
	for swept == 0 { // until the second has expired
		n, err := b.around.SweepIdempotency(t.Context(), 100)
		if err != nil {
			t.Fatal(err)
		}
		swept += n
	}
	n, err := b.around.SweepIdempotency(t.Context(), 100)
	if swept += n; swept != 1 || err != nil {
		t.Errorf("%d records were swept, %v; want 1", swept, err)
	}
}

// TestLostCommitWhoseKeyIsTaken settles a commit that never arrived: it is told
// that its key is taken, as it would have been had it arrived.
func TestLostCommitWhoseKeyIsTaken(t *testing.T) {
	b := behindProxy(t, sqlstore.Config{})
	taken := keyed(write(key("a"), b.stored("a"), `{"n":2}`), "k")
	b.is("first", b.s.Commit(t.Context(), []actor.Commit{taken})[0], nil)
	row := b.load(taken.Anchor().Key)
	b.proxy.Plan(t, pgproxy.Fault{On: writeStatement, Do: pgproxy.Lose})
	second := keyed(write(taken.Anchor().Key, row, `{"n":3}`), "k")
	b.is("second, lost", b.s.Commit(t.Context(), []actor.Commit{second})[0], actor.ErrKeyExists)
	b.recorded(taken, true)
	b.recorded(second, false)
}
