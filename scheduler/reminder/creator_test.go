package reminder

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/host/executor"
)

// TestNextBucketIsAbandoned: a creator that was taken for gone creates nothing from the bucket
// that it was to create from next either, if that was closed as well.
func TestNextBucketIsAbandoned(t *testing.T) {
	var rows []actor.BucketRow
	c := newCreator(func(_ context.Context, app string) (actor.BucketRow, error) {
		row := actor.BucketRow{Bucket: actor.Bucket{Prefix: 1, Vector: anID.Vector, Index: uint32(len(rows))}, App: app}
		rows = append(rows, row)
		return row, nil
	})
	take := func() actor.Bucket {
		t.Helper()
		var later []func()
		id, _, err := c.take(t.Context(), "app", func(do func()) { later = append(later, do) })
		if err != nil {
			t.Fatal(err)
		}
		for _, do := range later {
			do()
		}
		return id.Bucket()
	}
	for len(rows) < 2 {
		take()
	}
	rows[1].Closed = true
	creations{c, c.used()}.abandon(slices.Clone(rows))
	for range actor.BucketSize {
		if b := take(); b == rows[1].Bucket {
			t.Fatal("tokens are taken from a bucket that is closed")
		}
	}
	if used := c.used(); used[rows[2].Bucket] == 0 {
		t.Errorf("after the first bucket was used up they are taken from others than the third: %v", used)
	}
}

// Turns that set reminders and fail use up no tokens, alone or many at a time. What was committed
// meanwhile keeps its token, and nothing is given out that is in use.
func TestTokensOfFailedTurnsAreTakenAgain(t *testing.T) {
	buckets := uint32(0)
	c := newCreator(func(context.Context, string) (actor.BucketRow, error) {
		buckets++
		return actor.BucketRow{Bucket: actor.Bucket{Prefix: 1, Vector: anID.Vector, Index: buckets}}, nil
	})
	inUse := map[actor.ReminderID]bool{}
	take := func() actor.ReminderID {
		t.Helper()
		id, _, err := c.take(t.Context(), "app", func(do func()) { do() })
		if err != nil || inUse[id] {
			t.Fatalf("%v is in use: %t; %v", id, inUse[id], err)
		}
		inUse[id] = true
		return id
	}
	giveBack := func(ids []actor.ReminderID) {
		for _, id := range ids {
			delete(inUse, id)
		}
		c.giveBack("app", ids)
	}
	const turns, sets = 16, 256
	for round := range 100 { // 409,600 tokens
		var of [turns][]actor.ReminderID
		for range sets {
			for turn := range turns {
				of[turn] = append(of[turn], take())
			}
		}
		for turn := range turns {
			giveBack(of[(turn+round)%turns])
		}
	}
	committed := take()
	lost := []actor.ReminderID{take(), take()}
	last := take() // committed as well
	giveBack(lost)
	if next := take(); buckets != 1 || committed != committed.Bucket().Token(0) || next != last.Bucket().Token(4) {
		t.Errorf("%d buckets; %v was committed, then %v, and next is %v", buckets, committed, last, next)
	}
	c.giveBack("other", lost)
}

// Tokens are reported once no turn may give them back: a minute after they were handed out.
func TestReportsCountNoTokensThatMayBeGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := actor.Bucket{Prefix: 1, Vector: anID.Vector}
		c := newCreator(func(context.Context, string) (actor.BucketRow, error) { return actor.BucketRow{Bucket: b}, nil })
		take := func(n int) (ids []actor.ReminderID) {
			for range n {
				id, _, err := c.take(t.Context(), "app", func(func()) {})
				if err != nil {
					t.Fatal(err)
				}
				ids = append(ids, id)
			}
			return ids
		}
		reports := func(after time.Duration, want uint32) {
			t.Helper()
			for end := time.Now().Add(after); time.Now().Before(end); {
				<-time.After(pollEvery)
				c.report()
			}
			if got := c.report()[b]; got != want {
				t.Errorf("%d are reported, want %d", got, want)
			}
		}
		take(3)
		reports(2*pollEvery, 0)
		reports(recentFor, 3)
		slow := take(5) // of a turn that takes longer than a few reports
		reports(recentFor-2*pollEvery, 3)
		c.giveBack("app", slow)
		take(2)
		reports(3*pollEvery, 3)
		reports(recentFor, 5)
	})
}

// TestGuestsThatWaitForTokensHoldNoProcessor: while guests of an app wait for the store, which is to
// give the app a bucket, others have the only processor; those that waited go on with one.
func TestGuestsThatWaitForTokensHoldNoProcessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const guests = 3
		allocate := make(chan struct{})
		c := newCreator(func(context.Context, string) (actor.BucketRow, error) {
			<-allocate
			return actor.BucketRow{Bucket: actor.Bucket{Prefix: 1, Vector: anID.Vector}}, nil
		})
		slots := executor.New(1, []executor.PoolConfig{{Name: executor.PoolUser}})
		var guest sync.WaitGroup
		for range guests {
			guest.Go(func() {
				var slot executor.Slot
				if err := slot.Enter(t.Context(), slots.Pool(executor.PoolUser), &actor.Key{App: "app"}); err != nil {
					t.Error(err)
				}
				if _, _, err := c.take(engine.WithProcessor(t.Context(), &slot), "app", func(do func()) { do() }); err != nil {
					t.Error(err)
				}
				if !slot.Pause() {
					t.Error("a guest runs without a processor")
				}
			})
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var other executor.Slot
		if err := other.Enter(ctx, slots.Pool(executor.PoolUser), &actor.Key{App: "quiet"}); err != nil {
			t.Errorf("another app's guest waits for those that wait: %v", err)
		}
		other.Leave(0)
		close(allocate)
		guest.Wait()
	})
}

// takesMeanwhile is a processor that another guest has as soon as it is free.
type takesMeanwhile struct{ take func() }

func (takesMeanwhile) Yield(uint64)  {}
func (p takesMeanwhile) Pause() bool { p.take(); return true }
func (takesMeanwhile) Resume()       {}

// TestBucketThatAnotherGuestGotMeanwhile: one bucket does for both.
func TestBucketThatAnotherGuestGotMeanwhile(t *testing.T) {
	buckets := uint32(0)
	c := newCreator(func(context.Context, string) (actor.BucketRow, error) {
		buckets++
		return actor.BucketRow{Bucket: actor.Bucket{Prefix: 1, Vector: anID.Vector, Index: buckets}}, nil
	})
	take := func(ctx context.Context) {
		if _, _, err := c.take(ctx, "app", func(do func()) { do() }); err != nil {
			t.Error(err)
		}
	}
	take(engine.WithProcessor(t.Context(), takesMeanwhile{func() { take(t.Context()) }}))
	if used := c.used(); buckets != 1 || used[actor.Bucket{Prefix: 1, Vector: anID.Vector, Index: 1}] != 2 {
		t.Errorf("two tokens are of %d buckets: %v", buckets, used)
	}
}
