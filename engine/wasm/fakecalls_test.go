package wasm

import (
	"encoding/binary"
	"encoding/json"
	"math/rand/v2"
	"sort"
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
	state    map[string][]byte
	formats  map[string]abi.Format
	revision uint64
	reply    *actor.Payload
	failed   *actor.GuestError
	logs     []logLine
	clock    time.Time
	rand     *rand.ChaCha8
	fuel     engine.Fuel
	gives    map[string]string // "config NAME" and "secret NAME"
	requests []abi.HTTPRequest
	answer   abi.HTTPResponse
	httpErr  error
	code     abi.Code // answered by writes, if not 0
	panics   bool
}

type logLine struct {
	level int32
	text  string
}

func newCalls() *fakeCalls {
	return &fakeCalls{
		state: map[string][]byte{}, formats: map[string]abi.Format{},
		clock: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), rand: rand.NewChaCha8([32]byte{1}),
	}
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
	return f.answer, f.httpErr
}

func (f *fakeCalls) StateGet(key []byte) ([]byte, abi.Format, abi.Code) {
	if f.panics {
		panic("the host is broken")
	}
	v, ok := f.state[string(key)]
	if !ok {
		return nil, 0, abi.CodeNotFound
	}
	return v, f.formats[string(key)], 0
}

func (f *fakeCalls) StateSet(key, value []byte, format abi.Format) abi.Code {
	if f.code != 0 {
		return f.code
	}
	f.revision++
	f.state[string(key)] = append([]byte(nil), value...)
	f.formats[string(key)] = format
	return 0
}

func (f *fakeCalls) StateDelete(key []byte) (bool, abi.Code) {
	_, ok := f.state[string(key)]
	delete(f.state, string(key))
	return ok, 0
}

func (f *fakeCalls) StateDeleteAll() (int, abi.Code) {
	n := len(f.state)
	clear(f.state)
	return n, 0
}

func (f *fakeCalls) keys() []string {
	var ks []string
	for k := range f.state {
		ks = append(ks, k)
	}
	sort.Strings(ks)
	return ks
}

func (f *fakeCalls) StateKeys([]byte) ([]byte, abi.Code) {
	return abi.AppendKeyList(nil, f.keys()), 0
}

func (f *fakeCalls) StateJSON() ([]byte, abi.Code) {
	out := []byte{'{'}
	for i, k := range f.keys() {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, '"'), k...), '"', ':')
		out = append(out, f.state[k]...)
	}
	return append(out, '}'), 0
}

// StatePatch is enough for flat objects of numbers, as the counter's.
func (f *fakeCalls) StatePatch(before, after []byte) (int, abi.Code) {
	if f.code != 0 {
		return 0, f.code
	}
	return f.patch(before, after)
}

func (f *fakeCalls) StateVersion() uint64  { return 7 }
func (f *fakeCalls) StateRevision() uint64 { return f.revision }

func (f *fakeCalls) Reply(contentType string, payload []byte) abi.Code {
	f.reply = &actor.Payload{ContentType: contentType, Data: append([]byte(nil), payload...)}
	return 0
}

func (f *fakeCalls) Fail(e *actor.GuestError) abi.Code { f.failed = e; return 0 }
func (f *fakeCalls) Now() time.Time                    { return f.clock }
func (f *fakeCalls) Fuel() *engine.Fuel                { return &f.fuel }
func (f *fakeCalls) Random(p []byte)                   { f.rand.Read(p) }

func (f *fakeCalls) Log(level int32, text string) {
	f.logs = append(f.logs, logLine{level, text})
}

// le32 is a little-endian number in a guest's memory.
func le32(v uint32) []byte { return binary.LittleEndian.AppendUint32(nil, v) }

func (f *fakeCalls) patch(before, after []byte) (int, abi.Code) {
	var old, now map[string]json.RawMessage
	if len(before) > 0 && json.Unmarshal(before, &old) != nil || len(after) > 0 && json.Unmarshal(after, &now) != nil {
		return 0, abi.CodeInvalid
	}
	changed := 0
	for k, v := range now {
		if string(old[k]) != string(v) {
			f.StateSet([]byte(k), v, abi.FormatJSON)
			changed++
		}
	}
	for k := range old {
		if _, kept := now[k]; !kept {
			f.StateDelete([]byte(k))
			changed++
		}
	}
	return changed, 0
}
