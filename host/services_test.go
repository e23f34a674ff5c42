package host_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// directory has the services that commits have claimed.
type directory struct {
	mu      sync.Mutex
	of      map[string]actor.Key
	commits int
	reads   int   // of names that are watched, and of all others
	down    error // what reads return; nil: who stands for the services
}

func (d *directory) FindService(_ context.Context, app, name string) (actor.Service, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reads++
	if of, ok := d.of[name]; ok && d.down == nil {
		return actor.Service{Name: name, Actor: of}, nil
	}
	return actor.Service{}, d.down
}

func (d *directory) ListServices(_ context.Context, q actor.ServiceQuery) (list []actor.Service, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reads++
	for _, name := range slices.Sorted(maps.Keys(d.of)) {
		if strings.HasPrefix(name, q.Prefix) && len(list) < q.Limit {
			list = append(list, actor.Service{Name: name, Actor: d.of[name]})
		}
	}
	return list, d.down
}

// read returns how often it was read.
func (d *directory) read() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reads
}

// setDown has reads fail with err, if it is not nil.
func (d *directory) setDown(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.down = err
}

func (d *directory) apply(c *actor.Commit) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.commits++
	for _, v := range c.Services {
		if !v.Release {
			d.of[v.Name] = v.Actor
		} else if d.of[v.Name] == v.Actor {
			delete(d.of, v.Name)
		}
	}
}

// want checks who stands for a service; empty: nobody.
func (d *directory) want(t *testing.T, name, id string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of[name].ID != id {
		t.Errorf("for %s stands %q, want %q", name, d.of[name].ID, id)
	}
}

// claims returns a host whose type T claims and releases services.
func claims(t *testing.T, placement string) (*stage, *directory) {
	t.Helper()
	d := &directory{of: make(map[string]actor.Key)}
	s := newStage(t, host.Config{Services: d})
	s.store.applying = d.apply
	release := func(t *hosttest.Turn) error {
		held, err := t.Release("mailer")
		return errors.Join(err, t.Reply(fmt.Sprint(held)))
	}
	s.world.Deploy("app", "T", hosttest.Actor{Placement: placement, Methods: map[string]hosttest.Func{
		"Claim": func(t *hosttest.Turn) error { return t.Claim("mailer") }, "Release": release,
		"ClaimAndLetRelease": func(t *hosttest.Turn) error {
			if err := t.Claim("mailer"); err != nil {
				return err
			}
			reply, err := t.Call("T", "b", "Release", "")
			return errors.Join(err, t.Reply(reply))
		},
		"ClaimMany": func(t *hosttest.Turn) error {
			for i := range 64 {
				if err := t.Claim(fmt.Sprint("s", i)); err != nil {
					return err
				}
			}
			err := t.Claim("one more")
			return t.Reply(fmt.Sprint(err, " ", t.Calls.Problem()))
		},
		"CallBoth": func(t *hosttest.Turn) error {
			for _, m := range []abi.Message{{Service: "mailer", ID: "b", Method: "Release"}, {Service: "mailer", Type: "T", Method: "Release"}} {
				if _, err := t.CallWith(&m); err == nil {
					return hosttest.Fail("a message that names an actor and a service was sent")
				}
			}
			return t.Reply("refused")
		},
	}})
	return s, d
}

// TestReleaseOfAServiceThatIsBeingClaimed: an actor that has just claimed a service gives it up, though the claim was not
// committed when it began to.
func TestReleaseOfAServiceThatIsBeingClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, d := claims(t, abi.PlacementRing)
		hold := make(chan struct{})
		s.store.setHold(hold)
		claimed := s.start(t.Context(), "a", "Claim")
		synctest.Wait()
		released := s.start(t.Context(), "a", "Release")
		synctest.Wait()
		s.store.setHold(nil)
		close(hold)
		if a := <-claimed; a.err != nil {
			t.Error(a.err)
		}
		if a := <-released; a.err != nil || a.reply != "true" {
			t.Errorf("%q, %v", a.reply, a.err)
		}
		d.want(t, "mailer", "")
	})
}

// TestReleaseOfWhatIsNotHeld: it changes nothing, neither in the store nor for who holds the service, and does not fail,
// also where another actor of the transaction has just claimed it.
func TestReleaseOfWhatIsNotHeld(t *testing.T) {
	both(t, func(t *testing.T, placement string) {
		s, d := claims(t, placement)
		release := func(want string) {
			t.Helper()
			before := d.commits
			if reply, err := s.call(t.Context(), "b", "Release"); err != nil || reply != want {
				t.Errorf("%q, %v", reply, err)
			}
			if d.commits != before {
				t.Error("it was committed")
			}
		}
		release("false")
		if reply, err := s.call(t.Context(), "a", "ClaimAndLetRelease"); err != nil || reply != "false" {
			t.Errorf("%q, %v", reply, err)
		}
		d.want(t, "mailer", "a")
		release("false")
		d.want(t, "mailer", "a")
		if reply, err := s.call(t.Context(), "a", "Release"); err != nil || reply != "true" {
			t.Errorf("%q, %v", reply, err)
		}
		d.want(t, "mailer", "")
	})
}

// TestServicesOfOneTurn: a turn claims 64 services and no more, and a message names a service or an actor.
func TestServicesOfOneTurn(t *testing.T) {
	both(t, func(t *testing.T, placement string) {
		s, d := claims(t, placement)
		reply, err := s.call(t.Context(), "a", "ClaimMany")
		if err != nil || !strings.Contains(reply, "may claim and release 64 services") {
			t.Errorf("%q, %v", reply, err)
		}
		for i := range 64 {
			d.want(t, fmt.Sprint("s", i), "a")
		}
		if _, err := s.call(t.Context(), "b", "Claim"); err != nil {
			t.Fatal(err)
		}
		if reply, err := s.call(t.Context(), "a", "CallBoth"); err != nil || reply != "refused" {
			t.Errorf("%q, %v", reply, err)
		}
		d.want(t, "mailer", "b")
	})
}
