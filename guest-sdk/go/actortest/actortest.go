// Package actortest runs registered actors as plain Go, for tests of guests: no
// Wasm, no server, a clock that the test moves and chance that repeats itself.
//
//	func TestCounter(t *testing.T) {
//		h := actortest.New(t)
//		var v Value
//		if err := h.Call("Counter", "a", "Add", Add{Amount: 2}, &v); err != nil {
//			t.Fatal(err)
//		}
//	}
//
// The harness keeps to the rules of a real host: a turn that fails leaves no
// trace, a read-only method cannot write or change its struct, inputs go over as
// bytes, memory that a method may not keep is overwritten after it, stored state
// goes through [actor.Migrate] if its schema is old. All types that the test's
// package registered are there, by name, and call each other in one transaction;
// [Harness.Fake] stands for those of other modules. [Harness.Deliver] delivers the messages
// that they have sent. The hooks of a type run as on a host; [Harness.Leave] asks an actor to leave.
//
// A host puts an instance back to its first memory when another actor comes to it.
// So does the harness: unexported fields and whatever else hangs on the state are
// gone with a change of actor. Package variables it cannot put back. Instead it
// reads the guest's source, the Go files in the folder of the test, and fails the
// test for one that is changed after it was initialized; the comment
// //greenroom:shared above a variable says that any actor may see and lose it.
//
// What only Wasm can show, such as a memory limit, it does not show.
package actortest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/abi/manifest"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actor/http"
	"github.com/greenroom-run/greenroom/guest-sdk/go/internal/bridge"
	"github.com/greenroom-run/greenroom/guest-sdk/go/protobuf"
)

// App is the app of every actor of a harness.
const App = "default"

// Start is the time at which the clock of a harness begins, the same in every SDK.
var Start = time.Date(2025, time.January, 1, 12, 0, 0, 0, time.UTC)

// Harness is a host with everything that the test's package registered, and its
// own actors. It is for one goroutine.
type Harness struct {
	t     testing.TB
	types map[string]abi.TypeSpec
	guest

	actors   map[actor.Ref]*row
	now      time.Time
	turns    uint64
	revision uint64 // the last one given out
	seed     uint64
	logs     []LogLine

	reminders map[actor.Ref]map[string]*reminder
	timers    map[actor.Ref]map[string]*timer
	reminded  uint64 // counts reminders and timers that were set, for their order
	dead      []DeadLetter

	society
	outside
}

// guest is the guest's memory and what runs in it.
type guest struct {
	host     *turnHost
	instance bridge.Instance
	last     actor.Ref // whose turn was the last one in it
	frame    []byte
	chain    *chain // that runs now, nil between turns
}

// outside is what actors find outside of their app's state.
type outside struct {
	config, secrets map[string]string
	http            func(http.Request) (*http.Response, error)
	fakes           map[method]*fake
}

// method is one of an actor type.
type method struct{ typ, name string }

// fake stands for a method.
type fake struct {
	answer              func(id string, in actor.Payload) (any, error)
	readOnly, elsewhere bool
}

// FakeOption is a property of the method that a fake stands for.
type FakeOption func(*fake)

// ReadOnly makes the method of a fake read-only, so that read-only methods may call it. It has no
// effect if the test has the method's type: then the type says whether the method is read-only.
func ReadOnly() FakeOption { return func(f *fake) { f.readOnly = true } }

// Elsewhere puts the actors of a fake at another server: calls are committed on their own
// ([actor.Committed]), and those that must be in the caller's transaction get
// [actor.ErrNotAtomic].
func Elsewhere() FakeOption { return func(f *fake) { f.elsewhere = true } }

// LogLine is a line of an actor's log.
type LogLine struct {
	Actor actor.Ref
	Level int // as in log/slog
	Text  string
}

// New returns a harness without any actor state. It fails the test if what was
// registered is not a valid manifest.
func New(t testing.TB) *Harness {
	t.Helper()
	m, faults := manifest.Parse(bridge.Manifest())
	for _, f := range faults {
		t.Errorf("actortest: manifest: %s (%s)", f.Message, f.Code)
	}
	if len(faults) > 0 {
		t.FailNow()
	}
	h := &Harness{t: t, types: map[string]abi.TypeSpec{}, actors: map[actor.Ref]*row{}, reminders: map[actor.Ref]map[string]*reminder{}, timers: map[actor.Ref]map[string]*timer{}, now: Start, society: society{services: map[string]actor.Ref{}, gone: map[actor.Ref]bool{}, awake: map[actor.Ref]bool{}}, outside: outside{config: map[string]string{}, secrets: map[string]string{}, fakes: map[method]*fake{}}}
	for _, spec := range m.Types {
		h.types[spec.Name] = spec
	}
	complainOnce.Do(func() { complainOfVariables(t, ".") })
	h.host = &turnHost{harness: h}
	h.DropInstance()
	return h
}

// Call runs one turn and decodes its reply into out. The input goes over as JSON,
// a []byte or an [actor.Payload] as it is, nil as no payload; out is a pointer to
// the like, or nil. An error is the [*actor.Error] that a caller would get.
func (h *Harness) Call(typ, id, method string, in, out any) error {
	h.t.Helper()
	payload, err := encodePayload(in)
	if err != nil {
		h.t.Fatalf("actortest: call %s.%s: the input has no JSON form: %v", typ, method, err)
	}
	reply, err := h.invoke(actor.Ref{Type: typ, ID: id}, method, payload, nil)
	if err != nil {
		return err
	}
	if err := decodePayload(reply, out); err != nil {
		h.t.Fatalf("actortest: call %s.%s: the reply %q does not fit %T: %v", typ, method, reply.Data, out, err)
	}
	return nil
}

// SetConfig gives the app a configuration value. The type must declare it, too.
func (h *Harness) SetConfig(name, value string) { h.config[name] = value }

// SetSecret gives the app a secret. The type must declare it, too.
func (h *Harness) SetSecret(name, value string) { h.secrets[name] = value }

// HandleHTTP grants the app every host, and answers the requests of actors with
// handle. Those to hosts that a type does not declare are denied before, and so is
// everything but GET and HEAD in read-only methods. An error of handle stands for a
// host that cannot be reached. Redirects are not followed here.
func (h *Harness) HandleHTTP(handle func(http.Request) (*http.Response, error)) { h.http = handle }

// Fake answers calls and messages of actors to a method of any actor of a type, in the place of
// that type: with what answer returns for the actor's ID and the input, as JSON unless it is
// a []byte or an [actor.Payload], or with its error. Without fakes, such calls run turns of
// what the test's package registered. A call that answer makes with [Harness.Call] is part of
// the same transaction.
func (h *Harness) Fake(typ, name string, answer func(id string, in actor.Payload) (any, error), options ...FakeOption) {
	f := &fake{answer: answer}
	for _, option := range options {
		option(f)
	}
	h.fakes[method{typ, name}] = f
}

// Now is the time of the next turn.
func (h *Harness) Now() time.Time { return h.now }

// Seed makes later turns draw other random numbers. Equal seeds and equal calls
// give equal numbers; a harness begins with seed 0.
func (h *Harness) Seed(seed uint64) { h.seed, h.turns = seed, 0 }

// DropInstance throws the guest's memory away, as a host may between any two
// turns, and as a change of actor does. Stored state stays.
func (h *Harness) DropInstance() { h.instance = bridge.NewInstance(h.host) }

// State returns the committed state of an actor, by key: JSON as text, bytes as
// they are. It is empty for an actor without any.
func (h *Harness) State(typ, id string) map[string]string {
	state := map[string]string{}
	if r := h.actors[actor.Ref{Type: typ, ID: id}]; r != nil {
		for key, v := range r.state {
			state[key] = string(v.data)
		}
	}
	return state
}

// SetState replaces the stored state of an actor by JSON values, written under the
// given schema: what an older module left behind. It fails the test if a value is
// not JSON.
func (h *Harness) SetState(typ, id string, schema uint32, state map[string]string) {
	h.t.Helper()
	values := map[string]value{}
	for key, text := range state {
		if code := checkSet(key, []byte(text), abi.FormatJSON); code < 0 {
			h.t.Fatalf("actortest: set state: %q: %q is not a key with JSON (code %d)", key, text, code)
		}
		values[key] = value{data: []byte(text), format: abi.FormatJSON}
	}
	ref := actor.Ref{Type: typ, ID: id}
	h.commit(ref, schema, values, h.nextRevision())
	h.actors[ref].created = true
	delete(h.awake, ref)
}

// Delete removes an actor with its reminders, timers, services and messages, as its caller can
// from outside.
func (h *Harness) Delete(typ, id string) {
	remove(h, actor.Ref{Type: typ, ID: id})
	reportServices(h)
}

func remove(h *Harness, ref actor.Ref) {
	delete(h.actors, ref)
	delete(h.reminders, ref)
	delete(h.timers, ref)
	delete(h.watches, ref)
	maps.DeleteFunc(h.listings, func(of listing, _ actor.Services) bool { return of.by == ref })
	delete(h.subscriptions, ref)
	delete(h.awake, ref)
	endFamily(h, ref)
	maps.DeleteFunc(h.services, func(_ string, by actor.Ref) bool { return by == ref })
	h.inbox = slices.DeleteFunc(h.inbox, func(m *message) bool { return m.to == ref })
}

// Version is the version of an actor's stored state: another one after each turn
// that changed something, 0 if nothing is stored.
func (h *Harness) Version(typ, id string) uint64 {
	if r := h.actors[actor.Ref{Type: typ, ID: id}]; r != nil {
		return r.version
	}
	return 0
}

// Logs returns what actors logged so far, in order.
func (h *Harness) Logs() []LogLine { return slices.Clone(h.logs) }

// Actors returns the addresses of all actors that something was stored for, in order.
func (h *Harness) Actors() []actor.Ref {
	var keys []actor.Ref
	for key, r := range h.actors {
		if r.version > 0 && !isChild(key) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b actor.Ref) int { return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.ID, b.ID)) })
	return keys
}

func (h *Harness) commit(ref actor.Ref, schema uint32, state map[string]value, revision uint64) {
	r := &row{revision: revision, schema: schema, state: state}
	if old := h.actors[ref]; old != nil {
		r.version, r.set, r.spawned, r.created = old.version, old.set, old.spawned, old.created
	}
	r.version++
	h.actors[ref] = r
}

func (h *Harness) nextRevision() uint64 {
	h.revision++
	return h.revision
}

func encodePayload(in any) (actor.Payload, error) {
	switch in := in.(type) {
	case nil, actor.None:
		return actor.Payload{}, nil
	case actor.Payload:
		return in, nil
	case []byte:
		return actor.Payload{Data: in}, nil
	case protobuf.Message:
		return actor.Payload{ContentType: abi.ContentTypeProtobuf, Data: in.AppendProtobuf(nil)}, nil
	}
	data, err := json.Marshal(in)
	return actor.Payload{Data: data}, err
}

func decodePayload(reply actor.Payload, out any) error {
	switch out := out.(type) {
	case nil, *actor.None:
		return nil
	case *actor.Payload:
		*out = reply
		return nil
	case *[]byte:
		*out = reply.Data
		return nil
	case protobuf.Decoder:
		if len(reply.Data) > 0 && reply.ContentType != abi.ContentTypeProtobuf {
			return fmt.Errorf("it is %s, where %s is needed", reply.ContentType, abi.ContentTypeProtobuf)
		}
		return protobuf.Unmarshal(reply.Data, out)
	}
	if len(reply.Data) == 0 {
		return fmt.Errorf("it is empty")
	}
	return json.Unmarshal(reply.Data, out)
}
