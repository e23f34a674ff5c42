package store

import (
	"fmt"

	"github.com/greenroom-run/greenroom/actor"
)

// MaxKeptEvents is the highest [actor.EventsKept].Count.
const MaxKeptEvents = 10_000

// ValidateEventQuery checks a query, for drivers.
func ValidateEventQuery(q *actor.EventQuery) error {
	if err := q.Key.Validate(); err != nil {
		return err
	}
	return ValidateLimit(q.Limit)
}

// ValidateEventsKept checks what [Events].TrimEvents is given, for drivers.
func ValidateEventsKept(key actor.Key, keep actor.EventsKept) error {
	switch {
	case keep.Count < 1 || keep.Count > MaxKeptEvents:
		return &actor.ArgumentError{Field: "events kept", Problem: fmt.Sprintf("are %d; give 1 to %d", keep.Count, MaxKeptEvents)}
	case keep.Bytes < 1:
		return &actor.ArgumentError{Field: "bytes of events kept", Problem: fmt.Sprintf("are %d; give 1 or more", keep.Bytes)}
	}
	return key.Validate()
}

// validateEvents checks the events of a commit, and returns how many bytes they take.
func validateEvents(c *actor.Commit, bad func(problem string, args ...any) error) (bytes int, err error) {
	for i := range c.Events {
		e := &c.Events[i]
		if err := e.Validate(); err != nil {
			return 0, err
		}
		if w := rowOf(c, &e.Key); w == nil || w.Delete && !w.NewLife || w.Bump {
			return 0, bad("publishes an event of %s, whose row it does not write", e.Key)
		}
		bytes += e.Size()
	}
	return bytes, nil
}

func rowOf(c *actor.Commit, k *actor.Key) *actor.RowWrite {
	for i := range c.Rows {
		if c.Rows[i].Key == *k {
			return &c.Rows[i]
		}
	}
	return nil
}

// PlacedEvent is an event of a commit with its position.
type PlacedEvent struct {
	actor.EventPosition
	*actor.EventWrite
}

// PlacedEvents returns the events of a valid commit with their positions, for drivers.
func PlacedEvents(c *actor.Commit) []PlacedEvent {
	if len(c.Events) == 0 {
		return nil
	}
	placed := make([]PlacedEvent, len(c.Events))
	count := map[actor.Key]uint32{}
	for i := range c.Events {
		e := &c.Events[i]
		placed[i] = PlacedEvent{actor.EventPosition{Version: rowOf(c, &e.Key).NewVersion, Index: count[e.Key]}, e}
		count[e.Key]++
	}
	return placed
}
