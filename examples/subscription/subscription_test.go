package main

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actor/http"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actortest"
)

// provider takes payments.
type provider struct {
	h       *actortest.Harness
	decline func() bool
	asked   []time.Time
	charged map[string]int // by idempotency key
}

func newProvider(h *actortest.Harness) *provider {
	p := &provider{h: h, charged: map[string]int{}, decline: func() bool { return false }}
	h.HandleHTTP(func(r http.Request) (*http.Response, error) {
		p.asked = append(p.asked, h.Now())
		if p.decline() {
			return &http.Response{Status: 402}, nil
		}
		for _, header := range r.Headers {
			if header.Name == "idempotency-key" {
				p.charged[header.Value]++
			}
		}
		return &http.Response{Status: 201}, nil
	})
	return p
}

const day = 24 * time.Hour

func start(t *testing.T, h *actortest.Harness) {
	t.Helper()
	if err := h.Call("Subscription", "ada", "Start", Plan{Plan: "gold", Cents: 900}, nil); err != nil {
		t.Fatal(err)
	}
}

func view(t *testing.T, h *actortest.Harness) Subscription {
	t.Helper()
	var s Subscription
	if err := h.Call("Subscription", "ada", "View", nil, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestAYear plays a year, and the 31st of a month at that.
func TestAYear(t *testing.T) {
	h := actortest.New(t)
	h.Advance(30 * day) // the 31st of January
	p := newProvider(h)
	start(t, h)
	h.Advance(365 * day)
	if s := view(t, h); s.Status != Active || s.Billed != 13 {
		t.Errorf("after a year: %+v", s)
	}
	var days []int
	for _, at := range p.asked {
		days = append(days, at.Day())
	}
	if want := []int{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 31}; !slices.Equal(days, want) {
		t.Errorf("billed on the days %v, want %v", days, want)
	}
	for key, n := range p.charged {
		if n != 1 {
			t.Errorf("%s was charged %d times", key, n)
		}
	}
	if len(p.charged) != 13 {
		t.Errorf("%d months were charged", len(p.charged))
	}
}

// TestTwoFailures: the third attempt of a month is the one that counts, and the months
// after it come on their own days.
func TestTwoFailures(t *testing.T) {
	h := actortest.New(t)
	p := newProvider(h)
	p.decline = func() bool { return len(p.asked)%3 != 0 }
	start(t, h)
	h.Advance(58 * day)
	if s := view(t, h); s.Status != Active || s.Billed != 2 {
		t.Errorf("got %+v", s)
	}
	first := actortest.Start
	second := first.AddDate(0, 1, 0)
	want := []time.Time{first, first.Add(day), first.Add(2 * day), second, second.Add(day), second.Add(2 * day)}
	if !slices.EqualFunc(p.asked, want, time.Time.Equal) {
		t.Errorf("asked at %v, want %v", p.asked, want)
	}
}

func TestGivesUpAfterThree(t *testing.T) {
	h := actortest.New(t)
	p := newProvider(h)
	start(t, h)
	h.Advance(day)
	p.decline = func() bool { return true }
	h.Advance(365 * day)
	if s := view(t, h); s.Status != Unpaid || s.Billed != 1 {
		t.Errorf("got %+v", s)
	}
	if len(p.asked) != 1+attempts {
		t.Errorf("asked %d times", len(p.asked))
	}
	if left := h.Reminders(); len(left) != 0 || len(h.DeadLetters()) != 0 {
		t.Errorf("left are %+v and the dead letters %+v", left, h.DeadLetters())
	}
	p.decline = func() bool { return false }
	start(t, h)
	h.Advance(0)
	if s := view(t, h); s.Status != Active || s.Billed != 1 {
		t.Errorf("begun anew: %+v", s)
	}
}

func TestCancelEndsBilling(t *testing.T) {
	h := actortest.New(t)
	p := newProvider(h)
	start(t, h)
	h.Advance(45 * day)
	if err := h.Call("Subscription", "ada", "Cancel", nil, nil); err != nil {
		t.Fatal(err)
	}
	h.Advance(365 * day)
	if s := view(t, h); s.Status != Cancelled || s.Billed != 2 || len(p.asked) != 2 {
		t.Errorf("got %+v, asked %d times", s, len(p.asked))
	}
}

func TestNobodyElseBills(t *testing.T) {
	h := actortest.New(t)
	newProvider(h)
	start(t, h)
	var e *actor.Error
	if err := h.Call("Subscription", "ada", "Bill", nil, nil); !errors.As(err, &e) || e.Code != "not_yours" {
		t.Errorf("got %v", err)
	}
	if err := h.Call("Subscription", "ada", "Start", Plan{Plan: "gold", Cents: 1}, nil); !errors.As(err, &e) || e.Code != "already_active" {
		t.Errorf("got %v", err)
	}
	if err := h.Call("Subscription", "bob", "Start", Plan{}, nil); !errors.As(err, &e) || e.Code != "bad_plan" {
		t.Errorf("got %v", err)
	}
}

// TestWithoutAProvider: the configuration stands for one.
func TestWithoutAProvider(t *testing.T) {
	h := actortest.New(t)
	p := newProvider(h)
	h.SetConfig("payments", pretend)
	start(t, h)
	h.Advance(45 * day)
	if s := view(t, h); s.Status != Active || s.Billed != 2 {
		t.Errorf("pretended: %+v", s)
	}
	h.SetConfig("payments", refuse)
	h.Advance(45 * day)
	if s := view(t, h); s.Status != Unpaid || s.Billed != 2 || len(p.asked) != 0 {
		t.Errorf("refused: %+v, asked %d times", s, len(p.asked))
	}
}
