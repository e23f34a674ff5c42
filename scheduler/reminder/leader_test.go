package reminder

import (
	"context"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// A leader that was slow to read the buckets gives none of an owner to others that it saw gone
// before: that one may be back.
func TestSlowLeaderLooksAgain(t *testing.T) {
	inBubble(t, func(w *world) {
		w.store.shared = true
		m := &members{self: "one", live: []actor.HostID{"one"}}
		cfg := w.config()
		cfg.Host, cfg.Members = "", m
		w.start(cfg)
		b := w.lostOwner()
		w.store.fails(func(op string) error {
			if op == "buckets" {
				<-time.After(pollEvery + time.Second)
			}
			return nil
		})
		after(time.Minute)
		if got := w.store.bucket(b).Owner; got != "lost" {
			t.Errorf("by what was seen long before, the bucket is %q's", got)
		}
		w.store.fails(nil)
		after(time.Minute)
		if got := w.store.bucket(b).Owner; got != "one" {
			t.Errorf("the bucket of who is lost is %q's", got)
		}
	})
}

// A bucket is not removed for what the database's clock says alone: that may be set, and a
// commit of a reminder of it be under way.
func TestClosedBucketIsNotRemovedByTheClock(t *testing.T) {
	inBubble(t, func(w *world) {
		w.store.shared = true
		cfg := w.config()
		cfg.Host, cfg.Members = "", &members{self: "one", live: []actor.HostID{"one"}}
		w.start(cfg)
		b := w.lostOwner()
		after(5 * pollEvery)
		if !w.store.bucket(b).Closed {
			t.Fatal("its creator is gone, and it is open")
		}
		w.store.mu.Lock()
		w.store.ahead = 2 * RemoveAfter
		w.store.mu.Unlock()
		after(closedFor - 10*pollEvery)
		if w.store.bucket(b).Epoch == 0 {
			t.Error("it is removed shortly after it was closed")
		}
		after(20 * pollEvery)
		if w.store.bucket(b).Epoch != 0 {
			t.Error("it is closed and empty, and there")
		}
	})
}

// followers are a cluster of one process that does not lead.
type followers struct{ incarnations }

func (m *followers) Live(context.Context) ([]actor.HostID, bool, error) {
	return []actor.HostID{m.Self()}, false, nil
}

// A bucket that this process was given as who it was before is not its own.
func TestBucketOfAnEarlierIncarnation(t *testing.T) {
	inBubble(t, func(w *world) {
		w.store.shared = true
		m := &followers{incarnations{self: "one"}}
		cfg := w.config()
		cfg.Host, cfg.Members = "", m
		s := w.start(cfg)
		assigned := make(chan struct{})
		w.store.fails(func(op string) error {
			if op == "assign" {
				w.store.fails(nil)
				m.mu.Lock()
				m.self = "two"
				m.mu.Unlock()
				<-time.After(pollEvery + pollEvery/2) // it has noticed, and the next look is not there
				close(assigned)
			}
			return nil
		})
		r := w.set(s, "n", false, once(time.Hour))
		<-assigned
		if b := r.ID.Bucket(); s.pending.owns(b) {
			t.Errorf("it delivers a bucket that is %q's", w.store.bucket(b).Owner)
		}
	})
}

// What is set in a bucket that was allocated while the store was looked at fires when it is
// due: the rows that were read do not have the bucket, and it is this process's all the same.
func TestBucketAllocatedDuringALook(t *testing.T) {
	inBubble(t, func(w *world) {
		w.store.shared = true
		cfg := w.config()
		cfg.Host, cfg.Members = "", &members{self: "one", live: []actor.HostID{"one"}}
		s := w.start(cfg)
		w.lostOwner() // which the look assigns
		looking, goOn := make(chan struct{}), make(chan struct{})
		w.store.fails(func(op string) error {
			if op == "assign" {
				w.store.fails(nil)
				close(looking)
				<-goOn
			}
			return nil
		})
		<-looking
		w.set(s, "n", true, once(pollEvery/2))
		close(goOn)
		after(pollEvery/2 + 10*time.Millisecond)
		if got := w.host.list(); len(got) != 1 {
			t.Errorf("%d fired of 1 that was due", len(got))
		}
	})
}
