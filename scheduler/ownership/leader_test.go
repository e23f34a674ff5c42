package ownership

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

const lease = 3 * time.Second

func cart(id string) actor.Key { return actor.Key{App: "a", Type: "Cart", ID: id} }

// granting returns a leader of epoch 5 that knows the hosts and their claims.
func granting(t *testing.T, hosts ...placement.HostID) *Leader {
	t.Helper()
	l := NewLeader(5, 0, lease)
	l.Registered(hosts)
	for _, h := range hosts {
		claims(t, l, protocol.Session{Host: h, Number: 1, Epoch: 5})
	}
	if !l.Granting(0) {
		t.Fatalf("does not grant; missing %v", l.Missing())
	}
	return l
}

func claims(t *testing.T, l *Leader, s protocol.Session, keys ...actor.Key) {
	t.Helper()
	if !l.Begin(s) {
		t.Fatalf("session %v is refused", s)
	}
	if refused, ok := l.Claimed(s, keys); !ok || len(refused) > 0 {
		t.Fatalf("claims of %v: %t, refused %v", s, ok, refused)
	}
}

func acquires(t *testing.T, l *Leader, s protocol.Session, id string, want Answer) {
	t.Helper()
	if got, ok := l.Acquire(0, s, cart(id)); !ok || got != want {
		t.Errorf("%s acquires %s: %+v (%t), want %+v", s.Host, id, got, ok, want)
	}
}

func TestLeaderGrantsOnce(t *testing.T) {
	l := granting(t, "a", "b")
	a, b := protocol.Session{Host: "a", Number: 1, Epoch: 5}, protocol.Session{Host: "b", Number: 1, Epoch: 5}
	acquires(t, l, a, "x", Answer{true, "a"})
	acquires(t, l, a, "x", Answer{true, "a"}) // its answer was lost
	acquires(t, l, b, "x", Answer{false, "a"})
	l.Release(b, cart("x")) // not its own
	acquires(t, l, b, "x", Answer{false, "a"})
	l.Release(a, cart("x"))
	acquires(t, l, b, "x", Answer{true, "b"})
	if got := l.Owned(); len(got) != 1 || got["b"] != 1 {
		t.Errorf("owned: %v", got)
	}
}

// TestLeaderGathers: nothing is granted before every registered host has claimed or is
// cleared, and what was claimed stays with its owner.
func TestLeaderGathers(t *testing.T) {
	l := NewLeader(5, 0, lease)
	a := protocol.Session{Host: "a", Number: 7, Epoch: 5}
	claims(t, l, a, cart("mine"))
	acquires(t, l, a, "x", Answer{})
	l.Registered([]placement.HostID{"a", "b", "c"})
	acquires(t, l, a, "x", Answer{})
	if got := l.Missing(); !slices.Equal(got, []placement.HostID{"b", "c"}) {
		t.Errorf("missing: %v", got)
	}
	l.Cleared("b")
	l.Cleared("b")
	acquires(t, l, a, "x", Answer{})
	c := protocol.Session{Host: "c", Number: 1, Epoch: 5}
	claims(t, l, c)
	acquires(t, l, c, "mine", Answer{false, "a"})
	acquires(t, l, a, "x", Answer{true, "a"})
	l.Registered([]placement.HostID{"d"}) // later ones are not awaited
	acquires(t, l, a, "y", Answer{true, "a"})
}

func TestLeaderStops(t *testing.T) {
	l := granting(t, "a")
	a := protocol.Session{Host: "a", Number: 1, Epoch: 5}
	end := clock.Usable(lease)
	if got, _ := l.Acquire(end, a, cart("x")); got != (Answer{}) {
		t.Errorf("after its own count it answers %+v", got)
	}
	l.Renewed(end, lease)
	if got, _ := l.Acquire(end, a, cart("x")); !got.Granted {
		t.Errorf("renewed it answers %+v", got)
	}
}

// TestLeaderIgnoresOldSessions: what a broken stream still delivers changes nothing.
func TestLeaderIgnoresOldSessions(t *testing.T) {
	l := granting(t, "a", "b")
	first, second := protocol.Session{Host: "a", Number: 1, Epoch: 5}, protocol.Session{Host: "a", Number: 2, Epoch: 5}
	acquires(t, l, first, "kept", Answer{true, "a"})
	acquires(t, l, first, "lost", Answer{true, "a"})
	if !l.Begin(second) || l.Begin(first) || l.Begin(second) || l.Begin(protocol.Session{Host: "a", Number: 3, Epoch: 4}) {
		t.Error("sessions are not taken in order, of this epoch alone")
	}
	if _, ok := l.Acquire(0, second, cart("early")); ok {
		t.Error("an acquisition before the claims is answered")
	}
	if _, ok := l.Acquire(0, first, cart("late")); ok {
		t.Error("an acquisition of an old session is answered")
	}
	if _, ok := l.Claimed(first, nil); ok {
		t.Error("claims of an old session are taken")
	}
	if _, ok := l.Claimed(second, []actor.Key{cart("kept"), cart("kept")}); !ok {
		t.Error("claims are refused")
	}
	if _, ok := l.Claimed(second, nil); ok {
		t.Error("a session claims twice")
	}
	l.Release(first, cart("kept"))
	b := protocol.Session{Host: "b", Number: 1, Epoch: 5}
	acquires(t, l, b, "kept", Answer{false, "a"})
	acquires(t, l, b, "lost", Answer{true, "b"})
}

// TestLeaderForgetsTheCleared: a host that is cleared owns nothing, whatever arrives
// from it.
func TestLeaderForgetsTheCleared(t *testing.T) {
	l := granting(t, "a", "b")
	a, b := protocol.Session{Host: "a", Number: 1, Epoch: 5}, protocol.Session{Host: "b", Number: 1, Epoch: 5}
	acquires(t, l, a, "x", Answer{true, "a"})
	l.Cleared("a")
	if _, ok := l.Acquire(0, a, cart("y")); ok {
		t.Error("a cleared host acquires")
	}
	if l.Begin(protocol.Session{Host: "a", Number: 2, Epoch: 5}) {
		t.Error("a cleared host begins a session")
	}
	acquires(t, l, b, "x", Answer{true, "b"})
}

// TestLeaderRefusesSecondClaims: of two hosts that claim an actor, which the protocol
// excludes, the first keeps it and the second is told.
func TestLeaderRefusesSecondClaims(t *testing.T) {
	l := NewLeader(5, 0, lease)
	claims(t, l, protocol.Session{Host: "a", Number: 1, Epoch: 5}, cart("x"))
	b := protocol.Session{Host: "b", Number: 1, Epoch: 5}
	l.Begin(b)
	refused, ok := l.Claimed(b, []actor.Key{cart("x"), cart("y")})
	if !ok || len(refused) != 1 || refused[0] != cart("x") || l.Owner(cart("x")) != "a" || l.Owner(cart("y")) != "b" {
		t.Errorf("refused %v; x belongs to %s, y to %s", refused, l.Owner(cart("x")), l.Owner(cart("y")))
	}
}

// TestLeaderSweeps: entries of hosts that are gone do not stay.
func TestLeaderSweeps(t *testing.T) {
	const n = 3 * minVoid
	l := granting(t, "a", "b")
	for i := range n {
		l.Acquire(0, protocol.Session{Host: "a", Number: 1, Epoch: 5}, cart(fmt.Sprint("a", i)))
	}
	acquires(t, l, protocol.Session{Host: "b", Number: 1, Epoch: 5}, "b", Answer{true, "b"})
	l.Cleared("a")
	if all, void := l.Entries(); all != 1 || void != 0 {
		t.Errorf("%d entries, %d void", all, void)
	}
	acquires(t, l, protocol.Session{Host: "b", Number: 1, Epoch: 5}, "b", Answer{true, "b"})
}

func TestMemberTakesGrantsItAskedFor(t *testing.T) {
	m := NewMember("a")
	m.Renewed(0, lease)
	if _, ok := m.Ask(cart("x")); ok {
		t.Error("asks without a session")
	}
	first, keys, ok := m.Connect(5)
	if !ok || len(keys) != 0 || first != (protocol.Session{Host: "a", Number: 1, Epoch: 5}) {
		t.Fatalf("session %v, claims %v, %t", first, keys, ok)
	}
	if m.Granted(first, cart("x"), 0) {
		t.Error("takes what it did not ask for")
	}
	m.Ask(cart("x"))
	if _, again := m.Ask(cart("x")); again {
		t.Error("asks twice")
	}
	second, _, _ := m.Connect(5)
	if m.Granted(first, cart("x"), 0) || m.Granted(second, cart("x"), 0) {
		t.Error("takes a grant of an earlier session")
	}
	m.Ask(cart("x"))
	if !m.Granted(second, cart("x"), 0) || !m.MayRun(cart("x"), 0) || m.MayRun(cart("y"), 0) {
		t.Error("does not own what it was granted")
	}
	if _, _, older := m.Connect(4); older {
		t.Error("connects to an older leader")
	}
	if s, keys, ok := m.Connect(6); !ok || s.Number != 3 || !slices.Equal(keys, []actor.Key{cart("x")}) {
		t.Errorf("session %v, claims %v, %t", s, keys, ok)
	}
}

// TestMemberPauses: a host whose count has run out runs nothing, and goes on when its
// row turns out to be there; once the row is gone it owns nothing for ever.
func TestMemberPauses(t *testing.T) {
	m := NewMember("a")
	m.Renewed(0, lease)
	s, _, _ := m.Connect(5)
	m.Ask(cart("x"))
	m.Granted(s, cart("x"), 0)
	end := clock.Usable(lease)
	if !m.MayRun(cart("x"), end-1) || m.MayRun(cart("x"), end) {
		t.Error("its count does not end where it should")
	}
	m.Renewed(end+5, lease)
	m.Renewed(end, lease) // an answer that was overtaken
	if !m.MayRun(cart("x"), end+5+clock.Usable(lease)-1) {
		t.Error("does not go on when renewed")
	}
	if lost := m.End(); len(lost) != 1 || m.MayRun(cart("x"), end+6) {
		t.Errorf("ended, it had %v", lost)
	}
	m.Renewed(end+7, lease)
	if _, _, ok := m.Connect(9); ok || m.Current(end+8) {
		t.Error("an ended host goes on")
	}
}

// BenchmarkLeader prints what an entry takes and how fast one is acquired: a leader
// must hold a million at 100 B each and grant 50,000 a second.
func BenchmarkLeader(b *testing.B) {
	const entries = 1_000_000
	ids := make([]actor.Key, entries)
	for i := range ids {
		ids[i] = cart(fmt.Sprintf("customer-%08d", i))
	}
	for b.Loop() {
		l := NewLeader(1, 0, lease)
		l.Registered(nil)
		s := protocol.Session{Host: "a", Number: 1, Epoch: 1}
		l.Begin(s)
		l.Claimed(s, nil)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		start := time.Now()
		for _, key := range ids {
			l.Acquire(0, s, key)
		}
		took := time.Since(start)
		runtime.GC()
		runtime.ReadMemStats(&after)
		// The IDs themselves are the benchmark's; a leader owns a copy of each.
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/entries+float64(len(ids[0].ID)), "B/entry")
		b.ReportMetric(entries/took.Seconds(), "grants/s")
		runtime.KeepAlive(l)
	}
}
