package routing_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/server"
)

// mailboxes are those of one host: what was asked to be cancelled, and what was.
type mailboxes struct {
	asked     actor.Key
	cancelled host.Cancelled
}

func (m *mailboxes) CancelQueued(of actor.Key) host.Cancelled {
	m.asked = of
	return m.cancelled
}

// TestCancelQueuedElsewhere: the host that is asked answers with all that it has cancelled, and with the messages whose
// turns run there; a host that has no mailboxes, or is no member, answers with an error.
func TestCancelQueuedElsewhere(t *testing.T) {
	tb := newTable()
	a := tb.join(t, "host-a", setup{})
	id := func(token uint32) actor.ReminderID {
		return actor.ReminderID{Prefix: 7, Token: token, Vector: actor.Vector{'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'}}
	}
	boxes := &mailboxes{cancelled: host.Cancelled{Calls: 3, Tells: 2, Begun: []actor.ReminderID{id(1), id(2)}}}
	b := tb.join(t, "host-b", setup{server: func(c *server.Config) { c.Queues = boxes }})
	for _, of := range []actor.Key{{App: "shop", Type: "T", ID: "x"}, {App: "shop", Type: "T"}} {
		got, err := a.router.CancelQueued(t.Context(), b.id, of)
		if want := boxes.cancelled; err != nil || got.Calls != want.Calls || got.Tells != want.Tells || !slices.Equal(got.Begun, want.Begun) || boxes.asked != of {
			t.Errorf("%+v, %v, of %v", got, err, boxes.asked)
		}
	}
	if got, err := b.router.CancelQueued(t.Context(), a.id, actor.Key{App: "shop", Type: "T"}); err == nil {
		t.Errorf("a host without mailboxes has cancelled %+v", got)
	}
	if _, err := a.router.CancelQueued(t.Context(), "host-c", actor.Key{App: "shop", Type: "T"}); !errors.Is(err, actor.ErrUnavailable) {
		t.Errorf("a host that is no member: %v", err)
	}
}
