package events

import (
	"errors"
	"testing"

	"github.com/greenroom-run/greenroom/actor"
)

// TestEndedSubscriptionsLeaveTheirPlaces: however many subscriptions have ended, and in which way, others find a place.
func TestEndedSubscriptionsLeaveTheirPlaces(t *testing.T) {
	p := &pages{events: []actor.Event{{Position: actor.EventPosition{Version: 1}}}}
	s := New(t.Context(), p, 4)
	broken := errors.New("the client is gone")
	for i := range 20 {
		to := Subscription{
			KeptOnly: i%2 == 0,
			Began:    func(actor.EventPosition) error { return nil },
			Deliver:  func([]actor.Event) error { return nil },
			Idle:     func() error { return nil },
		}
		if i%3 == 0 {
			to.Began = func(actor.EventPosition) error { return broken }
		}
		err := s.Subscribe(t.Context(), actor.Key{App: "app", Type: "T", ID: "a"}, &actor.EventPosition{}, to)
		if full := errors.Is(err, actor.ErrOverloaded) || errors.Is(err, actor.ErrHostFull); full || i%3 == 0 && !errors.Is(err, broken) {
			t.Fatalf("subscription %d: %v", i, err)
		}
		if i%3 != 0 && i%2 == 0 && err != nil {
			t.Fatalf("subscription %d: %v", i, err)
		}
	}
}
