package hosttest

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
)

// Turn is what a native actor's function gets.
type Turn struct {
	// Context ends when the guest is to be stopped. A function that waits for
	// anything must wait for it as well.
	Context context.Context
	Frame   *abi.Turn
	Calls   engine.Calls
	// Local is the memory of the instance: it stays from turn to turn.
	Local map[string]any
}

// CodeError is a host call that was refused.
type CodeError struct {
	Call string
	Code abi.Code
}

func (e *CodeError) Error() string { return fmt.Sprintf("%s: code %d", e.Call, e.Code) }

// check turns a refused host call into an error of the method, as SDKs do.
func check(call string, code abi.Code) error {
	if code == 0 {
		return nil
	}
	return &CodeError{Call: call, Code: code}
}

// Get returns the value of a key, empty when there is none.
func (t *Turn) Get(key string) (string, error) {
	value, _, code := t.Calls.StateGet([]byte(key))
	if code == abi.CodeNotFound {
		return "", nil
	}
	return string(value), check("state_get", code)
}

// Set sets a key to opaque bytes.
func (t *Turn) Set(key, value string) error {
	return check("state_set", t.Calls.StateSet([]byte(key), []byte(value), abi.FormatBytes))
}

// SetJSON sets a key to a JSON text.
func (t *Turn) SetJSON(key, value string) error {
	return check("state_set", t.Calls.StateSet([]byte(key), []byte(value), abi.FormatJSON))
}

// Yield is what a guest does when it has used its grant of fuel.
func (t *Turn) Yield(fuel uint64) {
	engine.Yield(t.Context, fuel)
	if err := stopped(t.Context); err != nil {
		t.End(err)
	}
}

// stopped is the outcome of a guest whose context has ended.
func stopped(ctx context.Context) error {
	switch ctx.Err() {
	case nil:
		return nil
	case context.DeadlineExceeded:
		return fmt.Errorf("run native actor: %w", actor.ErrDeadline)
	default:
		return fmt.Errorf("run native actor: %w", actor.ErrCanceled)
	}
}

// HTTP sends a request. As in a guest, nothing of the method runs after the host
// has ended its turn.
func (t *Turn) HTTP(r abi.HTTPRequest) abi.HTTPResponse {
	answer, err := t.Calls.HTTP(&r)
	if err != nil {
		t.End(err)
	}
	return answer
}

// Call runs a method of another actor and returns its reply. Its error is a
// [*actor.GuestError] with what the result says.
func (t *Turn) Call(typ, id, method, payload string) (string, error) {
	return t.CallWith(&abi.Message{Type: typ, ID: id, Method: method, Payload: []byte(payload)})
}

// CallWith is Call of any message.
func (t *Turn) CallWith(m *abi.Message) (string, error) {
	r, code, err := t.Calls.Call(m)
	switch {
	case err != nil:
		t.End(err)
	case code != 0:
		return "", check("call", code)
	case r.Status != 0:
		return "", &actor.GuestError{
			Status: actor.Status(r.Status), Code: r.Code, Message: r.Message, Retryable: r.Retryable,
			RetryAfter: time.Duration(r.RetryAfterMillis) * time.Millisecond, Detail: actor.Payload{ContentType: r.DetailContentType, Data: r.Detail},
		}
	}
	return string(r.Payload), nil
}

// Become changes the method set of the actor.
func (t *Turn) Become(set string) error { return check("become", t.Calls.Become([]byte(set))) }

// PassAway ends the life of the actor.
func (t *Turn) PassAway() error { return check("pass_away", t.Calls.PassAway()) }

// Claim has the actor stand for a service.
func (t *Turn) Claim(name string) error {
	return check("service_claim", t.Calls.ServiceClaim([]byte(name)))
}

// Release ends that, and reports whether it did stand for it.
func (t *Turn) Release(name string) (bool, error) {
	held, code := t.Calls.ServiceRelease([]byte(name))
	return held, check("service_release", code)
}

// Spawn makes a new actor of a type and returns its ID.
func (t *Turn) Spawn(typ string) (string, error) {
	id, code := t.Calls.Spawn([]byte(typ))
	return id, check("spawn", code)
}

// SpawnChild makes a new volatile child of a type and returns its ID.
func (t *Turn) SpawnChild(typ string, flags uint32) (string, error) {
	id, code := t.Calls.SpawnChild(typ, flags)
	if code != 0 {
		return "", fmt.Errorf("spawn_child: code %d: %s", code, t.Calls.Problem())
	}
	return id, nil
}

// Watch has the actor watch the host of another one, or with an empty method ends that; it reports
// whether the actor did watch.
func (t *Turn) Watch(typ, id, method string) (bool, error) {
	replaced, code := t.Calls.HostWatch(typ, id, method)
	if code != 0 {
		return false, fmt.Errorf("watch: code %d: %s", code, t.Calls.Problem())
	}
	return replaced, nil
}

// WatchService has the actor watch a service or a group of services, or with an empty method ends
// that; it reports whether the actor did watch.
func (t *Turn) WatchService(name, method string) (bool, error) {
	replaced, code := t.Calls.ServiceWatch(name, method)
	if code != 0 {
		return false, fmt.Errorf("watch: code %d: %s", code, t.Calls.Problem())
	}
	return replaced, nil
}

// Send sends a message.
func (t *Turn) Send(m *abi.Message) error {
	code, err := t.Calls.Send(m)
	if err != nil {
		t.End(err)
	}
	if code != 0 {
		return fmt.Errorf("send: code %d: %s", code, t.Calls.Problem())
	}
	return nil
}

// End ends the method with the error of a call of the host's, as an engine does.
func (t *Turn) End(err error) { panic(&ended{err}) }

// ended is thrown through a method whose turn the host has ended.
type ended struct{ err error }

// Number returns the number under a key, 0 when there is none.
func (t *Turn) Number(key string) (int64, error) {
	text, err := t.Get(key)
	if err != nil || text == "" {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// SetNumber sets a key to a number, in JSON.
func (t *Turn) SetNumber(key string, n int64) error {
	return t.SetJSON(key, strconv.FormatInt(n, 10))
}

// Add adds to the number under a key and returns the sum.
func (t *Turn) Add(key string, n int64) (int64, error) {
	was, err := t.Number(key)
	if err != nil {
		return 0, err
	}
	return was + n, t.SetNumber(key, was+n)
}

// Reply sets the reply.
func (t *Turn) Reply(text string) error {
	return check("reply", t.Calls.Reply("text/plain", []byte(text)))
}

// ReplyNumber sets the reply to a number in JSON.
func (t *Turn) ReplyNumber(n int64) error {
	return check("reply", t.Calls.Reply("", strconv.AppendInt(nil, n, 10)))
}

// Fail returns a guest error with a code, to be returned by the function.
func Fail(code string) error { return &actor.GuestError{Status: 9, Code: code, Message: code} }
