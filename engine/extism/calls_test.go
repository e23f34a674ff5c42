package extism

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/engine/enginetest"
)

// fakeCalls is a turn of one actor with its state in a map.
type fakeCalls struct {
	enginetest.Reminders
	enginetest.Timers
	enginetest.Calls
	enginetest.Life
	state    map[string]string
	formats  map[string]abi.Format
	reply    *actor.Payload
	failed   *actor.GuestError
	logs     []string
	rand     *rand.ChaCha8
	fuel     engine.Fuel
	readOnly bool
	gives    map[string]string // "config NAME" and "secret NAME"
	requests []abi.HTTPRequest
	answer   abi.HTTPResponse
	panics   bool
	maxReply int
}

func newCalls() *fakeCalls {
	return &fakeCalls{state: map[string]string{}, formats: map[string]abi.Format{}, rand: rand.NewChaCha8([32]byte{1}), maxReply: 100_000}
}

func (f *fakeCalls) ConfigGet(name []byte) ([]byte, abi.Code) { return f.given("config ", name) }
func (f *fakeCalls) SecretGet(name []byte) ([]byte, abi.Code) { return f.given("secret ", name) }

func (f *fakeCalls) given(kind string, name []byte) ([]byte, abi.Code) {
	if value, ok := f.gives[kind+string(name)]; ok {
		return []byte(value), 0
	}
	return nil, abi.CodeDenied
}

func (f *fakeCalls) HTTP(r *abi.HTTPRequest) (abi.HTTPResponse, error) {
	f.requests = append(f.requests, *r)
	return f.answer, nil
}

func (f *fakeCalls) write() abi.Code {
	if f.readOnly {
		return abi.CodeReadOnly
	}
	return 0
}

func (f *fakeCalls) StateGet(key []byte) ([]byte, abi.Format, abi.Code) {
	if f.panics {
		panic("the host is broken")
	}
	if len(key) == 0 {
		return nil, 0, abi.CodeInvalid
	}
	v, ok := f.state[string(key)]
	if !ok {
		return nil, 0, abi.CodeNotFound
	}
	return []byte(v), f.formats[string(key)], 0
}

func (f *fakeCalls) StateSet(key, value []byte, format abi.Format) abi.Code {
	if code := f.write(); code != 0 {
		return code
	}
	f.state[string(key)], f.formats[string(key)] = string(value), format
	return 0
}

func (f *fakeCalls) StateDelete(key []byte) (bool, abi.Code) {
	_, ok := f.state[string(key)]
	delete(f.state, string(key))
	return ok, f.write()
}

func (f *fakeCalls) StateDeleteAll() (int, abi.Code) {
	n := len(f.state)
	clear(f.state)
	return n, f.write()
}

func (f *fakeCalls) StateKeys(prefix []byte) ([]byte, abi.Code) {
	keys := slices.Sorted(maps.Keys(f.state))
	keys = slices.DeleteFunc(keys, func(k string) bool { return !strings.HasPrefix(k, string(prefix)) })
	return abi.AppendKeyList(nil, keys), 0
}

func (f *fakeCalls) StateJSON() ([]byte, abi.Code) {
	all := map[string]json.RawMessage{}
	for k, v := range f.state {
		all[k] = json.RawMessage(v)
	}
	text, err := json.Marshal(all)
	if err != nil {
		return nil, abi.CodeInvalid
	}
	return text, 0
}

func (f *fakeCalls) StatePatch(before, after []byte) (int, abi.Code) {
	var now map[string]json.RawMessage
	if json.Unmarshal(after, &now) != nil {
		return 0, abi.CodeInvalid
	}
	for k, v := range now {
		f.StateSet([]byte(k), v, abi.FormatJSON)
	}
	return len(now), f.write()
}

func (f *fakeCalls) StateVersion() uint64  { return 7 }
func (f *fakeCalls) StateRevision() uint64 { return 8 }

func (f *fakeCalls) Reply(contentType string, payload []byte) abi.Code {
	if len(payload) > f.maxReply {
		return abi.CodeTooLarge
	}
	f.reply = &actor.Payload{ContentType: contentType, Data: slices.Clone(payload)}
	return 0
}

func (f *fakeCalls) Fail(e *actor.GuestError) abi.Code { f.failed = e; return 0 }

func (f *fakeCalls) Now() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC) }

func (f *fakeCalls) Random(p []byte) { f.rand.Read(p) }

func (f *fakeCalls) Log(level int32, text string) {
	f.logs = append(f.logs, map[int32]string{-4: "debug", 0: "info", 4: "warn", 8: "error"}[level]+": "+text)
}

func (f *fakeCalls) Fuel() *engine.Fuel { return &f.fuel }
