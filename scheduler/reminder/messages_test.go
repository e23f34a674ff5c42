package reminder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

func actorKey(id string) actor.Key { return actor.Key{App: "default", Type: "T", ID: id} }

// send sends a message as a turn of an actor does: the commit writes its row at a version. notice:
// the service hears of it.
func (w *world) send(s *Service, from, to string, version uint64, notice bool, change func(*actor.ReminderSpec)) actor.Reminder {
	w.Helper()
	spec := actor.ReminderSpec{Key: actorKey(to), Method: "M", Message: &actor.Message{From: actorKey(from)}}
	if change != nil {
		change(&spec)
	}
	r, err := s.Prepare(w.Context(), spec)
	if err != nil {
		w.Fatal(err)
	}
	if r.Name == "" {
		r.Name = actor.MessageName(spec.Message.From, version, 0)
	}
	c := actor.CommitOf()
	c.Reminders.Set = []actor.Reminder{r}
	if err := w.store.commit(&c); err != nil {
		w.Fatal(err)
	}
	if notice {
		s.Committed(&c.Reminders)
	}
	return r
}

func names(list []committed) (names []string) {
	for _, c := range list {
		names = append(names, c.name)
	}
	return names
}

// A message that is due when its commit is applied is delivered from its notice, and not read.
func TestMessageIsDeliveredWithoutARead(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		w.send(s, "zoe", "amy", 1, true, nil)
		after(time.Second) // the bucket of both is there, and was read
		var fired []actor.Firing
		w.host.turn = func(f actor.Firing) error { fired = append(fired, f); return nil }
		before := w.store.loads()
		r := w.send(s, "ann", "bob", 7, true, func(sp *actor.ReminderSpec) {
			sp.Payload, sp.Message.Cookie = actor.Payload{Data: []byte("x")}, 5
		})
		after(time.Millisecond)
		if len(fired) != 1 || w.store.left() != 0 || w.store.loads() != before {
			t.Fatalf("%d deliveries, %d are left, %d were read", len(fired), w.store.left(), w.store.loads()-before)
		}
		f := fired[0]
		if f.Cause() != actor.CauseMessage || f.Message.From != actorKey("ann") || f.Message.Cookie != 5 || string(f.Payload.Data) != "x" || f.Attempt != 1 || !f.Fresh ||
			!f.Step.Ordered || f.Name != r.Name || f.SentAt.IsZero() {
			t.Errorf("%+v", f)
		}
		w.send(s, "ann", "bob", 8, false, nil) // whose notice is lost
		after(pollEvery + time.Second)
		if len(fired) != 2 || w.store.loads() != before+1 {
			t.Errorf("without a notice: %d deliveries, %d were read", len(fired), w.store.loads()-before)
		}
		if st := s.Stats(); st.InMemory != 0 || len(s.pending.lines.wholes.messages) != 0 || s.pending.lines.wholes.bytes.Used() != 0 || len(s.pending.lines.known) != 0 {
			t.Errorf("afterwards %+v, %d whole, %d in lines", st, len(s.pending.lines.wholes.messages), len(s.pending.lines.known))
		}
	})
}

// Messages that do not fit into memory are read.
func TestMessagesBeyondMemoryAreRead(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		free := make(chan struct{})
		w.host.turn = func(actor.Firing) error { <-free; return nil }
		const size, n = actor.MaxReminderPayload, 2 * wholeBytes / actor.MaxReminderPayload
		for i := range n {
			w.send(s, "ann", "bob", uint64(i+1), true, func(sp *actor.ReminderSpec) { sp.Payload.Data = make([]byte, size) })
		}
		after(time.Millisecond)
		if used := s.pending.lines.wholes.bytes.Used(); used > wholeBytes || used < wholeBytes/2 {
			t.Errorf("%d bytes of messages are in memory, of %d", used, wholeBytes)
		}
		close(free)
		after(time.Hour)
		if got := w.host.list(); len(got) != n || !slices.IsSorted(names(got)) || w.store.left() != 0 {
			t.Errorf("%d of %d messages were consumed, %d are left", len(got), n, w.store.left())
		}
		if w.store.loads() == 0 || s.pending.lines.wholes.bytes.Used() != 0 {
			t.Errorf("%d were read; %d bytes are in memory afterwards", w.store.loads(), s.pending.lines.wholes.bytes.Used())
		}
	})
}

// Messages of one sender are delivered one after the other, also if their notices come in another
// order; messages of others do not wait.
func TestMessagesOfOneSenderInOrder(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		w.send(s, "amy", "amy", 1, true, nil)
		after(time.Second) // the bucket is there, and was read: no message is known before its notice
		first := len(w.host.list())
		running := map[string]int{}
		var mu = make(chan struct{}, 1)
		w.host.turn = func(f actor.Firing) error {
			mu <- struct{}{}
			running[f.Message.From.ID]++
			if n := running[f.Message.From.ID]; n > 1 {
				t.Errorf("%d messages of %s run at once", n, f.Message.From.ID)
			}
			<-mu
			<-time.After(time.Second)
			mu <- struct{}{}
			running[f.Message.From.ID]--
			<-mu
			return nil
		}
		const n = 20
		var notice actor.ReminderEffects // one for all, so that none is delivered before all are known
		for i := range n {
			for _, from := range []string{"ann", "zoe"} {
				notice.Set = append(notice.Set, w.send(s, from, "bob", uint64(i+1), false, nil))
			}
		}
		slices.Reverse(notice.Set)
		s.Committed(&notice)
		after(10500 * time.Millisecond)
		if got := w.host.list()[first:]; len(got) != 20 {
			t.Errorf("in the time of 10 turns %d messages of two senders were consumed", len(got))
		}
		after(time.Hour)
		byName := map[string][]string{}
		for _, name := range names(w.host.list()[first:]) {
			sender, _ := actor.SenderOfOrdered(name)
			byName[sender] = append(byName[sender], name)
		}
		if len(byName) != 2 {
			t.Errorf("messages of %d senders", len(byName))
		}
		for _, list := range byName {
			if len(list) != n || !slices.IsSorted(list) {
				t.Errorf("%d messages, in the order %q", len(list), list)
			}
		}
	})
}

// One that fails holds up the later ones of its sender until it has succeeded, or is a dead letter.
func TestFailingMessageHoldsUpItsSenderOnly(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		var mu sync.Mutex
		var began []string
		fails := true
		w.host.turn = func(f actor.Firing) error {
			mu.Lock()
			defer mu.Unlock()
			began = append(began, fmt.Sprint(f.Message.From.ID, f.Method))
			if fails && f.Method == "First" {
				return &actor.GuestError{Code: "no"}
			}
			return nil
		}
		// next returns the turns that began since, and says whether First fails from now on.
		next := func(failing bool) (turns []string) {
			mu.Lock()
			defer mu.Unlock()
			turns, began, fails = began, nil, failing
			return turns
		}
		policy := actor.FailurePolicy{Interval: time.Minute, Attempts: 3}
		method := func(name string) func(*actor.ReminderSpec) {
			return func(sp *actor.ReminderSpec) { sp.Method, sp.Failure = name, policy }
		}
		w.send(s, "ann", "bob", 1, true, method("First"))
		w.send(s, "ann", "bob", 2, true, method("Second"))
		after(time.Second)
		w.send(s, "zoe", "bob", 1, true, method("Other"))
		after(time.Second)
		w.send(s, "ann", "carol", 3, true, method("Elsewhere"))
		after(time.Second)
		if got, want := next(true), []string{"annFirst", "zoeOther", "annElsewhere"}; !slices.Equal(got, want) {
			t.Fatalf("turns %q, want %q", got, want)
		}
		after(60 * time.Second)
		if got, want := next(false), []string{"annFirst"}; !slices.Equal(got, want) {
			t.Fatalf("turns %q, want %q", got, want)
		}
		after(61 * time.Second)
		if got, want := next(true), []string{"annFirst", "annSecond"}; !slices.Equal(got, want) {
			t.Fatalf("turns %q, want %q", got, want)
		}

		w.send(s, "ann", "bob", 4, true, method("First"))
		w.send(s, "ann", "bob", 5, true, method("Second"))
		after(time.Hour)
		if got, want := next(true), []string{"annFirst", "annFirst", "annFirst", "annSecond"}; !slices.Equal(got, want) || len(w.store.dead) != 1 {
			t.Fatalf("turns %q, want %q; dead letters %+v", got, want, w.store.dead)
		}
		if d := w.store.dead[0]; d.Reminder.Message == nil || d.Reminder.Failures != 2 || d.Reason != "no" {
			t.Errorf("%+v", d)
		}
	})
}

// A message whose earlier one another instance delivers is postponed, and uses up no attempt.
func TestMessageOrderAcrossBuckets(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		first := w.send(s, "ann", "bob", 1, false, nil)
		other := first.ID // of a bucket that nobody owns here
		other.Prefix += 7
		w.store.mu.Lock()
		moved := w.store.reminders[nameOf(&first)]
		moved.ID = other
		w.store.reminders[nameOf(&first)] = moved
		w.store.mu.Unlock()
		attempts := 0
		w.host.turn = func(f actor.Firing) error { attempts++; return nil }
		w.send(s, "ann", "bob", 2, true, func(sp *actor.ReminderSpec) { sp.Failure.Attempts = 1 })
		after(10 * time.Second)
		if len(w.host.list()) != 0 || attempts < 3 || attempts > 20 || len(w.store.dead) != 0 {
			t.Fatalf("%d deliveries, %d were committed, dead letters %+v", attempts, len(w.host.list()), w.store.dead)
		}
		c := actor.CommitOf() // of the other instance
		c.Reminders.Steps = []actor.ReminderStep{messageStep(&moved)}
		if err := w.store.commit(&c); err != nil {
			t.Fatal(err)
		}
		after(2 * longestWait)
		if got := w.host.list(); len(got) != 1 || got[0].attempt != 1 || w.store.left() != 0 {
			t.Errorf("%+v, %d are left", got, w.store.left())
		}
	})
}

// What comes of a message that nobody consumes: it is forwarded, is a dead letter, and comes back
// to its sender, each once.
func TestEndOfAMessage(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		var back []actor.Firing
		var at []string
		link := actor.SpanLink{TraceID: [16]byte{1}, SpanID: [8]byte{2}}
		w.host.turn = func(f actor.Firing) error {
			if f.Link != link {
				t.Errorf("%s.%s has the link %v", f.Key.ID, f.Method, f.Link)
			}
			at = append(at, f.Key.ID+"."+f.Method)
			if f.Cause() == actor.CauseUndelivered {
				back = append(back, f)
				return nil
			}
			return &actor.TurnError{Key: f.Key, Err: &actor.GuestError{Code: "out_of_stock", Message: "none left"}}
		}
		w.send(s, "ann", "bob", 1, true, func(sp *actor.ReminderSpec) {
			sp.Payload, sp.Failure = actor.Payload{Data: []byte("p")}, actor.FailurePolicy{Attempts: 2, Interval: time.Second}
			sp.Message.Undelivered, sp.Message.Forward, sp.Message.Cookie = "Sorry", actorKey("carol"), 9
			sp.Link = link
		})
		after(time.Minute)
		if want := []string{"bob.M", "bob.M", "carol.M", "carol.M", "ann.Sorry"}; !slices.Equal(at, want) {
			t.Fatalf("turns %q, want %q", at, want)
		}
		m := back[0].Message
		if m.From != actorKey("carol") || m.Failed != "out_of_stock" || m.Cookie != 9 || string(back[0].Payload.Data) != "p" || m.Undelivered != "" {
			t.Errorf("back came %+v", m)
		}
		if d := w.store.dead; len(d) != 1 || d[0].Reminder.Key != actorKey("carol") || !slices.Equal(d[0].Reminder.Message.Path, []actor.Key{actorKey("bob")}) || d[0].Reminder.Failures != 1 {
			t.Errorf("dead letters %+v", d)
		}
		if w.store.left() != 0 {
			t.Errorf("%d are left", w.store.left())
		}
	})
}

// A message whose receiver has passed away ends at once: it was for that life.
func TestMessageToAnEarlierLifeEnds(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		var turns []string
		w.host.turn = func(f actor.Firing) error {
			turns = append(turns, f.Key.ID+" "+f.Message.Failed)
			if f.Key.ID == "bob" {
				return &actor.TurnError{Key: f.Key, Err: &actor.ReasonError{Condition: actor.ErrPassedAway, Reason: "it has"}}
			}
			return nil
		}
		w.send(s, "ann", "bob", 1, true, func(sp *actor.ReminderSpec) { sp.Failure.Attempts, sp.Message.Undelivered = 9, "Sorry" })
		after(time.Second)
		if want := []string{"bob ", "bob ", "ann passed_away"}; !slices.Equal(turns, want) || len(w.store.dead) != 1 || w.store.left() != 0 {
			t.Errorf("turns %q, want %q; %d dead letters, %d are left", turns, want, len(w.store.dead), w.store.left())
		}
	})
}

// A message whose receiver seems to have passed away, by what the notice of its commit says, is read, and
// delivered with the time at which it was sent.
func TestMessageThatItsNoticeDatesTooEarly(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		w.send(s, "zoe", "amy", 1, true, nil)
		after(time.Second) // the bucket of both is there, and was read
		var sent []time.Time
		w.host.turn = func(f actor.Firing) error {
			if sent = append(sent, f.SentAt); len(sent) == 1 {
				return &actor.TurnError{Key: f.Key, Err: &actor.ReasonError{Condition: actor.ErrPassedAway, Reason: "it has"}}
			}
			return nil
		}
		before := w.store.loads()
		w.send(s, "ann", "bob", 1, true, nil)
		after(time.Second)
		if len(sent) != 2 || sent[1].Before(sent[0]) || w.store.loads() != before+1 || len(w.store.dead) != 0 || w.store.left() != 0 {
			t.Errorf("delivered as sent at %v, %d reads, %d dead letters, %d are left", sent, w.store.loads()-before, len(w.store.dead), w.store.left())
		}
	})
}

// A message is forwarded to nobody twice, and one that comes back undelivered and fails is a dead
// letter and nothing more.
func TestMessagesEndInTheEnd(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		turns := 0
		w.host.turn = func(f actor.Firing) error { turns++; return errors.New("never") }
		w.send(s, "ann", "bob", 1, true, func(sp *actor.ReminderSpec) {
			sp.Failure.Attempts = 1
			sp.Message.Forward, sp.Message.Undelivered = actorKey("bob"), "Sorry" // to itself
		})
		w.send(s, "ann", "loop", 1, true, func(sp *actor.ReminderSpec) {
			sp.Failure.Attempts = 1
			sp.Message.Forward, sp.Message.Path = actorKey("before"), []actor.Key{actorKey("before")}
		})
		after(time.Hour)
		if turns != 3 || len(w.store.dead) != 3 || w.store.left() != 0 {
			t.Errorf("%d turns, %d dead letters, %d are left", turns, len(w.store.dead), w.store.left())
		}
	})
}

// A message that gets too old ends, whether its turns fail or nothing serves it.
func TestMessageGetsTooOld(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		served := errors.New("fails")
		var turns int
		codes := map[string]string{}
		w.host.turn = func(f actor.Firing) error {
			switch {
			case f.Message.Failed != "":
				codes[f.Message.From.ID] = f.Message.Failed
				return nil
			case f.Key.ID == "absent":
				return actor.ErrTypeNotFound
			}
			turns++
			return served
		}
		age := func(sp *actor.ReminderSpec) {
			sp.Schedule.Until = time.Now().Add(10 * time.Minute)
			sp.Failure = actor.FailurePolicy{Interval: 4 * time.Minute, Attempts: 100}
			sp.Message.Undelivered = "Sorry"
		}
		w.send(s, "ann", "absent", 1, true, age)
		w.send(s, "ann", "failing", 1, true, age)
		after(9 * time.Minute)
		if turns != 3 || len(w.store.dead) != 1 || w.store.left() != 1 {
			t.Fatalf("before its end: %d turns, %d dead letters, %d are left", turns, len(w.store.dead), w.store.left())
		}
		after(3 * time.Minute)
		if codes["absent"] != codeTooOld || codes["failing"] != "internal" || len(w.store.dead) != 2 || w.store.left() != 0 {
			t.Errorf("codes %v, dead letters %+v, %d are left", codes, w.store.dead, w.store.left())
		}
		if reason := w.store.dead[1].Reason; !strings.Contains(reason, "was not consumed until") {
			t.Errorf("reason %q", reason)
		}
	})
}

// A message that is not in order ends no earlier than those before it.
func TestDisorderedMessageDoesNotEnd(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		first := w.send(s, "ann", "bob", 1, false, nil)
		w.store.mu.Lock()
		moved := w.store.reminders[nameOf(&first)]
		moved.ID.Prefix += 7 // another instance's
		w.store.reminders[nameOf(&first)] = moved
		w.store.mu.Unlock()
		w.host.turn = func(f actor.Firing) error { return &actor.GuestError{Code: "no"} }
		w.send(s, "ann", "bob", 2, true, func(sp *actor.ReminderSpec) { sp.Failure.Attempts, sp.Message.Undelivered = 1, "Sorry" })
		after(time.Minute)
		if len(w.store.dead) != 0 || w.store.left() != 2 {
			t.Errorf("%d dead letters, %d are left", len(w.store.dead), w.store.left())
		}
	})
}

// A message with a delay, from outside, or forwarded has a name of its own; another one gets it
// with its commit.
func TestPreparedMessageNames(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		for _, c := range []struct {
			what    string
			ordered bool
			change  func(*actor.ReminderSpec)
		}{
			{"as it is", true, func(*actor.ReminderSpec) {}},
			{"delayed", false, once(time.Minute)},
			{"at a time", false, func(s *actor.ReminderSpec) { s.Schedule.At = time.Now().Add(time.Hour) }},
			{"from outside", false, func(s *actor.ReminderSpec) { s.Message.From = actor.Key{} }},
			{"undelivered", false, func(s *actor.ReminderSpec) { s.Message.Failed = "x" }},
			{"forwarded", false, func(s *actor.ReminderSpec) { s.Message.Path = []actor.Key{actorKey("x")} }},
		} {
			spec := actor.ReminderSpec{Key: actorKey("bob"), Method: "M", Message: &actor.Message{From: actorKey("ann")}}
			c.change(&spec)
			r, err := s.Prepare(t.Context(), spec)
			if want := actor.UnorderedMessageName(r.ID); err != nil || c.ordered != (r.Name == "") || !c.ordered && r.Name != want {
				t.Errorf("%s: %q, %v", c.what, r.Name, err)
			}
		}
	})
}

// A message from outside is sent once under its key, however often the call is repeated and
// whatever answers are lost.
func TestSendFromOutside(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		a := NewAdmin(s, &adminStore{memory: w.store})
		var turns atomic.Int32
		w.host.turn = func(f actor.Firing) error {
			if turns.Add(1); f.Step.Ordered || f.Message.From.ID != "" {
				t.Errorf("%+v", f)
			}
			return nil
		}
		spec := actor.ReminderSpec{Key: actorKey("bob"), Method: "M", Payload: actor.Payload{Data: []byte("1")}}
		id, repeated, err := a.Send(t.Context(), spec, "key", nil)
		if err != nil || repeated {
			t.Fatal(id, repeated, err)
		}
		after(time.Second)
		if again, repeated, err := a.Send(t.Context(), spec, "key", nil); again != id || !repeated || err != nil {
			t.Errorf("repeated: %v, %t, %v; the first was %v", again, repeated, err, id)
		}
		other := spec
		other.Payload.Data = []byte("2")
		if _, _, err := a.Send(t.Context(), other, "key", nil); !errors.Is(err, actor.ErrKeyReused) {
			t.Errorf("with another payload: %v", err)
		}
		translated, written := spec, spec.Payload // its type has got a Protobuf service since
		translated.Payload = actor.Payload{ContentType: "application/protobuf", Data: []byte("\x08\x01")}
		if again, repeated, err := a.Send(t.Context(), translated, "key", &written); again != id || !repeated || err != nil {
			t.Errorf("repeated in another form: %v, %t, %v; the first was %v", again, repeated, err, id)
		}
		if _, _, err := a.Send(t.Context(), translated, "key", &other.Payload); !errors.Is(err, actor.ErrKeyReused) {
			t.Errorf("with another payload in another form: %v", err)
		}
		loses := func(lose func() error) {
			w.store.mu.Lock()
			defer w.store.mu.Unlock()
			w.store.lose = lose
		}
		loses(func() error { return actor.ErrAmbiguous })
		lost, repeated, err := a.Send(t.Context(), spec, "lost", nil)
		if err != nil || repeated {
			t.Errorf("with its answer lost: %v, %t, %v", lost, repeated, err)
		}
		if _, _, err := a.Send(t.Context(), spec, "", nil); err != nil {
			t.Errorf("without a key, with its answer lost: %v", err)
		}
		loses(nil)
		after(time.Minute)
		if n := turns.Load(); n != 3 || w.store.left() != 0 {
			t.Errorf("%d turns of three messages, %d are left", n, w.store.left())
		}
		var bad *actor.ArgumentError
		if _, _, err := a.Send(t.Context(), spec, "ü", nil); !errors.As(err, &bad) {
			t.Errorf("a key that is none: %v", err)
		}
		if _, _, err := a.Send(t.Context(), actor.ReminderSpec{Key: actorKey("bob")}, "", nil); !errors.As(err, &bad) {
			t.Errorf("without a method: %v", err)
		}
		w.store.fails(func(op string) error {
			if op == "commit" {
				return actor.ErrUnavailable
			}
			return nil
		})
		if _, _, err := a.Send(t.Context(), spec, "down", nil); !errors.Is(err, actor.ErrUnavailable) {
			t.Errorf("without a store: %v", err)
		}
	})
}

// The dead letter of a message can be retried, once, by a message without an order.
func TestRetryOfAMessage(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		a := NewAdmin(s, &adminStore{memory: w.store})
		fails := true
		var fired []actor.Firing
		w.host.turn = func(f actor.Firing) error {
			if fails {
				return errors.New("no")
			}
			fired = append(fired, f)
			return nil
		}
		for _, unordered := range []bool{false, true} {
			fails, fired = true, nil
			w.send(s, "ann", "bob", 1, true, func(sp *actor.ReminderSpec) {
				sp.Failure.Attempts, sp.Schedule.Until = 1, time.Now().Add(time.Minute)
				if unordered {
					sp.Schedule.After = time.Second
				}
			})
			after(2 * time.Second)
			if len(w.store.dead) != 1 {
				t.Fatal(w.store.dead)
			}
			id := DeadLetterIDOf(&w.store.dead[0])
			after(time.Hour) // it is too old by now
			fails = false
			r, err := a.Retry(t.Context(), "default", id)
			if err != nil || r.Message == nil || r.Name != actor.UnorderedMessageName(id.Reminder) {
				t.Fatalf("%+v, %v", r, err)
			}
			after(time.Second)
			if len(fired) != 1 || fired[0].Message.From != actorKey("ann") || fired[0].Step.Ordered || w.store.left() != 0 || len(w.store.dead) != 0 {
				t.Errorf("%+v, %d are left, dead letters %+v", fired, w.store.left(), w.store.dead)
			}
		}
		if _, _, err := a.SetPaused(t.Context(), []actor.ReminderName{{Key: actorKey("bob"), Name: actor.MessageName(actorKey("ann"), 1, 0)}}, true); err == nil {
			t.Error("a message was paused")
		}
	})
}

// An instance that loses a bucket knows nothing of its messages any more, and the messages of
// other buckets behind them go on.
func TestLinesOfALostBucket(t *testing.T) {
	p := newPending(&dbClock{}, 2*pageSize)
	p.start(time.Now())
	p.clock.set(time.Now())
	row := func(index uint32) actor.Bucket {
		b := actor.Bucket{Prefix: 1, Vector: actor.Vector([]byte("abcdefgh")), Index: index}
		p.adopt(actor.BucketRow{Bucket: b, App: "default", Epoch: 2, Owner: "h"})
		return b
	}
	lost, kept := row(0), row(1)
	read := func(b actor.Bucket, n uint32, version uint64) *actor.Reminder {
		r := &actor.Reminder{ID: b.Token(n), Version: 1, ReminderSpec: actor.ReminderSpec{
			Key: actorKey("bob"), Name: actor.MessageName(actorKey("ann"), version, 0), Method: "M", Message: &actor.Message{From: actorKey("ann")},
		}}
		p.mu.Lock()
		p.underWay.begin(r.ID, false)
		p.mu.Unlock()
		return r
	}
	o := outcomes{p}
	for i, c := range []struct {
		b     actor.Bucket
		first bool
	}{{lost, true}, {lost, false}, {kept, false}, {kept, false}} {
		if r := read(c.b, uint32(i), uint64(i+1)); o.isFirst(r) != c.first {
			t.Fatalf("message %d is first: %t", i, !c.first)
		}
	}
	if n, _, _ := p.counts(); n != 3 || p.lines.parked != 3 || len(p.lines.wholes.messages) != 3 {
		t.Fatalf("%d in memory, %d parked, %d whole", n, p.lines.parked, len(p.lines.wholes.messages))
	}
	p.mu.Lock()
	p.forget(lost.Token(0)) // it was under way
	delete(p.owned, lost)
	o.dropLines(lost)
	p.mu.Unlock()
	if p.lines.parked != 1 || len(p.lines.known) != 2 || len(p.lines.wholes.messages) != 2 || p.wheel.Len() != 1 {
		t.Fatalf("%d parked, %d known, %d whole, %d in the wheel", p.lines.parked, len(p.lines.known), len(p.lines.wholes.messages), p.wheel.Len())
	}
	p.mu.Lock()
	o.dropLines(kept)
	p.mu.Unlock()
	if len(p.lines.known) != 0 || len(p.lines.pairs) != 0 || p.lines.parked != 0 {
		t.Errorf("%+v", p.lines)
	}
}

func TestCodesOfFailures(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{&actor.TurnError{Err: &actor.GuestError{Code: "out_of_stock"}}, "out_of_stock"},
		{&actor.GuestError{Message: "no"}, "guest_error"},
		{&actor.TrapError{Kind: actor.TrapStack}, "guest_stack"},
		{&actor.StateTooLargeError{}, "state_too_large"},
		{&actor.FuelError{}, "out_of_fuel"},
		{actor.ErrDeadline, "deadline"},
		{errors.New("x"), "internal"},
		{&actor.GuestError{Code: strings.Repeat("é", 50)}, strings.Repeat("é", 32)},
		{context.Canceled, "internal"},
	} {
		if got := codeOf(c.err); got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}

// refusals has the turns of a message, which are refused as not accepted yet unless begun decides.
type refusals struct {
	mu    sync.Mutex
	turns []time.Time
	id    actor.ReminderID
	begun func(n int) error // the turn of that number, if it is not nil
}

func (r *refusals) turn(f actor.Firing) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.id, r.turns = f.Reminder, append(r.turns, time.Now())
	if r.begun != nil {
		return r.begun(len(r.turns))
	}
	return &actor.TurnError{Key: f.Key, Err: &actor.ReasonError{Condition: actor.ErrNotAcceptedYet, Reason: "it is closed"}}
}

// since returns the turns and the message, and has later turns be as begun says; nil: as before.
func (r *refusals) since(begun func(n int) error) (turns []time.Time, id actor.ReminderID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if begun != nil {
		r.begun = begun
	}
	return r.turns, r.id
}

// A message that its receiver does not accept yet is delivered at once when the receiver has another method
// set, also if that comes while it is under way, and it has used up no attempt. Without notice it
// is delivered after waits of up to longestWait.
func TestMessageIsAccepted(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		var r refusals
		w.host.turn = func(f actor.Firing) error {
			if f.Attempt != 1 {
				t.Errorf("attempt %d", f.Attempt)
			}
			return r.turn(f)
		}
		w.send(s, "ann", "bob", 1, true, nil)
		after(10 * time.Minute)
		turns, id := r.since(nil)
		refused := len(turns)
		if gap := turns[refused-1].Sub(turns[refused-2]); refused < 10 || refused > 100 || gap > longestWait {
			t.Fatalf("%d turns, the last ones %v apart", refused, gap)
		}
		r.since(func(n int) error {
			if n == refused+1 { // the receiver has chosen a set, which has the method only the next time
				s.Accepted([]actor.ReminderID{id})
				return actor.ErrNotAcceptedYet
			}
			return nil
		})
		s.Accepted([]actor.ReminderID{id})
		after(time.Millisecond)
		if turns, _ := r.since(nil); len(turns) != refused+2 || w.store.left() != 0 {
			t.Errorf("%d turns after it was accepted, want 2; %d messages are left", len(turns)-refused, w.store.left())
		}
		if st := s.Stats(); st.Retried != uint64(refused+1) || st.Failed != 0 || st.Fired != 1 { //nolint:gosec // of a test
			t.Errorf("after %d refusals, %d deliveries count as retried, %d as failed and %d as fired", refused+1, st.Retried, st.Failed, st.Fired)
		}
		s.Accepted([]actor.ReminderID{id}) // it is gone
		after(10 * time.Minute)
		if turns, _ := r.since(nil); len(turns) != refused+2 {
			t.Errorf("%d turns of a message that is gone", len(turns)-refused-2)
		}
	})
}

// The owner of a message's bucket gets notice from the instance whose host has the receiver.
func TestMessageIsAcceptedElsewhere(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b, _ := w.startPair(nil)
		var r refusals
		w.host.turn = r.turn
		w.send(a, "ann", "bob", 1, true, nil)
		after(10 * time.Minute)
		turns, id := r.since(func(int) error { return nil })
		refused := len(turns)
		b.Accepted([]actor.ReminderID{id})
		after(time.Millisecond)
		if turns, _ := r.since(nil); len(turns) != refused+1 || w.store.left() != 0 {
			t.Errorf("%d turns after it was accepted, want 1; %d messages are left", len(turns)-refused, w.store.left())
		}
	})
}

// However often the receiver of a message chooses another method set that does not have the message either,
// it is in memory once, and waits as long as others do afterwards. Once it is accepted, nothing of it is left.
func TestNoticesOfSetsDoNotAddUp(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		var r refusals
		w.host.turn = r.turn
		w.send(s, "ann", "bob", 1, true, nil)
		after(time.Minute)
		_, id := r.since(nil)
		const sets = 100
		for range sets {
			s.Accepted([]actor.ReminderID{id})
			after(3 * time.Second)
		}
		s.Accepted([]actor.ReminderID{id, id}) // twice, before it is read
		func() {                               // and, as when it has left the wheel and is not read yet
			s.pending.mu.Lock()
			defer s.pending.mu.Unlock()
			s.pending.put(s.pending.owned[id.Bucket()], id, s.pending.clock.now().Add(time.Millisecond))
		}()
		after(time.Minute)
		before, _ := r.since(nil)
		after(10 * longestWait)
		turns, _ := r.since(nil)
		if n := len(turns) - len(before); n < 10 || n > 15 {
			t.Errorf("%d deliveries in %v after %d notices", n, 10*longestWait, sets)
		}
		if st := s.Stats(); st.InMemory != 1 {
			t.Errorf("one message is in memory %d times", st.InMemory)
		}
		r.since(func(int) error { return nil })
		s.Accepted([]actor.ReminderID{id})
		after(time.Millisecond)
		if st, use := s.Stats(), s.pending.memory.apps.Used(); st.InMemory != 0 || use != 0 || w.store.left() != 0 {
			t.Errorf("it is accepted, and in memory %d times, which count as %d; %d are in the store", st.InMemory, use, w.store.left())
		}
	})
}
