package failure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/greenroom-run/greenroom/actor"
)

// TestErrorsDoc keeps the table of docs/errors.md and the code the same.
func TestErrorsDoc(t *testing.T) {
	text, err := os.ReadFile("../../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	type row struct{ code, status, retryable string }
	documented := make(map[actor.Kind]row)
	cells := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([^|]+) \\| ([^|]+) \\| ([^|]+) \\| ([^|]+) \\|$")
	for _, m := range cells.FindAllStringSubmatch(string(text), -1) {
		if _, twice := documented[actor.Kind(m[1])]; twice {
			t.Errorf("%s has two rows", m[1])
		}
		documented[actor.Kind(m[1])] = row{strings.Trim(m[2], "`"), m[3], m[4]}
	}

	retryable := map[actor.Kind]bool{KindStreamFull: true}
	for _, c := range actor.Conditions() {
		retryable[c.Kind()] = c.Retryable()
	}
	kinds := serverKinds()
	for _, c := range actor.Conditions() {
		kinds = append(kinds, c.Kind())
	}
	for _, kind := range kinds {
		got, ok := documented[kind]
		if !ok {
			t.Errorf("docs/errors.md has no row for %s", kind)
			continue
		}
		delete(documented, kind)
		if kind == KindGuestError {
			continue // the guest chooses
		}
		a := AnswerOf(kind)
		want := row{a.Code.String(), strconv.Itoa(a.Status), map[bool]string{true: "yes", false: "no"}[retryable[kind]]}
		if got != want {
			t.Errorf("docs/errors.md says of %s %v; the code says %v", kind, got, want)
		}
	}
	for kind := range documented {
		t.Errorf("docs/errors.md has a row for %s, which the code does not know", kind)
	}
}

// TestEveryConditionIsPlaced finds conditions that AnswerOf forgot: only bugs and
// traps are internal.
func TestEveryConditionIsPlaced(t *testing.T) {
	for _, c := range actor.Conditions() {
		if AnswerOf(c.Kind()).Code == connect.CodeInternal {
			t.Errorf("%s has no place in answerOf", c.Kind())
		}
	}
}

func TestFailureOf(t *testing.T) {
	key := actor.Key{App: "shop", Type: "Cart", ID: "a||b/c"}
	inTurn := func(err error) error { return &actor.TurnError{Key: key, Method: "Add", Err: err} }
	tests := []struct {
		name    string
		err     error
		kind    string
		code    connect.Code
		status  int
		message string // a part of it
		hidden  bool
		retry   bool
	}{
		{"sentinel", inTurn(actor.ErrTypeNotFound), "type_not_found", connect.CodeNotFound, 404, "no deployment", false, false},
		{"wrapped with what to change", inTurn(fmt.Errorf("%w: Foo", actor.ErrMethodNotFound)), "method_not_found", connect.CodeNotFound, 404, ": Foo", false, false},
		{"a driver's text stays in the log", inTurn(fmt.Errorf("%w: dial 10.0.0.1", actor.ErrUnavailable)), "store_unavailable", connect.CodeUnavailable, 503, "the store cannot be reached or cannot write", true, true},
		{"argument", &actor.ArgumentError{Field: "actor id", Problem: "is empty"}, "invalid_argument", connect.CodeInvalidArgument, 400, "actor id is empty", false, false},
		{"guest", inTurn(&actor.GuestError{Status: 9, Code: "out_of_stock", Message: "only 2 left"}), "guest_error", connect.CodeFailedPrecondition, 400, "only 2 left", false, false},
		{"retryable guest", &actor.GuestError{Status: 14, Message: "x", Retryable: true}, "guest_error", connect.CodeUnavailable, 503, "x", false, true},
		{"guest with status 0", &actor.GuestError{Message: "x"}, "guest_error", connect.CodeUnknown, 500, "x", false, false},
		{"guest with status 17", &actor.GuestError{Status: 17, Message: "x"}, "guest_error", connect.CodeUnknown, 500, "x", false, false},
		{"trap", inTurn(&actor.TrapError{Kind: actor.TrapStack, Message: "stack"}), "guest_stack", connect.CodeInternal, 500, "stack", false, false},
		{"state too large", &actor.StateTooLargeError{Size: 2, Limit: 1}, "state_too_large", connect.CodeFailedPrecondition, 409, "has 2 bytes", false, false},
		{"module", &actor.InvalidModuleError{Faults: []actor.Fault{{Code: "a", Message: "b"}}}, "invalid_module", connect.CodeInvalidArgument, 422, "1 fault", false, false},
		{"caller's deadline", fmt.Errorf("wait: %w", context.DeadlineExceeded), "deadline", connect.CodeDeadlineExceeded, 504, "deadline", true, false},
		{"caller gone", context.Canceled, "canceled", connect.CodeCanceled, 499, "", false, false},
		{"a stream that the server ends", ErrStopping, "stopping", connect.CodeUnavailable, 503, "the server is stopping", false, true},
		{"not ready yet", &Error{actor.ErrUnavailable.Kind(), "the store was not checked yet"}, "store_unavailable", connect.CodeUnavailable, 503, "not checked", false, true},
		{"nobody knows it", io.ErrClosedPipe, "internal", connect.CodeInternal, 500, "internal error", true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := Of(tt.err, false)
			if f.Detail.GetKind() != tt.kind || f.Code != tt.code || f.Status != tt.status || f.Detail.GetRetryable() != tt.retry {
				t.Errorf("got %s %s %d retryable=%v", f.Detail.GetKind(), f.Code, f.Status, f.Detail.GetRetryable())
			}
			if !strings.Contains(f.Message, tt.message) {
				t.Errorf("message %q lacks %q", f.Message, tt.message)
			}
			if (f.Hidden != nil) != tt.hidden {
				t.Errorf("hidden: %v", f.Hidden)
			}
			if f.Hidden != nil && strings.Contains(f.Message, f.Hidden.Error()) {
				t.Errorf("message %q says what only the log may say", f.Message)
			}
			var turn *actor.TurnError
			if errors.As(tt.err, &turn) && (f.Detail.GetActorId() != key.ID || f.Detail.GetMethod() != "Add" || f.Detail.GetApp() != "shop" || f.Detail.GetActorType() != "Cart") {
				t.Errorf("detail does not name the actor: %v", f.Detail)
			}
		})
	}
}

func TestStacksAreShownOnlyWhenAsked(t *testing.T) {
	err := &actor.TrapError{Kind: actor.TrapUnreachable, Message: "m", Stack: "main.f"}
	if s := Of(err, false).Detail.GetStack(); s != "" {
		t.Errorf("stack %q was shown", s)
	}
	if s := Of(err, true).Detail.GetStack(); s != "main.f" {
		t.Errorf("stack is %q", s)
	}
}

// TestGuestStatusesAreConnects compares with what Connect sends for a code.
func TestGuestStatusesAreConnects(t *testing.T) {
	for s := actor.Status(1); s <= 16; s++ {
		a := guestAnswer(s)
		if a.Code != connect.Code(s) {
			t.Errorf("status %d became code %v", s, a.Code)
		}
		if a.Status < 400 || a.Status > 599 {
			t.Errorf("status %d became HTTP %d", s, a.Status)
		}
	}
}

// TestTextsOfStrangersAreBounded: what guests and uploads have to say never makes
// an answer that no client takes.
func TestTextsOfStrangersAreBounded(t *testing.T) {
	long := strings.Repeat("é", 64<<10)
	invalid := &actor.InvalidModuleError{Faults: slices.Repeat([]actor.Fault{{Code: long, Message: long}}, 1000)}
	for _, err := range []error{
		invalid, &actor.GuestError{Message: long}, &actor.TrapError{Kind: actor.TrapUnreachable, Message: long, Stack: long},
		&actor.ArgumentError{Field: "x", Problem: long}, fmt.Errorf("%w: %s", actor.ErrMethodNotFound, long),
	} {
		f := Of(err, true)
		size := proto.Size(f.Detail) + len(f.Message)
		if size > MaxMessage+maxStack+maxFaults*(2*maxFault+16) || !utf8.ValidString(f.Message) || !strings.HasSuffix(f.Message, "[…]") {
			t.Errorf("%T: %d bytes", err, size)
		}
	}
	if f := Of(invalid, false); len(f.Detail.GetFaults()) != maxFaults || len(f.Detail.GetFaults()[0].GetMessage()) > maxFault {
		t.Errorf("%d faults", len(f.Detail.GetFaults()))
	}
	if f := Of(&actor.GuestError{Message: "short"}, false); f.Message != "short" {
		t.Errorf("%q", f.Message)
	}
}

// serverKinds are the kinds of this package that have one row each in docs/errors.md.
func serverKinds() []actor.Kind {
	return []actor.Kind{
		KindInvalidArgument, KindInvalidModule, kindStateTooLarge, kindOutOfFuel, KindGuestError,
		actor.Kind(actor.TrapUnreachable), actor.Kind(actor.TrapStack),
		actor.Kind(actor.TrapMemory), actor.Kind(actor.TrapProtocol),
		KindUnauthenticated, KindPermissionDenied, KindOriginRefused, KindHostRefused, KindPathNotFound,
		KindServiceNotFound, KindMethodRefused, KindNotImplemented, KindBodyTimeout, KindStreamFull, KindInternal,
	}
}
