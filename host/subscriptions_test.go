package host_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// TestSubscribeToNobody: a subscription begins only to an actor that may publish. What another host
// has deployed a moment ago is found, and a subscription that is there stays if its publisher's type is
// not deployed any more.
func TestSubscribeToNobody(t *testing.T) {
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
		follow("Late On", "0", "")
		s.world.Remove("app", "Late")
		follow("Late Other", "0", "")
	})
}
