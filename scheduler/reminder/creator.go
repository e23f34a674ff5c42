package reminder

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
)

// nearlyUsed is how many tokens of a bucket are used when a creator gets its next one.
const nearlyUsed = actor.BucketSize / 100 * 95

// creator hands out the tokens of one host. Its buckets are its own for ever: a process
// that starts again is another creator, and leaves the rest of them unused.
type creator struct {
	// allocate gets a bucket of an app for this host.
	allocate func(ctx context.Context, app string) (actor.BucketRow, error)

	mu   sync.Mutex
	apps map[string]*tokens
}

// tokens are those of one app.
type tokens struct {
	mu     sync.Mutex // never held while the store is waited for
	bucket actor.Bucket
	used   uint32     // BucketSize: no bucket yet, or all of it
	recent lastMinute // what used was, less what was given back since
	next   *actor.Bucket
	// unused are tokens that were given back while later ones were in use, by their number.
	unused map[uint32]struct{}
	// replacing says that the bucket is about to be left for the next one.
	replacing bool
	// fetched is closed when whoever gets the next bucket has it, or has failed; nil: nobody
	// gets one.
	fetched chan struct{}
}

func newCreator(allocate func(ctx context.Context, app string) (actor.BucketRow, error)) *creator {
	return &creator{allocate: allocate, apps: map[string]*tokens{}}
}

// take returns an ID that was never given out before. It waits for the store when the app
// has no bucket here, and otherwise for nothing.
func (c *creator) take(ctx context.Context, app string, background func(func())) (id actor.ReminderID, spent *actor.Bucket, err error) {
	c.mu.Lock()
	t := c.apps[app]
	if t == nil {
		t = &tokens{used: actor.BucketSize}
		c.apps[app] = t
	}
	c.mu.Unlock()

	t.mu.Lock()
	defer t.mu.Unlock()
	for t.used == actor.BucketSize && t.next == nil {
		if err := c.await(ctx, app, t); err != nil {
			return id, nil, fmt.Errorf("get a bucket of reminders for %s: %w", app, err)
		}
	}
	if t.used == actor.BucketSize {
		if t.bucket != (actor.Bucket{}) {
			old := t.bucket
			spent = &old
		}
		t.begin()
	}
	id = t.bucket.Token(t.used)
	t.used++
	if t.used >= nearlyUsed && t.next == nil && t.fetched == nil {
		background(func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			if t.next == nil && t.fetched == nil {
				_ = c.fetch(context.WithoutCancel(ctx), app, t) // whoever needs it tries again
			}
		})
	}
	return id, spent, nil
}

// begin begins with the next bucket; t.mu is held.
func (t *tokens) begin() {
	t.bucket, t.used, t.recent, t.next, t.unused = *t.next, 0, newLastMinute(0), nil, nil
}

// maxUnused is how many tokens of an app are remembered that were given back while later ones
// were in use.
const maxUnused = 1 << 14

// giveBack has tokens of an app that were taken from its present bucket, and were in no commit,
// taken again, once all that were taken after them have been given back as well: tokens count
// upwards.
func (c *creator) giveBack(app string, ids []actor.ReminderID) {
	c.mu.Lock()
	t := c.apps[app]
	c.mu.Unlock()
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range slices.Backward(ids) {
		switch number := id.Token - id.Bucket().First(); {
		case id.Bucket() != t.bucket || number >= t.used:
		case number == t.used-1:
			t.used--
		case len(t.unused) < maxUnused:
			if t.unused == nil {
				t.unused = map[uint32]struct{}{}
			}
			t.unused[number] = struct{}{}
		}
	}
	for t.used > 0 {
		if _, unused := t.unused[t.used-1]; !unused {
			break
		}
		t.used--
		delete(t.unused, t.used)
	}
	t.recent.lower(int64(t.used))
}

// replace has nothing more taken from a bucket of an app, and reports whether it did: it
// was the present one, and there is another one now.
func (c *creator) replace(ctx context.Context, app string, b actor.Bucket) (bool, error) {
	c.mu.Lock()
	t := c.apps[app]
	c.mu.Unlock()
	if t == nil {
		return false, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bucket != b || t.replacing {
		return false, nil
	}
	t.replacing = true
	defer func() { t.replacing = false }()
	for t.next == nil {
		if err := c.await(ctx, app, t); err != nil {
			return false, err
		}
		if t.bucket != b { // it was used up, or dropped
			return false, nil
		}
	}
	t.begin()
	return true, nil
}

// await gets the next bucket, or waits until another has tried to; t.mu is held, and let
// go meanwhile. A guest that waits leaves its processor to others.
func (c *creator) await(ctx context.Context, app string, t *tokens) (err error) {
	bucket := t.bucket
	t.mu.Unlock()
	defer t.mu.Lock()
	engine.Outside(ctx, func() { err = c.awaitAfter(ctx, app, t, bucket) })
	return err
}

// awaitAfter is await for a guest that has left its processor, unless another one has the next
// bucket, or has begun with it, meanwhile.
func (c *creator) awaitAfter(ctx context.Context, app string, t *tokens, bucket actor.Bucket) error {
	t.mu.Lock()
	fetched := t.fetched
	if fetched == nil {
		defer t.mu.Unlock()
		if t.next != nil || t.bucket != bucket {
			return nil
		}
		return c.fetch(ctx, app, t)
	}
	t.mu.Unlock()
	select {
	case <-fetched:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fetch gets the next bucket; t.mu is held, and let go meanwhile.
func (c *creator) fetch(ctx context.Context, app string, t *tokens) error {
	t.fetched = make(chan struct{})
	t.mu.Unlock()
	row, err := c.allocate(ctx, app)
	t.mu.Lock()
	close(t.fetched)
	t.fetched = nil
	if err == nil {
		t.next = &row.Bucket
	}
	return err
}

// used returns how far each bucket is used.
func (c *creator) used() map[actor.Bucket]uint32 {
	return c.buckets(func(t *tokens) uint32 { return t.used })
}

// report returns how far each bucket was used a minute ago, less what was given back since. Stores
// keep the highest number, and the owner of a bucket looks for new reminders from there on, so
// tokens that turns may still give back, to be handed out again, are not to be counted.
func (c *creator) report() map[actor.Bucket]uint32 {
	return c.buckets(func(t *tokens) uint32 {
		t.recent.note(int64(t.used))
		return uint32(t.recent.first())
	})
}

// buckets returns each bucket with a number of its tokens: of the next one, 0.
func (c *creator) buckets(number func(*tokens) uint32) map[actor.Bucket]uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	used := map[actor.Bucket]uint32{}
	for _, t := range c.apps {
		t.mu.Lock()
		if t.bucket != (actor.Bucket{}) {
			used[t.bucket] = number(t)
		}
		if t.next != nil {
			used[*t.next] = 0
		}
		t.mu.Unlock()
	}
	return used
}

// creations are the buckets that a creator had at some moment, and how far each was used.
type creations struct {
	by   *creator
	used map[actor.Bucket]uint32
}

// abandon has the creator take nothing more from buckets that are closed or gone by rows
// that were read since: it was taken for gone itself.
func (c creations) abandon(rows []actor.BucketRow) {
	for _, r := range rows {
		if !r.Closed {
			delete(c.used, r.Bucket)
		}
	}
	for b := range c.used {
		c.by.drop(b)
	}
}

// drop takes nothing more from a bucket.
func (c *creator) drop(b actor.Bucket) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.apps {
		t.mu.Lock()
		if t.bucket == b {
			t.bucket, t.used, t.unused = actor.Bucket{}, actor.BucketSize, nil
		}
		if t.next != nil && *t.next == b {
			t.next = nil
		}
		t.mu.Unlock()
	}
}

// randomVector returns the vector of a lap that begins.
func randomVector() (v actor.Vector) {
	for i := range v {
		v[i] = 'a' + byte(rand.IntN(26))
	}
	return v
}
