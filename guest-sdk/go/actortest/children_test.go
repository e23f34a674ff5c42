package actortest_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actortest"
)

// Foreman has helpers in memory.
type Foreman struct {
	Helpers []actor.Ref `json:"helpers"`
	Done    []int       `json:"done"`
	Back    []string    `json:"back"`
}

// Order is what a foreman has a helper do.
type Order struct {
	Helper actor.Ref
	Add    int
	Tell   bool
	Fail   bool
	Method string
}

func (f *Foreman) Hire(ctx *actor.Context, shared bool) (actor.Ref, error) {
	var options []actor.ChildOption
	if shared {
		options = append(options, actor.SharedMailbox())
	}
	helper, err := actor.SpawnChild(ctx, "Helper", options...)
	if err != nil {
		return helper, err
	}
	if _, err := actor.Call[int](ctx, helper, "Add", 5); !errors.Is(err, actor.ErrNotAtomic) {
		return helper, fmt.Errorf("a call before it is there: %w", err)
	}
	f.Helpers = append(f.Helpers, helper)
	return helper, actor.Tell(ctx, helper, "Add", 1, actor.OnUndelivered("CameBack"))
}

func (f *Foreman) HireMany(ctx *actor.Context, n int) (int, error) {
	for i := range n {
		if _, err := actor.SpawnChild(ctx, "Helper"); errors.Is(err, actor.ErrTooMany) {
			return i, nil
		} else if err != nil {
			return i, err
		}
	}
	return n, nil
}

func (f *Foreman) HireWrong(ctx *actor.Context, typ string) (actor.Ref, error) {
	return actor.SpawnChild(ctx, typ)
}

func (f *Foreman) Order(ctx *actor.Context, o Order) (sum int, err error) {
	switch method := o.Method; {
	case o.Tell:
		err = actor.Tell(ctx, o.Helper, "Add", o.Add, actor.OnUndelivered("CameBack"))
	case method != "":
		_, err = actor.Call[actor.None](ctx, o.Helper, method, f.Helpers)
	default:
		sum, err = actor.Call[int](ctx, o.Helper, "Add", o.Add)
	}
	if err == nil && o.Fail {
		err = errors.New("no")
	}
	return sum, err
}

func (f *Foreman) Finished(_ *actor.Context, n int) (actor.None, error) {
	f.Done = append(f.Done, n)
	return actor.None{}, nil
}

func (f *Foreman) CameBack(ctx *actor.Context, _ int) (actor.None, error) {
	f.Back = append(f.Back, ctx.Cause().Failed)
	return actor.None{}, nil
}

func (f *Foreman) Go(ctx *actor.Context, _ actor.None) (actor.None, error) {
	return actor.None{}, actor.PassAway(ctx)
}

// Nomad is kept in no host's memory.
type Nomad struct{}

func (*Nomad) HireWrong(ctx *actor.Context, typ string) (actor.Ref, error) {
	return actor.SpawnChild(ctx, typ)
}

// Helper adds, and tells its foreman.
type Helper struct {
	Sum int `json:"sum"`
}

func (h *Helper) Add(ctx *actor.Context, n int) (int, error) {
	h.Sum += n
	if h.Sum >= 10 {
		return h.Sum, actor.Tell(ctx, actor.Ref{Type: "Foreman", ID: "f"}, "Finished", h.Sum)
	}
	return h.Sum, nil
}

func (h *Helper) Pass(ctx *actor.Context, _ []actor.Ref) (actor.None, error) {
	return actor.None{}, actor.PassAway(ctx)
}

// Share has the other helpers add.
func (h *Helper) Share(ctx *actor.Context, all []actor.Ref) (actor.None, error) {
	for _, other := range all {
		if other != ctx.Self() {
			if _, err := actor.Call[int](ctx, other, "Add", 1); err != nil {
				return actor.None{}, err
			}
		}
	}
	return actor.None{}, nil
}

// Try does what a helper cannot.
func (h *Helper) Try(ctx *actor.Context, _ []actor.Ref) (actor.None, error) {
	_, spawned := actor.Spawn(ctx, "Helper")
	_, child := actor.SpawnChild(ctx, "Helper")
	_, released := actor.Release(ctx, "s")
	_, _, got := actor.GetReminder(ctx, "r")
	_, names := actor.ReminderNames(ctx, "")
	_, cancelled := actor.CancelTimer(ctx, "r")
	foreman := actor.Ref{Type: "Foreman", ID: "f"}
	for i, err := range []error{
		spawned, child, released, got, names, cancelled, actor.Claim(ctx, "s"), actor.SetReminder(ctx, actor.Reminder{Name: "r", Method: "Add"}),
		actor.CancelReminder(ctx, "r"), actor.SetTimer(ctx, actor.Timer{Name: "r", Method: "Add"}), actor.Send(ctx, foreman, "Finished", 1),
		actor.Publish(ctx, "e", 1), actor.Subscribe(ctx, foreman, "Add"), actor.WatchHost(ctx, foreman, "Add"),
	} {
		if !errors.Is(err, actor.ErrNoState) {
			return actor.None{}, fmt.Errorf("%d: %w", i, err)
		}
	}
	var e *actor.Error
	if err := actor.Tell(ctx, actor.Ref{Type: "Foreman", ID: "stranger"}, "Finished", 1); !errors.As(err, &e) || e.Status != actor.StatusInvalidArgument {
		return actor.None{}, fmt.Errorf("a stranger is told: %w", err)
	}
	if _, err := actor.Call[int](ctx, actor.Ref{Type: "Foreman", ID: "stranger"}, "HireMany", 1); !errors.As(err, &e) || e.Code != "invalid_call" {
		return actor.None{}, fmt.Errorf("a stranger is called: %w", err)
	}
	return actor.None{}, nil
}

func init() {
	actor.Register("Foreman", actor.Method("Hire", (*Foreman).Hire), actor.Method("HireMany", (*Foreman).HireMany), actor.Method("HireWrong", (*Foreman).HireWrong),
		actor.Method("Order", (*Foreman).Order), actor.Method("Finished", (*Foreman).Finished), actor.Method("CameBack", (*Foreman).CameBack), actor.Method("Go", (*Foreman).Go))
	actor.Register("Helper", actor.Method("Add", (*Helper).Add), actor.Method("Pass", (*Helper).Pass), actor.Method("Share", (*Helper).Share), actor.Method("Try", (*Helper).Try))
	actor.Register("Nomad", actor.PlacementAny, actor.Method("HireWrong", (*Nomad).HireWrong))
}

// TestSpawnChild: a child works for its parent, in its transaction and by messages, and nobody else knows it.
func TestSpawnChild(t *testing.T) {
	h := actortest.New(t)
	var one, two actor.Ref
	for at, shared := range map[*actor.Ref]bool{&one: false, &two: true} {
		if err := h.Call("Foreman", "f", "Hire", shared, at); err != nil {
			t.Fatal(err)
		}
	}
	if n := h.Deliver(); n != 2 {
		t.Errorf("%d messages were delivered", n)
	}
	order := func(want int, o Order) {
		t.Helper()
		var sum int
		if err := h.Call("Foreman", "f", "Order", o, &sum); (err != nil) != o.Fail || sum != want {
			t.Errorf("%+v: %d, %v, want %d", o, sum, err, want)
		}
	}
	order(3, Order{Helper: one, Add: 2})
	order(0, Order{Helper: one, Add: 2, Fail: true})
	order(0, Order{Helper: two, Add: 5, Tell: true})
	order(0, Order{Helper: two, Add: 5, Tell: true, Fail: true})
	h.Deliver()
	order(0, Order{Helper: one, Method: "Share"})
	order(0, Order{Helper: one, Method: "Try"})
	wantState(t, h, "Helper", one.ID, map[string]string{"sum": "3"})
	wantState(t, h, "Helper", two.ID, map[string]string{"sum": "7"})
	order(12, Order{Helper: two, Add: 5})
	h.Deliver()
	if done := h.State("Foreman", "f")["done"]; done != "[12]" {
		t.Errorf("the helpers have told their foreman %s", done)
	}
	for _, actors := range h.Actors() {
		if actors.Type == "Helper" {
			t.Errorf("%v is stored", actors)
		}
	}
	if err := h.Call("Helper", one.ID, "Add", 1, nil); !errors.Is(err, actor.ErrPassedAway) {
		t.Errorf("a call from outside: %v", err)
	}
	if err := h.Call("Foreman", "g", "Order", Order{Helper: one, Add: 1}, nil); !errors.Is(err, actor.ErrPassedAway) {
		t.Errorf("a call of another actor: %v", err)
	}
	if err := h.Call("Foreman", "g", "Order", Order{Helper: one, Add: 1, Tell: true}, nil); err == nil {
		t.Error("a message of another actor was taken")
	}
}

// TestChildrenEnd: children end with their parent's presence in memory, and by themselves.
func TestChildrenEnd(t *testing.T) {
	for name, end := range map[string]func(h *actortest.Harness, helper actor.Ref) error{
		"deactivated": func(h *actortest.Harness, _ actor.Ref) error { h.Deactivate("Foreman", "f"); return nil },
		"deleted":     func(h *actortest.Harness, _ actor.Ref) error { h.Delete("Foreman", "f"); return nil },
		"passed away": func(h *actortest.Harness, _ actor.Ref) error { return h.Call("Foreman", "f", "Go", nil, nil) },
		"left":        func(h *actortest.Harness, _ actor.Ref) error { return h.Leave("Foreman", "f") },
		"itself": func(h *actortest.Harness, helper actor.Ref) error {
			return h.Call("Foreman", "f", "Order", Order{Helper: helper, Method: "Pass"}, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := actortest.New(t)
			var helper actor.Ref
			if err := h.Call("Foreman", "f", "Hire", false, &helper); err != nil {
				t.Fatal(err)
			}
			if err := end(h, helper); err != nil {
				t.Fatal(err)
			}
			if err := h.Call("Foreman", "f", "Order", Order{Helper: helper, Add: 1}, nil); !errors.Is(err, actor.ErrPassedAway) {
				t.Errorf("a call of it: %v", err)
			}
			h.Deliver() // what was told before
			if name != "deleted" && h.State("Foreman", "f")["back"] != `["passed_away"]` {
				t.Errorf("its foreman has %v", h.State("Foreman", "f"))
			}
			if got := h.State("Helper", helper.ID); len(got) != 0 {
				t.Errorf("it has %v", got)
			}
			h.Advance(time.Second)
		})
	}
}

// TestBoundOfChildren: 64 children of a turn, 100 of an actor, and none of types that no host keeps in memory.
func TestBoundOfChildren(t *testing.T) {
	h := actortest.New(t)
	var made []int
	for range 3 {
		var n int
		if err := h.Call("Foreman", "f", "HireMany", 80, &n); err != nil {
			t.Fatal(err)
		}
		made = append(made, n)
	}
	if !slices.Equal(made, []int{64, 36, 0}) {
		t.Errorf("the turns make %v children", made)
	}
	for _, typ := range []string{"Missing", "Nomad"} {
		var e *actor.Error
		if err := h.Call("Foreman", "g", "HireWrong", typ, nil); !errors.As(err, &e) || e.Code != "invalid_type" {
			t.Errorf("a child of the type %s: %v", typ, err)
		}
	}
	if err := h.Call("Nomad", "n", "HireWrong", "Helper", nil); !errors.Is(err, actor.ErrNoState) {
		t.Errorf("a child of an actor that no host keeps: %v", err)
	}
}
