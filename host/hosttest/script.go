package hosttest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
)

// Op is one thing that a scripted method does. What it sees goes into its reply.
type Op struct {
	// Do is "add" to its number, "call" another actor, "must" call it, "fail" or "trap"; "remind"
	// and "cancel" a reminder of the actor that ID names, "names" of its reminders; "time" and
	// "untime" a timer; "send" a message to the actor that ID names, which adds the number there and does
	// Ops, and "tell" it the number; "publish" the number as an event that ID names; "claim" and
	// "release" a service; "become" what ID names, "pass" away, and "spawn" an actor of Type, whose ID is
	// in the memory of the instance.
	Do  string `json:"do"`
	N   int64  `json:"n,omitempty"`
	ID  string `json:"id,omitempty"`
	Ops []Op   `json:"ops,omitempty"`
	// Type is that of the actor to call; empty: that of the caller.
	Type string `json:"type,omitempty"`
	// Look calls the read-only method, and Again the one that may be called by turns that the
	// actor's own waits for.
	Look  bool `json:"look,omitempty"`
	Again bool `json:"again,omitempty"`
}

// Message is the payload of what "send" sends.
func (o *Op) Message() string { return Script(append([]Op{{Do: "add", N: o.N}}, o.Ops...)...) }

// Script is the payload of a method that does all that.
func Script(ops ...Op) string {
	text, err := json.Marshal(ops)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Scripted is a method that does what its payload says.
func Scripted(t *Turn) error {
	var ops []Op
	if err := json.Unmarshal(t.Frame.Payload, &ops); err != nil {
		return err
	}
	if err := trustCache(t); err != nil {
		return err
	}
	var seen []string
	for _, o := range ops {
		switch o.Do {
		case "add":
			n, err := t.Add("n", o.N)
			var refused *CodeError
			switch {
			case errors.As(err, &refused):
				return Fail(fmt.Sprintf("add_%d", refused.Code))
			case err != nil:
				return err
			}
			t.Local[t.Frame.ID] = cached{t.Calls.StateRevision(), n}
			seen = append(seen, fmt.Sprint(n))
		case "call", "must":
			method := "Do"
			if o.Look {
				method = "Look"
			}
			if o.Again {
				method += "Again"
			}
			reply, err := t.Call(cmp.Or(o.Type, t.Frame.Type), o.ID, method, Script(o.Ops...))
			var refused *actor.GuestError
			switch {
			case errors.As(err, &refused) && o.Do == "call":
				reply = refused.Code
			case err != nil:
				return err
			}
			seen = append(seen, "("+reply+")")
		case "fail":
			return Fail("on_purpose")
		case "trap":
			panic("on purpose")
		default:
			did, err := sideEffect(t, &o)
			if err != nil {
				return err
			}
			seen = append(seen, did)
		}
	}
	return t.Reply(strings.Join(seen, " "))
}

// sideEffect does something that is not state, and returns what is to be seen of that.
func sideEffect(t *Turn, o *Op) (string, error) {
	var did any
	var code abi.Code
	var err error
	switch o.Do {
	case "remind":
		code = t.Calls.ReminderSet(&abi.Reminder{Name: o.ID, Method: "Do", Payload: []byte(Script(o.Ops...)), DelayNano: int64(time.Hour)})
		did = "set"
	case "cancel":
		code = t.Calls.ReminderCancel([]byte(o.ID))
		did = "canceled"
	case "names":
		var list []byte
		if list, code, err = t.Calls.ReminderNames(nil); err == nil {
			did, err = abi.DecodeKeyList(list)
		}
	case "time":
		did, code = t.Calls.TimerSet(&abi.Reminder{Name: o.ID, Method: "Do", Payload: []byte(Script(o.Ops...)), DelayNano: max(1, o.N) * int64(time.Second)})
	case "untime":
		did, code = t.Calls.TimerCancel([]byte(o.ID))
	case "send":
		code, err = t.Calls.Send(&abi.Message{Type: cmp.Or(o.Type, t.Frame.Type), ID: o.ID, Method: "Do", Payload: []byte(o.Message())})
		did = "sent"
	case "tell":
		code, err = t.Calls.Send(&abi.Message{Type: cmp.Or(o.Type, t.Frame.Type), ID: o.ID, Method: "Hear", Payload: fmt.Append(nil, o.N), Flags: abi.MessageVolatile})
		did = "told"
	case "publish":
		did, code = "published", t.Calls.Publish(o.ID, "", fmt.Append(nil, o.N))
	case "claim":
		did, code = "claimed", t.Calls.ServiceClaim([]byte(o.ID))
	case "release":
		did, code = t.Calls.ServiceRelease([]byte(o.ID))
	case "become":
		did, code = o.ID, t.Calls.Become([]byte(o.ID))
	case "pass":
		did, code = "passed", t.Calls.PassAway()
	case "spawn":
		var id string
		if id, code = t.Calls.Spawn([]byte(o.Type)); code == 0 {
			t.Local["spawned"] = id
		}
		did = "spawned"
	}
	if err != nil {
		t.End(err)
	}
	if code != 0 {
		return "", Fail(fmt.Sprintf("%s_%d", o.Do, code))
	}
	return fmt.Sprint(did), nil
}

// cached is what an instance remembers of an actor, as SDKs do.
type cached struct {
	revision uint64
	n        int64
}

// trustCache fails the turn if what the instance remembers of the actor looks current and is
// not.
func trustCache(t *Turn) error {
	n, err := t.Number("n")
	if c, ok := t.Local[t.Frame.ID].(cached); ok && c.revision == t.Frame.Revision && c.n != n {
		return fmt.Errorf("revision %d has %d, and had %d", c.revision, n, c.n)
	}
	return err
}

// Look is a read-only method that replies with the number.
func Look(t *Turn) error {
	if err := trustCache(t); err != nil {
		return err
	}
	n, err := t.Number("n")
	return errors.Join(err, t.Reply(fmt.Sprint(n)))
}

// Hear notes a number that an actor tells another one.
func Hear(t *Turn) error {
	heard, err := heardFrom(t, t.Frame.CallerID)
	return errors.Join(err, t.SetJSON("heard "+t.Frame.CallerID, strconv.Quote(heard+" "+string(t.Frame.Payload))))
}

// Heard replies with what an actor has heard from the one that the payload names.
func Heard(t *Turn) error {
	heard, err := heardFrom(t, string(t.Frame.Payload))
	return errors.Join(err, t.Reply(heard))
}

func heardFrom(t *Turn, id string) (string, error) {
	heard, err := t.Get("heard " + id)
	return strings.Trim(heard, `"`), err
}

// ScriptedActor is an actor whose methods do what a script says.
func ScriptedActor() Actor {
	return Actor{
		Methods:  map[string]Func{"Do": Scripted, "DoAgain": Scripted, "Hear": Hear},
		ReadOnly: map[string]Func{"Look": Look, "LookAgain": Look, "See": Scripted, "Heard": Heard}, Reentrant: []string{"DoAgain", "LookAgain"},
		Life: Life{Sets: map[string][]string{"Do": {"open", "closed"}, "DoAgain": {"open"}}},
	}
}
