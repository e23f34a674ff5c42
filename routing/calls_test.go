package routing_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/greenroom-run/greenroom/actor"
)

// TestCallsOfActors arrive with the turn that calls, and their failures come back as what they
// were. A host that does not know of such calls is sent none.
func TestCallsOfActors(t *testing.T) {
	table, a, b := pair(t, setup{})
	inv := call("b")
	inv.IdempotencyKey = "k"
	inv.Origin = &actor.Origin{From: actor.Key{App: "default", Type: "T", ID: "a"}, Chain: "c", Depth: 2, Fuel: 7}
	if _, err := a.router.Invoke(t.Context(), inv); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(inv.Origin, b.host.seen().Origin); diff != "" {
		t.Error(diff)
	}
	for _, want := range []error{
		&actor.GuestError{Status: 8, Code: "sold_out", Message: "nothing is left", Detail: actor.Payload{ContentType: "text/plain", Data: []byte("x")}, Retryable: true, RetryAfter: 2 * time.Second},
		&actor.TrapError{Kind: actor.TrapStack, Message: "endless"},
	} {
		b.host.set(func(context.Context, actor.Invocation) (actor.Reply, error) {
			return actor.Reply{}, &actor.TurnError{Key: inv.Key, Method: "M", Err: want}
		})
		_, err := a.router.Invoke(t.Context(), inv)
		var guest *actor.GuestError
		var trap *actor.TrapError
		switch {
		case errors.As(err, &guest):
			err = guest
		case errors.As(err, &trap):
			err = trap
		}
		if diff := cmp.Diff(want, err); diff != "" {
			t.Error(diff)
		}
	}
	old := table.join(t, "host-old", setup{})
	table.update(func() { table.owners["old"], table.speaks[old.id] = old.id, 4 })
	inv.Key.ID = "old"
	_, err := a.router.Invoke(t.Context(), inv)
	if !errors.Is(err, actor.ErrNoOwner) || !strings.Contains(err.Error(), "upgrade") || old.host.turns.Load() != 0 {
		t.Errorf("%v, after %d turns", err, old.host.turns.Load())
	}
}

// TestLocate finds the host of an actor, and waits until it is known.
func TestLocate(t *testing.T) {
	table, a, b := pair(t, setup{})
	for id, want := range map[string]actor.HostID{"a": a.id, "b": b.id} {
		if holder, self, err := a.router.Locate(t.Context(), call(id).Key); holder != want || self != a.id || err != nil {
			t.Errorf("%s, %s, %v", holder, self, err)
		}
	}
	found := make(chan actor.HostID)
	go func() {
		holder, _, err := a.router.Locate(t.Context(), call("c").Key)
		if err != nil {
			t.Error(err)
		}
		found <- holder
	}()
	eventually(t, "it waits", func() bool { n, _ := a.router.Waiting(); return n == 1 })
	table.update(func() { table.owners["c"] = b.id })
	if holder := <-found; holder != b.id {
		t.Error(holder)
	}
	table.update(func() { table.away["d"], table.lost[b.id] = "n7", true })
	if _, _, err := a.router.Locate(t.Context(), call("d").Key); !errors.Is(err, actor.ErrNoOwner) {
		t.Error(err)
	}
	if _, _, err := b.router.Locate(t.Context(), call("a").Key); !errors.Is(err, actor.ErrUnavailable) {
		t.Error(err)
	}
}
