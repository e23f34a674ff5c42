package reminder

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// A dead letter is retried under its name, or, while another has that, under one that is
// the same each time: so a retry that is repeated after an error fires once.
func TestAdminRetriesADeadLetter(t *testing.T) {
	withAdmin(t, func(w *world, a *Admin, s *adminStore) {
		w.host.turn = func(actor.Firing) error { return errors.New("no luck yet") } // so that it is still there
		long := strings.Repeat("ä", actor.MaxReminderName/2)
		var letters []actor.DeadLetter
		for i, name := range []string{"free", "taken", long} {
			r, _, err := a.Set(w.Context(), asked(name, func(s *actor.ReminderSpec) {
				s.Schedule.After, s.Payload.Data = time.Hour, []byte{byte(i)}
				s.Missed.Kind = actor.MissedSkip // a retry is late, and is not skipped
			}))
			if err != nil {
				t.Fatal(err)
			}
			letters = append(letters, actor.DeadLetter{Reminder: r, Reason: "test"})
			if name == "free" {
				delete(s.reminders, named(name))
			}
		}
		after(30 * time.Minute)
		s.dead = append(s.dead, letters...)
		for i := range letters {
			id := DeadLetterIDOf(&letters[i])
			if parsed, err := ParseDeadLetterID(id.String()); err != nil || parsed != id {
				t.Errorf("%v, %v", parsed, err)
			}
			if _, err := a.Retry(w.Context(), "other", id); !errors.Is(err, actor.ErrDeadLetterNotFound) {
				t.Errorf("of another app: %v", err)
			}
			r, err := a.Retry(w.Context(), "default", id)
			if err != nil {
				t.Fatal(err)
			}
			if i > 0 { // the dead letter was not removed, say
				s.dead = append(s.dead, letters[i])
				again, err := a.Retry(w.Context(), "default", id)
				if err != nil || again.ID != r.ID {
					t.Errorf("again: %v, %v", again, err)
				}
			}
			want := letters[i].Reminder.Name
			if i > 0 {
				want = "@" + id.String()
			}
			if !strings.HasSuffix(r.Name, want) || r.Payload.Data[0] != byte(i) || !r.Due.Equal(id.Due) {
				t.Errorf("%d: %v", i, r)
			}
		}
		if len(s.dead) != 0 {
			t.Errorf("%d dead letters are left", len(s.dead))
		}
	})
}

// A retry whose answer was lost is repeated, after its reminder has fired as well: it fires
// once, and the dead letter goes.
func TestRetryOfADeadLetterIsRepeated(t *testing.T) {
	withAdmin(t, func(w *world, a *Admin, s *adminStore) {
		r, _, err := a.Set(w.Context(), asked("n", once(time.Hour)))
		if err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		delete(s.reminders, named("n"))
		s.mu.Unlock()
		after(3 * time.Hour)
		letter := actor.DeadLetter{Reminder: r, Reason: "test"}
		s.mu.Lock()
		s.dead = append(s.dead, letter)
		s.mu.Unlock()
		id := DeadLetterIDOf(&letter)
		s.keepsDead = actor.ErrUnavailable
		if _, err := a.Retry(w.Context(), "default", id); !errors.Is(err, actor.ErrUnavailable) {
			t.Fatal(err)
		}
		after(time.Minute)
		if got := w.host.list(); len(got) != 1 {
			t.Fatalf("the first retry: %+v", got)
		}
		for call, record := range s.records {
			if record.TTL != 30*24*time.Hour {
				t.Errorf("%s is kept for %v", call.Method, record.TTL)
			}
		}
		s.keepsDead = nil
		if _, _, err := a.Set(w.Context(), asked("n", once(100*time.Hour))); err != nil { // somebody else's
			t.Fatal(err)
		}
		again, err := a.Retry(w.Context(), "default", id)
		if err != nil || again.ID != r.ID || !again.Due.Equal(r.Due) {
			t.Errorf("again: %+v, %v", again, err)
		}
		after(time.Minute)
		if got := w.host.list(); len(got) != 1 || len(s.dead) != 0 {
			t.Errorf("repeated: %+v, dead letters %+v", got, s.dead)
		}
		if _, err := a.Retry(w.Context(), "default", id); !errors.Is(err, actor.ErrDeadLetterNotFound) {
			t.Errorf("once more: %v", err)
		}
		// While another reminder has the name, and by many at the same time.
		letter.Reminder.Due = r.Due.Add(time.Hour)
		s.dead = append(s.dead, letter)
		id = DeadLetterIDOf(&letter)
		if _, _, err := a.Set(w.Context(), asked("n", once(100*time.Hour))); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if _, err := a.Retry(w.Context(), "default", id); err != nil && !errors.Is(err, actor.ErrDeadLetterNotFound) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		after(time.Minute)
		if got := w.host.list(); len(got) != 2 {
			t.Errorf("eight retries at once: %+v", got)
		}
	})
}

// failing has turns fail until it is called, and returns how often each payload ran after that,
// in turns that take a while.
func (w *world) failing() (succeed func(), ran func(payload string) int) {
	var mu sync.Mutex
	fails, times := true, map[string]int{}
	w.host.turn = func(f actor.Firing) error {
		mu.Lock()
		defer mu.Unlock()
		if fails {
			return errors.New("no luck")
		}
		mu.Unlock()
		<-time.After(20 * time.Second)
		mu.Lock()
		times[string(f.Payload.Data)]++
		return nil
	}
	succeed = func() {
		mu.Lock()
		defer mu.Unlock()
		fails = false
	}
	return succeed, func(payload string) int {
		mu.Lock()
		defer mu.Unlock()
		return times[payload]
	}
}

// Dead letters of one name and one due time, and of names that differ at their ends alone, are
// retried while the reminders of the first ones are still there: each runs once.
func TestRetriesOfEqualNames(t *testing.T) {
	long := strings.Repeat("x", actor.MaxReminderName-1)
	for name, names := range map[string][]string{"one name": {"n", "n", "n"}, "long names": {long + "0", long + "1"}} {
		t.Run(name, func(t *testing.T) {
			withAdmin(t, func(w *world, a *Admin, s *adminStore) {
				succeed, ran := w.failing()
				due := time.Now().Add(time.Minute).Truncate(time.Second)
				for i, name := range names {
					if _, _, err := a.Set(w.Context(), asked(name, func(sp *actor.ReminderSpec) {
						sp.Schedule.At, sp.Payload.Data, sp.Failure.Attempts = due, []byte{byte(i)}, 1
						if name != "n" {
							sp.Schedule.Every = 24 * time.Hour // it is still there
						}
					})); err != nil {
						t.Fatal(err)
					}
					after(2 * time.Minute)
				}
				letters := slices.Clone(s.dead)
				if len(letters) != len(names) {
					t.Fatalf("%d dead letters", len(letters))
				}
				succeed()
				for i := range letters {
					if _, err := a.Retry(w.Context(), "default", DeadLetterIDOf(&letters[i])); err != nil {
						t.Error(err)
					}
				}
				after(10 * time.Minute)
				for i := range names {
					if n := ran(string([]byte{byte(i)})); n != 1 {
						t.Errorf("dead letter %d ran %d times", i, n)
					}
				}
				if len(s.dead) != 0 {
					t.Errorf("%d dead letters are left", len(s.dead))
				}
			})
		})
	}
}

// Somebody sets the name of a dead letter before one of its retry's commits, and a commit is
// refused or its answer lost: repeated until it succeeds, the retry delivers the firing once,
// and leaves the other reminder alone.
func TestRetryIsCutAndRacedAtEachCommit(t *testing.T) {
	refused := func(s *adminStore) {
		s.fails(func(op string) error {
			if op == "commit" {
				return actor.ErrUnavailable
			}
			return nil
		})
	}
	lost := func(s *adminStore) { s.lose = func() error { return actor.ErrAmbiguous } }
	for raced := range 4 { // before which commit; 0: before none
		for cut := range 4 {
			for fault, breaks := range map[string]func(*adminStore){"refused": refused, "lost": lost} {
				t.Run(fmt.Sprintf("raced %d, %s %d", raced, fault, cut), func(t *testing.T) {
					withAdmin(t, func(w *world, a *Admin, s *adminStore) {
						succeed, ran := w.failing()
						set := func(payload string, at time.Duration) {
							if _, _, err := a.Set(w.Context(), asked("n", func(sp *actor.ReminderSpec) {
								sp.Payload.Data, sp.Schedule.After, sp.Failure.Attempts = []byte(payload), at, 1
							})); err != nil {
								t.Error(err)
							}
						}
						set("dead", 0)
						after(time.Minute)
						if len(s.dead) != 1 {
							t.Fatalf("%d dead letters", len(s.dead))
						}
						succeed()
						mend := func() {
							s.lose = nil
							s.fails(nil)
						}
						commits := 0
						s.before = func() {
							commits++
							mend()
							if commits == raced {
								before := s.before
								s.before = nil
								set("other", time.Hour)
								s.before = before
							}
							if commits == cut {
								breaks(s)
							}
						}
						id := DeadLetterIDOf(&s.dead[0])
						for range 5 {
							_, err := a.Retry(w.Context(), "default", id)
							mend()
							if err == nil {
								break
							}
							if !errors.Is(err, actor.ErrUnavailable) && !errors.Is(err, actor.ErrAmbiguous) {
								t.Error(err)
							}
						}
						s.before = nil
						after(2 * time.Hour)
						if n := ran("dead"); n != 1 || len(s.dead) != 0 || s.left() != 0 {
							t.Errorf("it ran %d times; %d dead letters and %d reminders are left", n, len(s.dead), s.left())
						}
						if n := ran("other"); raced > 0 && raced <= commits && n != 1 {
							t.Errorf("the other one ran %d times", n)
						}
					})
				})
			}
		}
	}
}

// deadLetter makes the dead letter of a reminder n that skips what is late, and is gone.
func (m *adminStore) deadLetter(w *world, a *Admin) DeadLetterID {
	w.Helper()
	r, _, err := a.Set(w.Context(), asked("n", func(sp *actor.ReminderSpec) {
		sp.Schedule.After, sp.Missed.Kind = time.Hour, actor.MissedSkip
	}))
	if err != nil {
		w.Fatal(err)
	}
	if err := a.Cancel(w.Context(), []actor.ReminderName{named("n")}); err != nil {
		w.Fatal(err)
	}
	after(2 * time.Hour)
	d := actor.DeadLetter{Reminder: r, Reason: "test"}
	m.dead = append(m.dead, d)
	return DeadLetterIDOf(&d)
}

// A retry is delivered at once, though it is late.
func TestRetryIsDeliveredAtOnce(t *testing.T) {
	withAdmin(t, func(w *world, a *Admin, s *adminStore) {
		id, begun := s.deadLetter(w, a), time.Now()
		if _, err := a.Retry(w.Context(), "default", id); err != nil {
			t.Fatal(err)
		}
		after(100 * time.Millisecond)
		if got := w.host.list(); len(got) != 1 || got[0].at.Sub(begun) > 10*time.Millisecond || s.left() != 0 {
			t.Errorf("%+v since %v; %d reminders are left", got, begun, s.left())
		}
	})
}

// A retry that another server began, and that is resumed here, is delivered by its owner at
// once.
func TestRetryResumedElsewhereIsDeliveredAtOnce(t *testing.T) {
	inBubble(t, func(w *world) {
		one, other, _ := w.startPair(nil)
		s := &adminStore{memory: w.store}
		a, b := NewAdmin(one, s), NewAdmin(other, s)
		id, commits := s.deadLetter(w, a), 0
		s.before = func() {
			if commits++; commits == 2 {
				s.fails(func(op string) error {
					if op == "commit" {
						return actor.ErrUnavailable
					}
					return nil
				})
			}
		}
		if _, err := a.Retry(w.Context(), "default", id); !errors.Is(err, actor.ErrUnavailable) {
			t.Fatal(err)
		}
		s.before = nil
		s.fails(nil)
		after(time.Minute)
		if _, err := b.Retry(w.Context(), "default", id); err != nil {
			t.Fatal(err)
		}
		after(100 * time.Millisecond)
		if got := w.host.list(); len(got) != 1 {
			t.Errorf("%+v", got)
		}
	})
}

// What happens between two steps of a retry is in the records: another retry is quicker, an
// answer is lost, or the paused reminder is deleted. The retry goes on from there.
func TestRetryGoesOnFromTheRecords(t *testing.T) {
	for name, meanwhile := range map[string]func(t *testing.T, w *world, a *Admin, s *adminStore, id DeadLetterID){
		"another holds": func(t *testing.T, w *world, a *Admin, s *adminStore, id DeadLetterID) {
			s.before = func() {
				s.before = nil
				if _, err := a.Retry(w.Context(), "default", id); err != nil {
					t.Error(err)
				}
			}
		},
		"an answer is lost": func(_ *testing.T, _ *world, _ *Admin, s *adminStore, _ DeadLetterID) {
			s.lose = func() error {
				s.lose = nil
				return actor.ErrAmbiguous
			}
		},
		"another sets the other name": func(t *testing.T, w *world, a *Admin, s *adminStore, id DeadLetterID) {
			if _, _, err := a.Set(w.Context(), asked("n", once(time.Hour))); err != nil {
				t.Fatal(err)
			}
			s.fails(func(op string) error {
				if op == "find n@"+id.String() {
					s.fails(nil)
					if _, err := a.Retry(w.Context(), "default", id); err != nil {
						t.Error(err)
					}
				}
				return nil
			})
		},
		"the paused one is deleted": func(t *testing.T, w *world, a *Admin, s *adminStore, _ DeadLetterID) {
			commits := 0
			s.before = func() {
				if commits++; commits == 2 {
					s.before = nil
					if err := a.Cancel(w.Context(), []actor.ReminderName{named("n")}); err != nil {
						t.Error(err)
					}
				}
			}
		},
		"the paused one is damaged": func(_ *testing.T, _ *world, _ *Admin, s *adminStore, _ DeadLetterID) {
			s.fails(func(op string) error {
				if op == "find n" {
					return actor.ErrStateDamaged
				}
				return nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			withAdmin(t, func(w *world, a *Admin, s *adminStore) {
				w.host.turn = func(actor.Firing) error { <-time.After(time.Second); return nil } // its reminder is still there
				id := s.deadLetter(w, a)
				meanwhile(t, w, a, s, id)
				if _, err := a.Retry(w.Context(), "default", id); err != nil {
					t.Fatal(err)
				}
				after(time.Minute)
				if got := w.host.list(); len(got) != 1 || len(s.dead) != 0 {
					t.Errorf("delivered: %+v; %d dead letters are left", got, len(s.dead))
				}
			})
		})
	}
}

// A retry that cannot read how far it has come, or what it answers with, keeps the dead letter.
func TestRetryThatCannotRead(t *testing.T) {
	withAdmin(t, func(w *world, a *Admin, s *adminStore) {
		id := s.deadLetter(w, a)
		retried := func(unreadable string, fault error) {
			s.fails(func(op string) error {
				if op == unreadable {
					return fault
				}
				return nil
			})
			if _, err := a.Retry(w.Context(), "default", id); !errors.Is(err, fault) || len(s.dead) != 1 {
				t.Errorf("no %s: %v; %d dead letters", unreadable, err, len(s.dead))
			}
			s.fails(nil)
		}
		retried("records", actor.ErrStateDamaged)
		s.keepsDead = actor.ErrUnavailable
		if _, err := a.Retry(w.Context(), "default", id); !errors.Is(err, actor.ErrUnavailable) {
			t.Fatal(err)
		}
		s.keepsDead = nil
		retried("find n", actor.ErrUnavailable)
	})
}

// The name that a retry needs and nobody else gives: if it is there all the same, the retry
// fails, and nothing is lost.
func TestRetryWhoseOtherNameIsTaken(t *testing.T) {
	withAdmin(t, func(w *world, a *Admin, s *adminStore) {
		succeed, ran := w.failing()
		if _, _, err := a.Set(w.Context(), asked("n", func(sp *actor.ReminderSpec) {
			sp.Schedule.Every, sp.Schedule.Times, sp.Failure.Attempts = time.Hour, 2, 1
		})); err != nil {
			t.Fatal(err)
		}
		after(90 * time.Minute)
		succeed()
		id := DeadLetterIDOf(&s.dead[0])
		if _, _, err := a.Set(w.Context(), asked("n@"+id.String(), once(100*time.Hour))); err != nil {
			t.Fatal(err)
		}
		var bad *actor.ArgumentError
		if _, err := a.Retry(w.Context(), "default", id); !errors.As(err, &bad) || len(s.dead) != 1 {
			t.Fatalf("%v; %d dead letters are left", err, len(s.dead))
		}
		s.fails(func(op string) error {
			if op == "find n@"+id.String() {
				return actor.ErrStateDamaged
			}
			return nil
		})
		if _, err := a.Retry(w.Context(), "default", id); !errors.As(err, &bad) || len(s.dead) != 1 {
			t.Fatalf("it is damaged: %v; %d dead letters are left", err, len(s.dead))
		}
		s.fails(nil)
		if err := a.Cancel(w.Context(), []actor.ReminderName{named("n@" + id.String())}); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Retry(w.Context(), "default", id); err != nil {
			t.Fatal(err)
		}
		after(time.Minute)
		if n := ran(""); n != 1 || len(s.dead) != 0 {
			t.Errorf("it ran %d times, %d dead letters are left", n, len(s.dead))
		}
	})
}

// A dead letter is of the occurrence that was delivered, which a missed policy may choose past
// the reminder's own: its retry is for that time, too.
func TestDeadLetterIsOfWhatWasDelivered(t *testing.T) {
	for name, missed := range map[string]actor.MissedPolicy{
		"skip": {Kind: actor.MissedSkip}, "catch up": {Kind: actor.MissedCatchUp, Limit: 1}, "collapse": {},
	} {
		for _, attempts := range []uint32{1, 3} {
			t.Run(fmt.Sprint(name, " ", attempts), func(t *testing.T) {
				withAdmin(t, func(w *world, a *Admin, s *adminStore) {
					var mu sync.Mutex
					var delivered []time.Time
					w.host.turn = func(f actor.Firing) error {
						mu.Lock()
						defer mu.Unlock()
						if delivered = append(delivered, f.Due); uint32(len(delivered)) <= attempts {
							return errors.New("no luck")
						}
						return nil
					}
					if _, _, err := a.Set(w.Context(), asked("n", func(sp *actor.ReminderSpec) {
						sp.Schedule = actor.Schedule{At: time.Now().Add(-3*time.Hour - 5*time.Second), Every: time.Hour, Times: 4}
						sp.Missed, sp.Failure.Attempts = missed, attempts
					})); err != nil {
						t.Fatal(err)
					}
					after(time.Minute)
					if len(s.dead) != 1 || s.dead[0].Reminder.Failures != attempts-1 {
						t.Fatalf("%+v", s.dead)
					}
					d := s.dead[0]
					if _, err := a.Retry(w.Context(), "default", DeadLetterIDOf(&d)); err != nil {
						t.Fatal(err)
					}
					after(time.Minute)
					mu.Lock()
					defer mu.Unlock()
					for _, due := range delivered {
						if !due.Equal(d.Reminder.Due) {
							t.Errorf("delivered for %v, and the dead letter is of %v", delivered, d.Reminder.Due)
						}
					}
				})
			})
		}
	}
}
