package inbox

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
)

const (
	// An inbox is counted after so many messages to it, or so many bytes: a tenth of what it
	// holds.
	countEvery      = actor.MaxInboxMessages / 10
	countEveryBytes = actor.MaxInboxBytes / 10
	// fullFor is for how long a full inbox is taken to be full without being counted again.
	fullFor = time.Second
	// maxReceivers is how many receivers an Account knows. One that it has forgotten begins anew,
	// so an app that sends to very many receivers in turn passes the bounds of their inboxes. It
	// fills no other app's inbox by that.
	maxReceivers = 1 << 16
)

// Count counts the messages of an actor and their bytes, up to
// [actor.MaxInboxMessages] and [actor.MaxInboxBytes]. It asks the store.
type Count func(ctx context.Context, key actor.Key) (messages int, bytes int64, err error)

// Account counts what this host sends to each receiver, so that it asks the store for the
// contents of an inbox seldom. Its methods may be called concurrently.
type Account struct {
	count Count

	mu        sync.Mutex
	receivers *simplelru.LRU[actor.Key, *receiver]
}

// receiver is an inbox that this host sends to.
type receiver struct {
	// messages and bytes may be sent before the inbox is counted again.
	messages int
	bytes    int64
	counting bool
	// fullUntil is when an inbox that was full is counted again; zero: it was not full.
	fullUntil time.Time
}

// NewAccount returns an account of inboxes that count counts.
func NewAccount(count Count) *Account {
	receivers, err := simplelru.NewLRU[actor.Key, *receiver](maxReceivers, nil)
	if err != nil {
		panic(err) // the size is positive
	}
	return &Account{count: count, receivers: receivers}
}

// Admit counts a message to an actor, of so many bytes. It returns [actor.ErrInboxFull], with the
// reason, if the inbox has no room, and the error of a count that fails. A guest that runs under
// ctx gives up its processor while the store is asked.
func (a *Account) Admit(ctx context.Context, key actor.Key, bytes int64) error {
	r, counts, full := a.take(key, bytes, time.Now())
	switch {
	case full:
		return errFull(key)
	case !counts:
		return nil
	}
	var messages int
	var size int64
	var err error
	engine.Outside(ctx, func() { messages, size, err = a.count(ctx, key) })
	return a.counted(r, key, messages, size, err, time.Now())
}

// take takes a message off what may be sent to an actor. counts means that the caller is to count
// the inbox. While somebody counts an inbox that was not full, others send to it.
func (a *Account) take(key actor.Key, bytes int64, now time.Time) (r *receiver, counts, full bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r, known := a.receivers.Get(key)
	if !known {
		r = &receiver{messages: countEvery, bytes: countEveryBytes}
		a.receivers.Add(key, r)
	}
	wasFull := !r.fullUntil.IsZero()
	if wasFull && (r.counting || now.Before(r.fullUntil)) {
		return r, false, true
	}
	r.messages--
	r.bytes -= bytes
	if !wasFull && (r.messages >= 0 && r.bytes >= 0 || r.counting) {
		return r, false, false
	}
	r.counting = true
	return r, true, false
}

// counted takes over what an inbox holds.
func (a *Account) counted(r *receiver, key actor.Key, messages int, bytes int64, err error, now time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	r.counting = false
	if err != nil { // the next message counts
		return fmt.Errorf("count the inbox of %s: %w", key, err)
	}
	if messages >= actor.MaxInboxMessages || bytes >= actor.MaxInboxBytes {
		r.fullUntil = now.Add(fullFor)
		return errFull(key)
	}
	r.fullUntil = time.Time{}
	r.messages = min(countEvery, actor.MaxInboxMessages-messages-1)
	r.bytes = min(countEveryBytes, actor.MaxInboxBytes-bytes)
	return nil
}

func errFull(key actor.Key) error {
	return &actor.ReasonError{Condition: actor.ErrInboxFull, Reason: fmt.Sprintf(
		"%s %s has %d messages, or %d MiB, that it has not consumed; send again later", key.Type, key.ID, actor.MaxInboxMessages, actor.MaxInboxBytes>>20)}
}
