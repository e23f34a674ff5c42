package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// Movable is what a driver offers for copying a store as a whole into another one, of any
// driver, while no host uses either: each thing as it is stored, with its versions, its IDs
// and its times, so that what goes by them goes on. Hosts, leases and the cluster's name are
// not copied: they belong to the processes.
type Movable interface {
	Cluster

	// Export calls visit with everything that is stored at one moment, in parts of
	// bounded size, which are the visitor's. What cannot be read ends it with an error that
	// names it.
	Export(ctx context.Context, visit func(*Contents) error) error
	// Import has fill add parts to a store in which there is nothing. From its beginning to
	// its end without an error the store counts as unfinished, and cannot be opened.
	Import(ctx context.Context, fill func(add func(*Contents) error) error) error
}

// Contents is a part of what a store has.
type Contents struct {
	Actors  []ActorRow
	Modules []ModuleBytes
	// Deployments of a type come in the order of their generations: the last serves.
	Deployments []actor.Deployment
	Settings    []actor.Setting
	Services    []actor.Service
	Records     []StoredRecord
	Laps        []Lap
	Buckets     []actor.BucketRow
	Reminders   []actor.Reminder
	DeadLetters []actor.DeadLetter
	Events      []ActorEvent
}

// ActorEvent is an event of an actor. One without a name is the newest that was trimmed.
type ActorEvent struct {
	Key actor.Key
	actor.Event
}

// ActorRow is an actor's row, which may be a tombstone.
type ActorRow struct {
	Key actor.Key
	Row actor.Row
}

// ModuleBytes is a module with its bytes.
type ModuleBytes struct {
	Module actor.Module
	Wasm   []byte
}

// StoredRecord is the record of a call. Value is what [AppendRecord] wrote.
type StoredRecord struct {
	ID        RecordID
	Commit    actor.CommitID
	ExpiresAt time.Time
	Value     []byte
}

// Lap is how far the tokens of an app's reminders are allocated.
type Lap struct {
	App    string
	Prefix actor.Prefix
	Vector actor.Vector
	Next   uint32 // index of the next bucket
}

// Bounds of a part, beyond which the next one begins.
const (
	partBytes  = 1 << 20
	partThings = 1000
)

// Parts makes parts of what a driver reads.
type Parts struct {
	Visit  func(*Contents) error
	part   *Contents
	things int
	bytes  int
}

// Add has put add a thing of about so many bytes to the part.
func (p *Parts) Add(bytes int, put func(*Contents)) error {
	if p.part == nil {
		p.part = new(Contents)
	}
	put(p.part)
	p.things++
	p.bytes += bytes
	if p.things < partThings && p.bytes < partBytes {
		return nil
	}
	return p.End()
}

// End passes on what is left.
func (p *Parts) End() error {
	part := p.part
	p.part, p.things, p.bytes = nil, 0, 0
	if part == nil {
		return nil
	}
	return p.Visit(part)
}

// CopyCounts is how many things of each kind were copied.
type CopyCounts struct {
	Actors      int `json:"actors"`
	Tombstones  int `json:"tombstones"`
	Modules     int `json:"modules"`
	Deployments int `json:"deployments"`
	Settings    int `json:"settings"`
	Secrets     int `json:"secrets"`
	Records     int `json:"idempotency_keys"`
	Reminders   int `json:"reminders"`
	DeadLetters int `json:"dead_letters"`
	Buckets     int `json:"buckets"`
	Events      int `json:"events"`
}

// Total is how many things there are of all kinds.
func (n CopyCounts) Total() int {
	return n.Actors + n.Tombstones + n.Modules + n.Deployments + n.Settings + n.Secrets + n.Records + n.Reminders + n.DeadLetters + n.Buckets + n.Events
}

func (n *CopyCounts) add(c *Contents) {
	for i := range c.Actors {
		if c.Actors[i].Row.Deleted {
			n.Tombstones++
		} else {
			n.Actors++
		}
	}
	for i := range c.Settings {
		if c.Settings[i].Kind == actor.SettingSecret {
			n.Secrets++
		} else {
			n.Settings++
		}
	}
	n.Modules += len(c.Modules)
	n.Deployments += len(c.Deployments)
	n.Records += len(c.Records)
	n.Reminders += len(c.Reminders)
	n.DeadLetters += len(c.DeadLetters)
	n.Buckets += len(c.Buckets)
	for i := range c.Events {
		if c.Events[i].Name != "" {
			n.Events++
		}
	}
}

// Copy copies all of one store into another one that is empty, and calls progress after each
// part. After an error the other one is unfinished.
func Copy(ctx context.Context, from, to Movable, progress func(CopyCounts)) (CopyCounts, error) {
	var n CopyCounts
	if err := Unused(ctx, from); err != nil {
		return n, fmt.Errorf("the store to copy from: %w", err)
	}
	var reading, writing error
	err := to.Import(ctx, func(add func(*Contents) error) error {
		reading = from.Export(ctx, func(c *Contents) error {
			if writing = add(c); writing != nil {
				return writing
			}
			n.add(c)
			progress(n)
			return nil
		})
		return reading
	})
	if err != nil && (reading == nil || writing != nil) {
		err = fmt.Errorf("the store to copy to: %w", err)
	}
	return n, err
}

// Unused returns an error if a host uses a store, or ended so recently without leaving it
// that it may.
func Unused(ctx context.Context, s Cluster) error {
	hosts, now, err := s.Hosts(ctx)
	if err != nil {
		return err
	}
	for _, h := range hosts {
		if h.ExpiresAt.After(now) {
			return fmt.Errorf("server %s (%s) uses it; stop it, and wait %v if it did not end by itself", h.ID, h.Name, h.ExpiresAt.Sub(now).Round(time.Second))
		}
	}
	return nil
}

// ErrUnfinishedCopy is the error of opening a store that [Movable].Import did not finish.
var ErrUnfinishedCopy = errors.New("a copy into it was not finished; remove it, make an empty one, and copy again")

// ErrNotEmpty is the error of importing into a store that has something.
var ErrNotEmpty = errors.New("it is not empty; copy into a new folder, or into a new database")
