package actor_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actortest"
)

// A method whose error is of type *actor.Error returns a nil one when all is well.
// In a variable of type error it is not nil, and must be none all the same.
func TestNilErrorIsNone(t *testing.T) {
	h := actortest.New(t)
	var none *actor.Error
	body = func(ctx *actor.Context) error {
		if err := ctx.State().Set("k", 1); err != nil {
			return err
		}
		return none
	}
	if err := h.Call("Probe", "p", "Run", nil, nil); err != nil {
		t.Errorf("got %v", err)
	}
	wantState(t, h, "Probe", "p", map[string]string{"k": "1"})
	// Wrapped, it is an error of somebody's, and nothing of it is looked at.
	body = func(*actor.Context) error { return fmt.Errorf("wrapped: %w", none) }
	wantError(t, h.Call("Probe", "p", "Run", nil, nil), actor.StatusUnknown, "", "wrapped")
	if errors.Is(none, actor.ErrReadOnly) || !errors.Is(none, none) || actor.ErrReadOnly.Is(none) || none.Error() == "" {
		t.Error("a nil error compares as what it is not")
	}
}

func TestWithDetailSaysWhatIsWrong(t *testing.T) {
	e := errFrozen.WithDetail(map[string]any{"balance": math.NaN()}).Retry(0)
	if e.Code != "bad_detail" || e.Status != actor.StatusInternal || !strings.Contains(e.Message, "frozen") || !strings.Contains(e.Message, "NaN") {
		t.Errorf("got %+v", e)
	}
}

func TestRetryDelay(t *testing.T) {
	h := actortest.New(t)
	for after, want := range map[time.Duration]time.Duration{
		0: 0, -time.Second: 0, 1: time.Millisecond, 1500 * time.Millisecond: 1500 * time.Millisecond, 1 << 62: math.MaxUint32 * time.Millisecond,
	} {
		body = func(*actor.Context) error { return fmt.Errorf("wrapped: %w", errFrozen.Retry(after)) }
		var e *actor.Error
		if err := h.Call("Probe", "p", "Run", nil, nil); !errors.As(err, &e) || !e.Retryable || e.RetryAfter != want {
			t.Errorf("Retry(%v) reached the caller as %+v", after, err)
		}
	}
	body = func(*actor.Context) error { e := *errFrozen; e.RetryAfter = time.Second; return &e }
	var e *actor.Error
	if err := h.Call("Probe", "p", "Run", nil, nil); !errors.As(err, &e) || e.RetryAfter != 0 {
		t.Errorf("a delay without a retry reached the caller: %+v", err)
	}
}

func TestEach(t *testing.T) {
	h := actortest.New(t)
	h.SetState("Probe", "p", 0, map[string]string{"a": "1", "n/1": "10", "n/2": "20", "n/3": `"x"`, "o": "2"})
	var got []string
	body = func(ctx *actor.Context) error {
		got = nil
		for e, err := range actor.Each[int](ctx, "n/") {
			if err != nil {
				return err
			}
			got = append(got, fmt.Sprint(e.Key, " ", e.Value))
		}
		return nil
	}
	wantError(t, h.Call("Probe", "p", "Run", nil, nil), actor.StatusFailedPrecondition, "bad_state", `"n/3"`)
	if want := []string{"n/1 10", "n/2 20"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	body = func(ctx *actor.Context) error {
		for e := range actor.Each[int](ctx, "n/") {
			got = append(got[:0], e.Key)
			if _, err := ctx.State().Delete("n/2"); err != nil { // passed over, were there a next step
				return err
			}
			break
		}
		return nil
	}
	if err := h.Call("Probe", "p", "Run", nil, nil); err != nil || !slices.Equal(got, []string{"n/1"}) {
		t.Errorf("got %q, %v", got, err)
	}
	body = func(ctx *actor.Context) error {
		for _, err := range actor.Each[int](ctx, "") {
			return err
		}
		return nil
	}
	wantError(t, h.Call("Pure", "p", "Run", nil, nil), actor.StatusFailedPrecondition, "no_state", "stateless")
}

func TestEmptyPayload(t *testing.T) {
	h := actortest.New(t)
	if got := call[int](t, h, "Account", "a", "Deposit", []byte{}); got != 0 {
		t.Errorf("a struct: got %d", got)
	}
	wantError(t, h.Call("Account", "a", "Rename", []byte{}, nil), actor.StatusInvalidArgument, "bad_json", "the payload is empty; the method takes JSON")
	wantError(t, h.Call("Account", "a", "Bypass", []byte{}, nil), actor.StatusInvalidArgument, "bad_json", "the payload is empty")
	// Its unmarshaler may need something.
	wantError(t, h.Call("Probe", "p", "At", []byte{}, nil), actor.StatusInvalidArgument, "bad_json", "the payload is empty")
}

// A value that is not zero keeps what the stored text does not have, as with
// encoding/json.
func TestGetIntoAValueThatIsThere(t *testing.T) {
	h := actortest.New(t)
	h.SetState("Probe", "p", 0, map[string]string{"d": `{"amount":2}`})
	body = func(ctx *actor.Context) error {
		d := Deposit{Amount: 1, Note: "kept"}
		if _, err := ctx.State().Get("d", &d); err != nil || d != (Deposit{2, "kept"}) {
			return fmt.Errorf("got %+v, %w", d, err)
		}
		return ctx.State().Set("e", d)
	}
	if err := h.Call("Probe", "p", "Run", nil, nil); err != nil {
		t.Fatal(err)
	}
	wantState(t, h, "Probe", "p", map[string]string{"d": `{"amount":2}`, "e": `{"amount":2,"note":"kept"}`})
}
