package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// kidOp is a part of what a turn of a parent or of a child does, which its payload says.
type kidOp struct {
	// Do is add (N to the actor's number), look (at it), new and share (children), call, must, tell, fail,
	// trap, pass, or gate, which waits.
	Do  string  `json:"do"`
	To  string  `json:"to,omitempty"` // an ID; that of a parent has no control character
	N   int64   `json:"n,omitempty"`
	Ops []kidOp `json:"ops,omitempty"`
}

// kids are the actors of tests of children: parents of the type T, and children of the type Kid.
type kids struct {
	*stage
	gate chan struct{} // closed: nothing waits

	mu     sync.Mutex
	events []string // what turns have begun and ended
}

func newKids(t *testing.T, cfg host.Config) *kids {
	k := &kids{gate: make(chan struct{})}
	if cfg.Committer == nil {
		k.stage, _ = remind(t, cfg)
	} else {
		k.stage = newStage(t, cfg)
	}
	close(k.gate)
	k.world.Deploy("app", "T", k.actor())
	k.world.Deploy("app", "Kid", k.actor())
	return k
}

func (k *kids) actor() hosttest.Actor {
	return hosttest.Actor{
		Methods:  map[string]hosttest.Func{"Do": k.run, "Undelivered": k.undelivered, "Private": k.run},
		ReadOnly: map[string]hosttest.Func{"Look": k.run},
		Private:  []string{"Private"},
	}
}

func (k *kids) note(text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.events = append(k.events, text)
}

// took returns what was noted.
func (k *kids) took() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	text := strings.Join(k.events, ", ")
	k.events = nil
	return text
}

func kidName(id string) string {
	if id[0] < ' ' {
		return "kid"
	}
	return id
}

func (k *kids) undelivered(t *hosttest.Turn) error {
	k.note(fmt.Sprintf("%s undelivered %s", kidName(t.Frame.ID), t.Frame.Failed))
	_, err := t.Add(t.Frame.Failed, 1)
	return err
}

func kidType(id string) string {
	if id != "" && id[0] < ' ' {
		return "Kid"
	}
	return "T"
}

func (k *kids) run(t *hosttest.Turn) error {
	var ops []kidOp
	if len(t.Frame.Payload) > 0 {
		if err := json.Unmarshal(t.Frame.Payload, &ops); err != nil {
			return err
		}
	}
	var reply []string
	for _, o := range ops {
		text, err := k.op(t, o)
		if err != nil {
			return err
		}
		if text != "" {
			reply = append(reply, text)
		}
	}
	return t.Reply(strings.Join(reply, " "))
}

func (k *kids) op(t *hosttest.Turn, o kidOp) (string, error) {
	switch o.Do {
	case "add":
		n, err := t.Add("n", o.N)
		return fmt.Sprint(n), err
	case "look":
		n, err := t.Number("n")
		return fmt.Sprint(n), err
	case "see":
		n, err := t.Number("n")
		gone, err2 := t.Number("passed_away")
		failed, err3 := t.Number("on_purpose")
		return fmt.Sprintf("%d/%d/%d", n, gone, failed), errors.Join(err, err2, err3)
	case "new", "share":
		flags := uint32(0)
		if o.Do == "share" {
			flags = abi.ChildShared
		}
		id, err := t.SpawnChild("Kid", flags)
		if err != nil {
			return "", hosttest.Fail(err.Error())
		}
		return id, nil
	case "call", "must":
		text, err := json.Marshal(o.Ops)
		if err != nil {
			return "", err
		}
		reply, err := t.Call(kidType(o.To), o.To, "Do", string(text))
		var failed *actor.GuestError
		if errors.As(err, &failed) && o.Do == "call" {
			return "(" + failed.Code + ")", nil
		}
		return "(" + reply + ")", err
	case "read":
		reply, err := t.Call(kidType(o.To), o.To, "Look", `[{"do":"look"}]`)
		return "(" + reply + ")", err
	case "tell":
		text, err := json.Marshal(o.Ops)
		if err != nil {
			return "", err
		}
		err = t.Send(&abi.Message{Type: kidType(o.To), ID: o.To, Method: "Do", Payload: text, Flags: abi.MessageVolatile, Undelivered: "Undelivered"})
		if err != nil {
			return "", &actor.GuestError{Status: 9, Code: "untold", Message: err.Error()}
		}
		return "", nil
	case "later":
		text, err := json.Marshal(o.Ops)
		if err != nil {
			return "", err
		}
		return "", t.Send(&abi.Message{Type: kidType(o.To), ID: o.To, Method: "Do", Payload: text, Flags: abi.MessageVolatile, DelayNano: int64(40 * time.Second)})
	case "note":
		n, err := t.Number("n")
		k.note(fmt.Sprintf("%s %d from %s", kidName(t.Frame.ID), n, kidName(t.Frame.CallerID+"-")))
		return "", err
	case "say":
		k.note("said")
	case "gate":
		gate := k.gate
		k.note(kidName(t.Frame.ID) + " waits")
		<-gate
		k.note(kidName(t.Frame.ID) + " goes on")
	case "fail":
		return "", hosttest.Fail("on_purpose")
	case "trap":
		panic("on purpose")
	case "pass":
		return "passed", t.PassAway()
	}
	return "", nil
}

// do runs a turn of a parent.
func (k *kids) do(ctx context.Context, id string, ops ...kidOp) (string, error) {
	text, err := json.Marshal(ops)
	if err != nil {
		return "", err
	}
	r, err := k.Invoke(ctx, actor.Invocation{Key: key(id), Method: "Do", Payload: actor.Payload{Data: text}})
	return string(r.Payload.Data), err
}

// must is do of a turn that ends well.
func (k *kids) must(t *testing.T, id string, ops ...kidOp) string {
	t.Helper()
	reply, err := k.do(t.Context(), id, ops...)
	if err != nil {
		t.Fatalf("%+v: %v", ops, err)
	}
	return reply
}

func (k *kids) want(t *testing.T, want string, id string, ops ...kidOp) {
	t.Helper()
	if got := k.must(t, id, ops...); got != want {
		t.Errorf("%+v: %q, want %q", ops, got, want)
	}
}

func (k *kids) wantNoted(t *testing.T, want string) {
	t.Helper()
	synctest.Wait()
	if got := k.took(); got != want {
		t.Errorf("it happened: %q, want %q", got, want)
	}
}

func kidAdd(n int64) kidOp { return kidOp{Do: "add", N: n} }

func kidCall(id string, ops ...kidOp) kidOp { return kidOp{Do: "call", To: id, Ops: ops} }

func kidTell(id string, ops ...kidOp) kidOp { return kidOp{Do: "tell", To: id, Ops: ops} }

var kidNew, kidShare, kidLook, kidNote, kidFail, kidTrap, kidPass = kidOp{Do: "new"}, kidOp{Do: "share"}, kidOp{Do: "look"}, kidOp{Do: "note"}, kidOp{Do: "fail"}, kidOp{Do: "trap"}, kidOp{Do: "pass"}

// eachMailbox runs a test with children that have their own mailbox, and with such that share.
func eachMailbox(t *testing.T, test func(t *testing.T, spawn kidOp)) {
	for _, spawn := range []kidOp{kidNew, kidShare} {
		t.Run(spawn.Do, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, spawn) })
		})
	}
}
