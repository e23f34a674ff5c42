package host_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// TestSubscribeToUnknownTypes: a subscription begins only to an actor that may publish. What another host
// has deployed a moment ago is found, unless the deployments cannot be read, and a subscription that is
// there stays if its publisher's type is not deployed any more.
func TestSubscribeToUnknownTypes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := remind(t, host.Config{})
		idle := func(*hosttest.Turn) error { return nil }
		s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{
			"On": idle, "Other": idle,
			"Follow": func(t *hosttest.Turn) error {
				typ, method, _ := strings.Cut(string(t.Frame.Payload), " ")
				code, err := t.Calls.EventSubscribe(typ, "x", method)
				if err != nil {
					t.End(err)
				}
				return t.Reply(fmt.Sprint(code, " ", t.Calls.Problem()))
			},
		}})
		s.world.Deploy("app", "Stateless", hosttest.Actor{Placement: abi.PlacementStateless, Methods: map[string]hosttest.Func{"On": idle}})
		follow := func(what, code, says string) {
			t.Helper()
			reply, err := s.Invoke(t.Context(), actor.Invocation{Key: key("a"), Method: "Follow", Payload: actor.Payload{Data: []byte(what)}})
			if got := string(reply.Payload.Data); err != nil || !strings.HasPrefix(got, code) || !strings.Contains(got, says) {
				t.Errorf("%s: %q, %v; want %s %q", what, got, err, code, says)
			}
		}
		refused := fmt.Sprint(int(abi.CodeInvalid))
		follow("Late On", refused, "the app app has no type Late; deploy a module")
		follow("Stateless On", refused, "publisher is of the type Stateless, which is placed stateless")
		s.world.DeployElsewhere("app", "Late", hosttest.Actor{Methods: map[string]hosttest.Func{"On": idle}})
		time.Sleep(time.Second)
		s.world.FailRefresh(actor.ErrUnavailable)
		follow("Late On", fmt.Sprint(int(abi.CodeNotReady)), "cannot read the store now")
		s.world.FailRefresh(nil)
		follow("Late On", "0", "")
		s.world.Remove("app", "Late")
		follow("Late Other", "0", "")
	})
}

// TestEndsOfPublishers: the commit with which a publisher passes away publishes the end of its life, as
// the last event of that life; that of an actor that has published nothing does not.
func TestEndsOfPublishers(t *testing.T) {
	publish, pass, fail := op{Do: "publish", ID: "said", N: 7}, op{Do: "pass"}, op{Do: "fail"}
	call := func(id string, ops ...op) op { return op{Do: "call", ID: id, Ops: ops} }
	const end = actor.PassedAwayEvent
	for _, placement := range []string{abi.PlacementRing, abi.PlacementAny} {
		for name, c := range map[string]struct {
			turns [][]op // of a
			want  []string
		}{
			"in the turn of its last event": {[][]op{{publish, pass}}, []string{"a 0 said", "a 0 " + end}},
			"in a later turn":               {[][]op{{publish}, {pass}}, []string{"a 0 said", "a 0 " + end}},
			"nothing published":             {[][]op{{pass}}, nil},
			"two lives":                     {[][]op{{publish}, {pass}, {publish, publish}, {pass}}, []string{"a 0 said", "a 0 " + end, "a 1 said", "a 1 said", "a 1 " + end}},
			"a life without events":         {[][]op{{publish}, {pass}, {op{Do: "add", N: 1}}, {pass}}, []string{"a 0 said", "a 0 " + end, "a 1 " + end}},
			"a turn that fails":             {[][]op{{publish}, {pass, fail}}, []string{"a 0 said"}},
			"a called turn":                 {[][]op{{call("b", publish)}, {publish, call("b", pass)}}, []string{"b 0 said", "b 0 " + end, "a 0 said"}},
			"a called turn in two lives":    {[][]op{{call("b", publish, pass)}, {call("b", publish)}, {call("b", pass)}}, []string{"b 0 said", "b 0 " + end, "b 1 said", "b 1 " + end}},
			"a called turn, at once":        {[][]op{{call("b", publish, pass)}}, []string{"b 0 said", "b 0 " + end}},
			"a called turn that fails":      {[][]op{{call("b", publish)}, {call("b", pass, fail)}}, []string{"b 0 said"}},
			"a called turn of a silent one": {[][]op{{call("b", pass)}}, nil},
		} {
			t.Run(placement+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s, _ := remind(t, host.Config{})
					a := hosttest.ScriptedActor()
					a.Placement = placement
					s.world.Deploy("app", "T", a)
					var got []string
					s.store.applying = func(c *actor.Commit) {
						for _, e := range c.Events {
							got = append(got, fmt.Sprint(e.Key.ID, " ", e.Life, " ", e.Name))
						}
					}
					for _, ops := range c.turns {
						_, err := s.do(t, "a", ops...)
						if failing := ops[len(ops)-1].Do == fail.Do; (err != nil) != failing {
							t.Fatal(err)
						}
					}
					if !slices.Equal(got, c.want) {
						t.Errorf("published %q, want %q", got, c.want)
					}
				})
			})
		}
	}
}

// TestEndOfPublisherUnread: while the host cannot read whether an actor has published, its life does not
// end; a turn that has published itself needs not read that.
func TestEndOfPublisherUnread(t *testing.T) {
	for _, placement := range []string{abi.PlacementRing, abi.PlacementAny} {
		for _, called := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s, rems := remind(t, host.Config{})
				a := hosttest.ScriptedActor()
				a.Placement = placement
				s.world.Deploy("app", "T", a)
				pass := func(before ...op) error {
					ops := append(before, op{Do: "pass"})
					if called {
						ops = []op{{Do: "call", ID: "b", Ops: ops}}
					}
					_, err := s.do(t, map[bool]string{false: "b", true: "a"}[called], ops...)
					return err
				}
				lives := func() uint64 {
					rows, err := s.store.LoadActors(t.Context(), []actor.Key{key("b")}, actor.LoadOptions{})
					if err != nil {
						t.Fatal(err)
					}
					return rows[0].Life
				}
				rems.eventsFail = actor.ErrUnavailable
				if err := pass(); !errors.Is(err, actor.ErrUnavailable) || lives() != 0 {
					t.Errorf("%s, called %v: %v, and %d lives have ended", placement, called, err, lives())
				}
				if err := pass(op{Do: "publish", ID: "said"}); err != nil || lives() != 1 {
					t.Errorf("%s, called %v, with an event: %v, and %d lives have ended", placement, called, err, lives())
				}
			})
		}
	}
}

// TestReservedEvents: a guest publishes no event with a name of hosts.
func TestReservedEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := remind(t, host.Config{})
		s.world.Deploy("app", "T", hosttest.ScriptedActor())
		_, err := s.do(t, "a", op{Do: "publish", ID: actor.PassedAwayEvent})
		if want := fmt.Sprint("publish_", int(abi.CodeInvalid)); codeOf(err) != want {
			t.Errorf("%v, want %s", err, want)
		}
	})
}

// TestEndsOfPublishersHaveLinks: the end of a life has the link of the sampled call that ends it, as
// what a turn publishes has.
func TestEndsOfPublishersHaveLinks(t *testing.T) {
	publish, pass := op{Do: "publish", ID: "said", N: 7}, op{Do: "pass"}
	for _, placement := range []string{abi.PlacementRing, abi.PlacementAny} {
		for name, ops := range map[string][]op{
			"own":      {publish, pass},
			"called":   {{Do: "call", ID: "b", Ops: []op{publish, pass}}},
			"unlinked": {publish, pass},
		} {
			synctest.Test(t, func(t *testing.T) {
				s, _ := remind(t, host.Config{})
				a := hosttest.ScriptedActor()
				a.Placement = placement
				s.world.Deploy("app", "T", a)
				var trace *actor.Trace
				if name != "unlinked" {
					trace = actor.ParseTrace("00-2af7651916cd43dd8448eb211c80319c-c7ad6b7169203331-01")
				}
				ends := 0
				s.store.applying = func(c *actor.Commit) {
					for _, e := range c.Events {
						if e.Name == actor.PassedAwayEvent {
							ends++
							if e.Link != trace.Link() {
								t.Errorf("%s, %s: the end has the link %v, want %v", placement, name, e.Link, trace.Link())
							}
						}
					}
				}
				if _, err := s.Invoke(t.Context(), actor.Invocation{Key: key("a"), Method: "Do", Payload: actor.Payload{Data: []byte(script(ops...))}, Trace: trace}); err != nil {
					t.Fatal(err)
				}
				if ends != 1 {
					t.Errorf("%s, %s: %d lives have ended, want 1", placement, name, ends)
				}
			})
		}
	}
}
