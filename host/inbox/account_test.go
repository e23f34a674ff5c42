package inbox

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

func to(id string) actor.Key { return actor.Key{App: "app", Type: "T", ID: id} }

// fakeInbox is what the store says of one inbox.
type fakeInbox struct {
	messages, counts int
	bytes            int64
	err              error
	wait             chan struct{}
}

func (f *fakeInbox) count(context.Context, actor.Key) (int, int64, error) {
	f.counts++
	if f.wait != nil {
		<-f.wait
	}
	return f.messages, f.bytes, f.err
}

func wantFull(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, actor.ErrInboxFull) {
		t.Errorf("error %v, want %q", err, actor.ErrInboxFull.Kind())
	}
}

// TestAccountFillsAnInbox: of one host, an inbox that consumes nothing gets as many messages as it
// holds, and is counted once in 1,000 of them.
func TestAccountFillsAnInbox(t *testing.T) {
	f := &fakeInbox{}
	a := NewAccount(f.count)
	for i := range actor.MaxInboxMessages {
		if err := a.Admit(t.Context(), to("b"), 1); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		f.messages++
	}
	wantFull(t, a.Admit(t.Context(), to("b"), 1))
	if f.counts > 12 {
		t.Errorf("the store was asked %d times", f.counts)
	}
	if err := a.Admit(t.Context(), to("c"), 1); err != nil {
		t.Errorf("to another one: %v", err)
	}
}

// TestAccountBoundsBytes: few large messages fill an inbox as well.
func TestAccountBoundsBytes(t *testing.T) {
	f := &fakeInbox{}
	a := NewAccount(f.count)
	sent := 0
	for ; a.Admit(t.Context(), to("b"), actor.MaxReminderPayload) == nil; sent++ {
		f.messages, f.bytes = f.messages+1, f.bytes+actor.MaxReminderPayload
	}
	if most := actor.MaxInboxBytes / actor.MaxReminderPayload; sent < most || sent > most+1 {
		t.Errorf("%d messages were sent; an inbox holds %d", sent, most)
	}
}

// TestAccountOfAFullInbox: a full inbox is counted again after a while, by one sender; the others
// are refused meanwhile.
func TestAccountOfAFullInbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeInbox{messages: actor.MaxInboxMessages}
		a := NewAccount(f.count)
		for range countEvery {
			if err := a.Admit(t.Context(), to("b"), 0); err != nil {
				t.Fatal(err)
			}
		}
		wantFull(t, a.Admit(t.Context(), to("b"), 0))
		wantFull(t, a.Admit(t.Context(), to("b"), 0))
		if f.counts != 1 {
			t.Errorf("it was counted %d times", f.counts)
		}
		time.Sleep(fullFor)
		f.messages, f.wait = 0, make(chan struct{})
		first := make(chan error)
		go func() { first <- a.Admit(t.Context(), to("b"), 0) }()
		synctest.Wait()
		wantFull(t, a.Admit(t.Context(), to("b"), 0))
		close(f.wait)
		if err := <-first; err != nil {
			t.Error(err)
		}
		if err := a.Admit(t.Context(), to("b"), 0); err != nil {
			t.Error(err)
		}
	})
}

// TestAccountCannotCount: a count that fails refuses its message, and the next one counts again.
// While an inbox that was not full is counted, others send to it.
func TestAccountCannotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeInbox{err: fmt.Errorf("no: %w", actor.ErrUnavailable), wait: make(chan struct{})}
		a := NewAccount(f.count)
		for range countEvery {
			if err := a.Admit(t.Context(), to("b"), 0); err != nil {
				t.Fatal(err)
			}
		}
		first := make(chan error)
		go func() { first <- a.Admit(t.Context(), to("b"), 0) }()
		synctest.Wait()
		if err := a.Admit(t.Context(), to("b"), 0); err != nil {
			t.Errorf("while another one counts: %v", err)
		}
		close(f.wait)
		if err := <-first; !errors.Is(err, actor.ErrUnavailable) {
			t.Errorf("a count that failed: %v", err)
		}
		f.err = nil
		if err := a.Admit(t.Context(), to("b"), 0); err != nil || f.counts != 2 {
			t.Errorf("the next one: %v, after %d counts", err, f.counts)
		}
	})
}
