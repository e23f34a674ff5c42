package reminder

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/actor"
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
