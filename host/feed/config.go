package feed

import (
	"context"
	"log/slog"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// Store keeps events; package store documents the methods.
type Store interface {
	ReadEvents(ctx context.Context, q actor.EventQuery) (actor.EventPage, error)
	NewestEvent(ctx context.Context, key actor.Key) (actor.EventPosition, error)
	TrimEvents(ctx context.Context, key actor.Key, keep actor.EventsKept) error
}

// Config is what a [Feed] is made of.
type Config struct {
	// Store keeps the events. Required.
	Store Store
	// Shared says that other hosts write to the store.
	Shared bool
	// PollEvery is how often a topic asks a shared store. Defaults to 250 ms.
	PollEvery time.Duration
	// Retention returns what is kept of the events of a type's actors; nil or zero fields:
	// [DefaultRetention].
	Retention func(app, typ string) Retention
	// MaxReads is how many reads for subscribers that are behind are under way, which apps
	// share. Defaults to 16.
	MaxReads int
	Logger   *slog.Logger // Required.
}

// Retention is what is kept of the events of an actor.
type Retention struct {
	Count int           // events; at most 10,000
	Bytes int64         // names and payloads
	Age   time.Duration // since the event was published
}

// DefaultRetention is for types that say nothing.
func DefaultRetention() Retention { return Retention{Count: 1000, Bytes: 4 << 20, Age: 24 * time.Hour} }
