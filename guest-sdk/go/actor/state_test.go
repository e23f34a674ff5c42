package actor_test

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actortest"
)

// inTurn runs fn as a turn of actor "p" of a Probe.
func inTurn(t *testing.T, h *actortest.Harness, method string, fn func(s actor.State) error) error {
	t.Helper()
	body = func(ctx *actor.Context) error { return fn(ctx.State()) }
	defer func() { body = nil }()
	return h.Call("Probe", "p", method, nil, nil)
}

func TestStateKeys(t *testing.T) {
	h := actortest.New(t)
	err := inTurn(t, h, "Run", func(s actor.State) error {
		var n int
		if found, err := s.Get("n", &n); found || err != nil {
			t.Errorf("a key that is not there: %t, %v", found, err)
		}
		if err := errors.Join(s.Set("n", 7), s.Set("item/b", "b"), s.Set("item/a", "a"), s.SetBytes("raw", []byte{0, 255}), s.SetBytes("none", nil)); err != nil {
			return err
		}
		if found, err := s.Get("n", &n); !found || err != nil || n != 7 {
			t.Errorf("get: %t, %v, %d; want 7", found, err, n)
		}
		if b, found, err := s.GetBytes("raw"); !found || err != nil || string(b) != "\x00\xff" {
			t.Errorf("get bytes: %t, %v, %q", found, err, b)
		}
		if b, found, err := s.GetBytes("none"); !found || err != nil || b == nil || len(b) != 0 {
			t.Errorf("get empty bytes: %t, %v, %q", found, err, b)
		}
		if b, _, err := s.GetBytes("n"); err != nil || string(b) != "7" {
			t.Errorf("get JSON as bytes: %v, %q", err, b)
		}
		if _, found, err := s.GetBytes("nope"); found || err != nil {
			t.Errorf("get bytes that are not there: %t, %v", found, err)
		}
		if keys, err := s.Keys("item/"); err != nil || !reflect.DeepEqual(keys, []string{"item/a", "item/b"}) {
			t.Errorf("keys: %v, %v", keys, err)
		}
		if keys, err := s.Keys(""); err != nil || len(keys) != 5 {
			t.Errorf("all keys: %v, %v", keys, err)
		}
		if existed, err := s.Delete("item/a"); !existed || err != nil {
			t.Errorf("delete: %t, %v", existed, err)
		}
		if existed, err := s.Delete("item/a"); existed || err != nil {
			t.Errorf("delete again: %t, %v", existed, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	wantState(t, h, "Probe", "p", map[string]string{"n": "7", "item/b": `"b"`, "raw": "\x00\xff", "none": ""})
	err = inTurn(t, h, "Run", func(s actor.State) error {
		if n, err := s.DeleteAll(); n != 4 || err != nil {
			t.Errorf("delete all: %d, %v", n, err)
		}
		return errors.New("undone")
	})
	if err == nil || len(h.State("Probe", "p")) != 4 {
		t.Errorf("a failed turn: %v, left %v", err, h.State("Probe", "p"))
	}
}

func TestStateErrors(t *testing.T) {
	h := actortest.New(t)
	h.SetState("Probe", "p", 0, map[string]string{"text": `"t"`})
	long := strings.Repeat("k", 513)
	var n int
	for name, c := range map[string]struct {
		method string
		fn     func(s actor.State) error
		want   *actor.Error
		text   string
	}{
		"empty key":          {"Run", func(s actor.State) error { return s.Set("", 1) }, actor.ErrInvalidKey, `set state key ""`},
		"long key":           {"Run", func(s actor.State) error { _, err := s.Get(long, &n); return err }, actor.ErrInvalidKey, "1 to 512"},
		"key not UTF-8":      {"Run", func(s actor.State) error { _, err := s.Delete("\xff"); return err }, actor.ErrInvalidKey, "delete state key"},
		"wrong type":         {"Run", func(s actor.State) error { _, err := s.Get("text", &n); return err }, actor.ErrBadState, `get state key "text"`},
		"bytes read as JSON": {"Run", func(s actor.State) error { s.SetBytes("b", nil); _, err := s.Get("b", &n); return err }, actor.ErrBadState, "use GetBytes"},
		"no JSON form":       {"Run", func(s actor.State) error { return s.Set("n", math.NaN()) }, actor.ErrNotJSON, "no JSON form"},
		"set read-only":      {"RunReadOnly", func(s actor.State) error { return s.Set("n", 1) }, actor.ErrReadOnly, "read-only"},
		"delete read-only":   {"RunReadOnly", func(s actor.State) error { _, err := s.Delete("n"); return err }, actor.ErrReadOnly, "read-only"},
		"delete all read-only": {"RunReadOnly", func(s actor.State) error { _, err := s.DeleteAll(); return err }, actor.ErrReadOnly,
			"read-only"},
	} {
		t.Run(name, func(t *testing.T) {
			err := inTurn(t, h, c.method, c.fn)
			wantError(t, err, c.want.Status, c.want.Code, c.text)
			wantState(t, h, "Probe", "p", map[string]string{"text": `"t"`})
		})
	}
	body = func(ctx *actor.Context) error { _, _, err := ctx.State().GetBytes("k"); return err }
	wantError(t, h.Call("Pure", "p", "Run", nil, nil), actor.StatusFailedPrecondition, "no_state", "stateless")
}

func TestStateLimit(t *testing.T) {
	h := actortest.New(t)
	big := strings.Repeat("x", 1<<20)
	wantError(t, h.Call("Account", "a", "Rename", big, nil), actor.StatusFailedPrecondition, "state_too_large", "1048576")
	if got := call[Account](t, h, "Account", "a", "View", nil); got.Owner != "" {
		t.Errorf("an owner of %d bytes was kept", len(got.Owner))
	}
	err := inTurn(t, h, "Run", func(s actor.State) error { return s.SetBytes("b", make([]byte, 1<<20)) })
	wantError(t, err, actor.StatusFailedPrecondition, "state_too_large", "")
	err = inTurn(t, h, "Run", func(s actor.State) error { return s.SetBytes("b", make([]byte, 4<<20+1)) })
	wantError(t, err, actor.StatusResourceExhausted, "too_large", `set state key "b"`)
	wantState(t, h, "Probe", "p", map[string]string{})
}

func TestContextIsOverWithItsTurn(t *testing.T) {
	h := actortest.New(t)
	var kept *actor.Context
	body = func(ctx *actor.Context) error { kept = ctx; return nil }
	if err := h.Call("Probe", "p", "Run", nil, nil); err != nil {
		t.Fatal(err)
	}
	for name, use := range map[string]func(){
		"state": func() { _ = kept.State().Set("k", 1) }, "log": func() { kept.Log().Info("x") },
		"now": func() { kept.Now() }, "random": func() { kept.Random().Uint64() }, "version": func() { kept.Version() },
		"invocation": func() { kept.InvocationID() },
	} {
		if text := panicOf(use); !strings.Contains(text, "used after its turn") {
			t.Errorf("%s: got panic %q", name, text)
		}
	}
	if kept.ID() != "p" {
		t.Errorf("the ID is a value: got %q", kept.ID())
	}
}

// panicOf returns the text that fn panics with.
func panicOf(fn func()) (text string) {
	defer func() { text, _ = recover().(string) }()
	fn()
	return ""
}
