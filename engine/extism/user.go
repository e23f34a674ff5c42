package extism

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine/confine"
	"github.com/greenroom-run/greenroom/engine/guest"
)

// userFuncs lists the functions that a host of Greenroom adds: docs/extism.md has
// the same table. An i64 is the offset of a block of memory, 0 for none, unless
// the table there says that it is a number.
func userFuncs() []hostFunc {
	none, one, two, three := []byte(nil), []byte{i64}, []byte{i64, i64}, []byte{i64, i64, i64}
	user := func(name string, params, results []byte, call func(*call, []uint64)) hostFunc {
		return hostFunc{userModule, "greenroom_" + name, params, results, call}
	}
	return []hostFunc{
		user("state_get", one, one, stateGet),
		user("state_set", two, none, stateSet),
		user("state_set_bytes", two, none, stateSetBytes),
		user("state_delete", one, one, stateDelete),
		user("state_delete_all", none, one, stateDeleteAll),
		user("state_keys", one, one, stateKeys),
		user("state_json", none, one, stateJSON),
		user("state_patch", two, one, statePatch),
		user("state_version", none, one, stateVersion),
		user("state_revision", none, one, stateRevision),
		user("self", none, one, self),
		user("reply_type", one, none, replyType),
		user("fail", one, none, fail),
		user("config_get", one, one, ownConfigGet),
		user("secret_get", one, one, ownSecretGet),
		user("reminder_set", one, none, reminderSet),
		user("reminder_cancel", one, none, reminderCancel),
		user("reminder_get", one, one, reminderGet),
		user("reminder_names", one, one, reminderNames),
		user("timer_set", one, one, timerSet),
		user("timer_cancel", one, one, timerCancel),
		user("call", one, one, callActor),
		user("send", one, none, send),
		user("spawn", one, one, spawn),
		user("spawn_child", two, one, spawnChild),
		user("become", one, none, become),
		user("pass_away", none, none, passAway),
		user("service_claim", one, none, serviceClaim),
		user("service_release", one, one, serviceRelease),
		user("event_publish", two, none, eventPublish),
		user("event_subscribe", three, none, eventSubscribe),
		user("event_unsubscribe", two, one, eventUnsubscribe),
		user("host_watch", three, one, hostWatch),
		user("service_watch", two, one, serviceWatch),
		user("now", none, one, now),
		user("random", one, one, random),
		user("log", two, none, logLevel),
	}
}

func stateGet(c *call, s []uint64) {
	value, _, code := c.turn().calls.StateGet(c.bytes(s[0]))
	if code == abi.CodeNotFound {
		s[0] = 0
		return
	}
	c.refuse(code)
	s[0] = c.block(value)
}

func stateSet(c *call, s []uint64) { c.set(s, abi.FormatJSON) }

func stateSetBytes(c *call, s []uint64) { c.set(s, abi.FormatBytes) }

func (c *call) set(s []uint64, format abi.Format) {
	key := c.copied(s[0])
	value := c.bytes(s[1])
	if format == abi.FormatJSON && !json.Valid(value) {
		panic(&actor.GuestError{Status: statusInvalidArgument, Code: "invalid_value", Message: fmt.Sprintf(
			"%s was given a value for %q that is not JSON; use greenroom_state_set_bytes for it", c.function, guest.Text(head(key, abi.MaxStateKeyLen)))})
	}
	c.refuse(c.turn().calls.StateSet(key, value, format))
}

func stateDelete(c *call, s []uint64) {
	existed, code := c.turn().calls.StateDelete(c.bytes(s[0]))
	c.refuse(code)
	s[0] = 0
	if existed {
		s[0] = 1
	}
}

func stateDeleteAll(c *call, s []uint64) {
	n, code := c.turn().calls.StateDeleteAll()
	c.refuse(code)
	s[0] = uint64(n)
}

func stateKeys(c *call, s []uint64) {
	list, code := c.turn().calls.StateKeys(c.bytes(s[0]))
	c.refuse(code)
	s[0] = c.names(list)
}

// names puts the names of an encoded list into a block.
func (c *call) names(list []byte) uint64 {
	names, err := abi.DecodeKeyList(list)
	if err != nil {
		panic(fmt.Errorf("the host's list of names: %w", err)) // our bug
	}
	if names == nil {
		names = []string{}
	}
	return c.block(mustJSON(names))
}

func stateJSON(c *call, s []uint64) {
	object, code := c.turn().calls.StateJSON()
	c.refuse(code)
	s[0] = c.block(object)
}

func statePatch(c *call, s []uint64) {
	before := c.copied(s[0])
	n, code := c.turn().calls.StatePatch(before, c.bytes(s[1]))
	c.refuse(code)
	s[0] = uint64(n)
}

func stateVersion(c *call, s []uint64) { s[0] = c.turn().calls.StateVersion() }

func stateRevision(c *call, s []uint64) { s[0] = c.turn().calls.StateRevision() }

// self tells a plug-in whose turn it runs.
func self(c *call, s []uint64) {
	f := c.turn().frame
	s[0] = c.block(mustJSON(struct {
		App         string    `json:"app"`
		Type        string    `json:"type"`
		ID          string    `json:"id"`
		Method      string    `json:"method"`
		Invocation  string    `json:"invocation_id"`
		ContentType string    `json:"content_type"`
		ReadOnly    bool      `json:"read_only"`
		MethodSet   string    `json:"method_set,omitempty"`
		Reminder    *fired    `json:"reminder,omitempty"`
		Timer       *timed    `json:"timer,omitempty"`
		Caller      *party    `json:"caller,omitempty"`
		Message     *received `json:"message,omitempty"`
		Undelivered *received `json:"undelivered,omitempty"`
		Event       *pulled   `json:"event,omitempty"`
		Watch       *watched  `json:"watch,omitempty"`
	}{
		f.App, f.Type, f.ID, f.Method, f.InvocationID, contentType(f.ContentType), f.Flags&abi.FlagReadOnly != 0, f.MethodSet,
		firedBy(f), timedBy(f), calledBy(f), receivedBy(f, abi.CauseMessage), receivedBy(f, abi.CauseUndelivered), pulledBy(f), watchedBy(f),
	}))
}

func contentType(s string) string {
	if s == "" {
		return actor.ContentTypeJSON
	}
	return s
}

// maxContentTypeBytes is far above any media type.
const maxContentTypeBytes = 256

func replyType(c *call, s []uint64) {
	text := c.bytes(s[0])
	if len(text) > maxContentTypeBytes || bytes.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		panic(&actor.GuestError{Status: statusInvalidArgument, Code: "invalid_content_type", Message: c.function + " was given what is no media type"})
	}
	c.turn().replyType = string(text)
}

func fail(c *call, s []uint64) {
	e, err := decodeFailure(c.bytes(s[0]))
	if err != nil {
		panic(&actor.GuestError{Status: statusInvalidArgument, Code: "invalid_error", Message: fmt.Sprintf("%s was given %v", c.function, err)})
	}
	c.turn().failed = e
}

// failure is the error of a plug-in as greenroom_fail takes it.
type failure struct {
	Status    json.RawMessage `json:"status"` // a gRPC code number or its name
	Code      string          `json:"code"`
	Message   string          `json:"message"`
	Retryable bool            `json:"retryable"`
	Detail    json.RawMessage `json:"detail"`
	// RetryAfterMillis counts with Retryable.
	RetryAfterMillis uint32 `json:"retry_after_ms"`
}

func decodeFailure(text []byte) (*actor.GuestError, error) {
	var f failure
	if err := decodeStrictly(text, &f); err != nil {
		return nil, fmt.Errorf("an error that is not as docs/extism.md has it: %w", err)
	}
	if len(f.Detail) > abi.MaxErrorDetailLen {
		return nil, fmt.Errorf("a detail of %d bytes; at most %d are allowed", len(f.Detail), abi.MaxErrorDetailLen)
	}
	status, err := decodeStatus(f.Status)
	if err != nil {
		return nil, err
	}
	if !f.Retryable {
		f.RetryAfterMillis = 0
	}
	return &actor.GuestError{
		RetryAfter: time.Duration(f.RetryAfterMillis) * time.Millisecond,
		Status:     status, Code: f.Code, Message: f.Message, Retryable: f.Retryable,
		Detail: actor.Payload{Data: append([]byte(nil), f.Detail...)},
	}, nil
}

func decodeStatus(raw json.RawMessage) (actor.Status, error) {
	if len(raw) == 0 {
		return statusUnknown, nil
	}
	var number uint16
	if json.Unmarshal(raw, &number) == nil && number > 0 && int(number) < len(statusNames) {
		return actor.Status(number), nil
	}
	var name string
	if json.Unmarshal(raw, &name) == nil {
		for n, known := range statusNames {
			if n > 0 && name == known {
				return actor.Status(n), nil
			}
		}
	}
	return 0, errors.New("a status that is none: give 1 to 16 or a name such as failed_precondition")
}

// callActor runs a method of another actor. Its error is a result, with which the plug-in
// may go on.
func callActor(c *call, s []uint64) {
	m, err := decodeCall(c.copied(s[0]))
	if err != nil {
		panic(&actor.GuestError{Status: statusInvalidArgument, Code: abi.CallInvalid, Message: c.function + " was given a call that is not as docs/extism.md has it: " + err.Error()})
	}
	calls := c.turn().calls
	fuel := calls.Fuel()
	fuel.Running = c.instance.tank.Used()
	r, code, err := calls.Call(m)
	c.instance.tank.Lower(fuel.Remaining())
	if err != nil {
		panic(&confine.Stop{Err: err})
	}
	c.refuse(code)
	s[0] = c.block(encodeResult(r))
}

func now(c *call, s []uint64) { s[0] = uint64(c.instance.nowUnixNano()) }

// maxRandom bounds one call of greenroom_random, in bytes.
const maxRandom = 64 << 10

func random(c *call, s []uint64) {
	if s[0] > maxRandom {
		panic(&actor.GuestError{Status: statusInvalidArgument, Code: "invalid_size", Message: fmt.Sprintf(
			"%s was asked for %d bytes; at most %d are given at once", c.function, s[0], maxRandom)})
	}
	p := make([]byte, s[0])
	c.instance.random(p)
	s[0] = c.block(p)
}

func logLevel(c *call, s []uint64) { c.log(int32(uint32(s[0])), s[1]) }

// refused is the error of a host function that was refused, in the words that the
// SDKs use.
func refused(function string, code abi.Code) *actor.GuestError {
	e := &actor.GuestError{Status: statusFailedPrecondition}
	switch code {
	case abi.CodeReadOnly:
		e.Code, e.Message = "read_only", "a read-only method may not change anything"
	case abi.CodeNoState:
		e.Code, e.Message = "no_state", "actors of a stateless type have no state"
	case abi.CodeInvalid:
		e.Status, e.Code, e.Message = statusInvalidArgument, "invalid_key", "a state key must have 1 to 512 bytes of UTF-8, and a patch needs two JSON objects"
	case abi.CodeDenied:
		e.Status, e.Code, e.Message = actor.Status(abi.StatusPermissionDenied), "denied", "the type's manifest does not declare it; name it in \"capabilities\""
	case abi.CodeNotReady:
		e.Status, e.Code, e.Message, e.Retryable = actor.Status(abi.StatusUnavailable), "not_ready", "the host cannot give it now", true
	case abi.CodeTooMany:
		e.Status, e.Code, e.Message = statusResourceExhausted, "too_many", "the turn has done that as often as it may"
	case abi.CodeFull:
		e.Status, e.Code, e.Message, e.Retryable = statusResourceExhausted, "inbox_full", "the receiver has as many messages as it may", true
	case abi.CodeTaken:
		e.Status, e.Code, e.Message = actor.Status(abi.StatusAlreadyExists), "taken", "another actor stands for the service"
	case abi.CodeOver:
		e.Code, e.Message = "life_over", "the turn has ended its actor's life"
	case abi.CodeTooLarge:
		e.Status, e.Code, e.Message = statusResourceExhausted, "too_large", "larger than the host's limit"
	default:
		e.Status, e.Code, e.Message = statusUnknown, "host_error", fmt.Sprintf("the host answered with code %d", code)
	}
	e.Message = function + ": " + e.Message
	return e
}
