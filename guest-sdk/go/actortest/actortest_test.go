package actortest_test

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actortest"
)

// What the harness shows of the rules of a host is tested with package actor;
// here is what it does for tests alone.

type Note struct {
	Text string `json:"text,omitempty"`
}

func (n *Note) Write(ctx *actor.Context, text string) (uint64, error) {
	n.Text = text
	return ctx.Random().Uint64(), nil
}

// WriteTwice changes its state and puts it back.
func (n *Note) WriteTwice(ctx *actor.Context, _ actor.None) (actor.None, error) {
	if err := ctx.State().Set("scratch", 1); err != nil {
		return actor.None{}, err
	}
	_, err := ctx.State().Delete("scratch")
	return actor.None{}, err
}

func (n *Note) Big(ctx *actor.Context, in []byte) (int, error) { return len(in), nil }

func init() {
	actor.Register("Note", actor.Limits{PayloadBytes: 1000, StateBytes: 100},
		actor.Method("Write", (*Note).Write),
		actor.Method("WriteTwice", (*Note).WriteTwice),
		actor.Method("Big", (*Note).Big),
	)
}

func code(err error) string {
	var e *actor.Error
	if !errors.As(err, &e) {
		return fmt.Sprint(err)
	}
	return e.Code
}

func TestVersionsMoveWithChangesOnly(t *testing.T) {
	h := actortest.New(t)
	var got []uint64
	for _, text := range []string{"", "a", "a", "b", ""} {
		if err := h.Call("Note", "n", "Write", text, nil); err != nil {
			t.Fatal(err)
		}
		got = append(got, h.Version("Note", "n"))
	}
	if err := h.Call("Note", "n", "WriteTwice", nil, nil); err != nil {
		t.Fatal(err)
	}
	if got = append(got, h.Version("Note", "n")); !reflect.DeepEqual(got, []uint64{0, 1, 1, 2, 3, 3}) {
		t.Errorf("versions: got %v", got)
	}
}

func TestActors(t *testing.T) {
	h := actortest.New(t)
	for _, id := range []string{"b", "a", "nothing stored"} {
		text := id
		if id == "nothing stored" {
			text = ""
		}
		if err := h.Call("Note", id, "Write", text, nil); err != nil {
			t.Fatal(err)
		}
	}
	want := []actor.Ref{{Type: "Note", ID: "a"}, {Type: "Note", ID: "b"}}
	if got := h.Actors(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	h.Delete("Note", "a")
	if got := h.Actors(); !reflect.DeepEqual(got, want[1:]) || h.Version("Note", "a") != 0 || len(h.State("Note", "a")) != 0 {
		t.Errorf("after deletion: %v, version %d, state %v", got, h.Version("Note", "a"), h.State("Note", "a"))
	}
}

func TestSeeds(t *testing.T) {
	draw := func(h *actortest.Harness) (n uint64) {
		if err := h.Call("Note", "n", "Write", "", &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	h := actortest.New(t)
	first, second := draw(h), draw(h)
	h.Seed(7)
	seven := draw(h)
	h.Seed(0)
	if again := draw(h); again != first || second == first || seven == first {
		t.Errorf("drew %d, %d, %d with seed 7, and %d again", first, second, seven, again)
	}
}

func TestErrorsOfTheHost(t *testing.T) {
	h := actortest.New(t)
	for want, err := range map[string]error{
		"type_not_found":    h.Call("Nope", "n", "Write", "x", nil),
		"method_not_found":  h.Call("Note", "n", "Nope", "x", nil),
		"payload_too_large": h.Call("Note", "n", "Big", make([]byte, 1001), nil),
		"state_too_large":   h.Call("Note", "n", "Write", strings.Repeat("x", 100), nil),
		"<nil>":             h.Call("Note", "n", "Big", make([]byte, 1000), nil),
	} {
		if got := code(err); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestMistakesOfATestFailIt(t *testing.T) {
	for want, mistake := range map[string]func(h *actortest.Harness){
		"does not fit *bool":    func(h *actortest.Harness) { var b bool; _ = h.Call("Note", "n", "Write", "x", &b) },
		"no JSON form":          func(h *actortest.Harness) { _ = h.Call("Note", "n", "Write", func() {}, nil) },
		"is not a key with JSO": func(h *actortest.Harness) { h.SetState("Note", "n", 0, map[string]string{"text": "x"}) },
	} {
		rec := &recorder{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			mistake(actortest.New(rec))
		}()
		<-done
		if !strings.Contains(rec.fatal, want) {
			t.Errorf("got %q, want …%s…", rec.fatal, want)
		}
	}
}

// recorder is a test that notes how it fails.
type recorder struct {
	testing.TB
	fatal string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.fatal = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestStateIsACopy(t *testing.T) {
	h := actortest.New(t)
	seed := map[string]string{"text": `"x"`}
	h.SetState("Note", "n", 0, seed)
	maps.Copy(h.State("Note", "n"), map[string]string{"text": "1"})
	seed["text"] = "2"
	if got := h.State("Note", "n")["text"]; got != `"x"` {
		t.Errorf("got %s", got)
	}
}

// Late registers a type in a turn.
type Late struct{}

func (*Late) Add(_ *actor.Context, name string) (actor.None, error) {
	actor.Register(name, actor.Method("Add", (*Late).Add))
	return actor.None{}, nil
}

func init() { actor.Register("Late", actor.Method("Add", (*Late).Add)) }

// TestRegisterInATurn: it panics as in a module, and not in an init function.
func TestRegisterInATurn(t *testing.T) {
	h := actortest.New(t)
	defer func() {
		if text, _ := recover().(string); !strings.Contains(text, `actor.Register("Other"): a turn runs already`) || !strings.Contains(text, "init function") {
			t.Errorf("panic %q", text)
		}
	}()
	_ = h.Call("Late", "x", "Add", "Other", nil)
}
