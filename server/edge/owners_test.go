package edge

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"testing"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/fair"
)

// TestEachRequestCountsForItsOwner: bytes of requests that need no token, and of other hosts, count
// for owners that no app is, those of callers for their app; and an app that has all that it can
// take leaves a part to each of the others.
func TestEachRequestCountsForItsOwner(t *testing.T) {
	e, err := New(Config{MaxRequestsBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	for e.Requests.Bodies.Take("loud", 64<<10) == nil {
	}
	const n = 32 << 10
	for owner, x := range map[string]*Exchange{
		ownerOpen: {Route: &Route{Open: true}},
		ownerPeer: {Route: &Route{Peer: true}, Caller: Caller{Name: "admin", role: RoleAdmin}},
		"mine":    {Route: &Route{}, Caller: Caller{Name: "mine", role: RoleInvoke, app: "mine"}},
		"named":   {Route: &Route{}, Caller: Caller{Name: "admin", role: RoleAdmin}, requestUse: requestUse{app: "named"}},
		"":        {Route: &Route{}, Caller: Caller{Name: "admin", role: RoleAdmin}},
	} {
		x.Edge = e
		if err := x.CountBody(n); err != nil {
			t.Errorf("%q is refused because of another app: %v", owner, err)
		}
		written := x.writing(make([]byte, n))
		if bodies, answers := e.Requests.Bodies.Has(owner), e.Requests.Answers.Has(owner); bodies != n || answers != n {
			t.Errorf("%q has %d bytes of bodies and %d of answers, want %d each", owner, bodies, answers, n)
		}
		written()
		x.ReleaseBody()
		if bodies, answers := e.Requests.Bodies.Has(owner), e.Requests.Answers.Has(owner); bodies != 0 || answers != 0 {
			t.Errorf("%q keeps %d bytes of bodies and %d of answers", owner, bodies, answers)
		}
		if actor.ValidateName("app", owner) == nil && x.Route.Open {
			t.Errorf("an app may be named %q", owner)
		}
	}
	if err := (&Exchange{Edge: e, Route: &Route{}, Caller: Caller{app: "loud"}}).CountBody(n); err == nil {
		t.Error("the app that has its share gets more")
	}
}

// TestUnpackedMessagesHaveAnOwner: what is unpacked of messages counts for an owner of its own,
// whose share no app can take.
func TestUnpackedMessagesHaveAnOwner(t *testing.T) {
	e, err := New(Config{MaxRequestsBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	for e.Requests.Bodies.Take("loud", 64<<10) == nil {
	}
	const n = 32 << 10
	var packed bytes.Buffer
	zw := gzip.NewWriter(&packed)
	if _, err := zw.Write(make([]byte, n)); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	d := e.NewBoundedGzip(n, ErrPayloadTooLarge(n))()
	if err := d.Reset(&packed); err != nil {
		t.Fatal(err)
	}
	if got, err := io.Copy(io.Discard, d); got != n || err != nil {
		t.Errorf("unpacked %d of %d bytes: %v", got, n, err)
	}
	if has := e.Requests.Bodies.Has(ownerGzip); has != n {
		t.Errorf("%d bytes count for messages that are unpacked, want %d", has, n)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if has := e.Requests.Bodies.Has(ownerGzip); has != 0 {
		t.Errorf("%d bytes are still counted", has)
	}
}

// TestBytesOfInventedAppsAreBounded: callers of all apps may name any app, and each app may always have
// a part; all together have twice the bound at most.
func TestBytesOfInventedAppsAreBounded(t *testing.T) {
	var u requestsUse
	u.init(Config{MaxRequestsBytes: 6400})
	for _, account := range []*fair.Account{u.Bodies, u.Answers} {
		_ = account.Take("loud", 5600)
		for i := range 1000 {
			_ = account.Take(fmt.Sprint("invented", i), 100)
		}
		if used := account.Used(); used < 6400 || used > 2*6400 {
			t.Errorf("%d bytes are taken, where 6400 are for all", used)
		}
	}
}
