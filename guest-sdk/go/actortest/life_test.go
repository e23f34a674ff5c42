package actortest_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actortest"
)

// Door is open or closed.
type Door struct {
	Steps int `json:"steps"`
}

func (d *Door) Open(ctx *actor.Context, _ actor.None) (string, error) {
	d.Steps++
	return ctx.MethodSet(), actor.Become(ctx, "open")
}

func (d *Door) Close(ctx *actor.Context, set string) (string, error) {
	return ctx.MethodSet(), actor.Become(ctx, set)
}

func (d *Door) Enter(*actor.Context, actor.None) (actor.None, error) {
	d.Steps++
	return actor.None{}, nil
}

// Fall becomes open, and fails.
func (d *Door) Fall(ctx *actor.Context, _ actor.None) (actor.None, error) {
	return actor.None{}, errors.Join(actor.Become(ctx, "open"), errors.New("it falls"))
}

// Egg exists only if it was laid.
type Egg struct {
	Weight int `json:"weight"`
}

func (e *Egg) Grow(_ *actor.Context, by int) (int, error) {
	e.Weight += by
	return e.Weight, nil
}

// Hatch ends the egg. The struct that it has changed is not saved.
func (e *Egg) Hatch(ctx *actor.Context, _ actor.None) (string, error) {
	e.Weight = 0
	if err := actor.SetReminder(ctx, actor.Reminder{Name: "never", Method: "Grow", In: 1, After: time.Hour}); err != nil {
		return "", err
	}
	if err := actor.PassAway(ctx); err != nil {
		return "", err
	}
	e.Weight = 7
	for _, err := range []error{
		ctx.State().Set("weight", 1), actor.PassAway(ctx), laid(ctx), actor.Become(ctx, ""), actor.Claim(ctx, "egg"),
		actor.SetReminder(ctx, actor.Reminder{Name: "later", Method: "Grow"}), actor.SetTimer(ctx, actor.Timer{Name: "later", Method: "Grow"}),
	} {
		if !errors.Is(err, actor.ErrLifeOver) {
			return "", err
		}
	}
	return "hatched", actor.Send(ctx, actor.Ref{Type: "Hen", ID: "h"}, "Hatched", ctx.ID())
}

func laid(ctx *actor.Context) error {
	_, err := actor.Spawn(ctx, "Egg")
	return err
}

// Hen lays eggs.
type Hen struct {
	Hatched []string `json:"hatched"`
	Cold    []string `json:"cold"`
}

func (h *Hen) Lay(ctx *actor.Context, refuse bool) (actor.Ref, error) {
	egg, err := actor.Spawn(ctx, "Egg")
	if err != nil {
		return egg, err
	}
	if _, err := actor.Call[int](ctx, egg, "Grow", 5); !errors.Is(err, actor.ErrNotAtomic) {
		return egg, fmt.Errorf("a call before it is there: %w", err)
	}
	if err := actor.Send(ctx, egg, "Grow", 5); err != nil {
		return egg, err
	}
	if refuse {
		return egg, errors.New("no")
	}
	return egg, nil
}

func (h *Hen) LayWrong(ctx *actor.Context, typ string) (actor.Ref, error) {
	return actor.Spawn(ctx, typ)
}

func (h *Hen) OnHatched(_ *actor.Context, id string) (actor.None, error) {
	h.Hatched = append(h.Hatched, id)
	return actor.None{}, nil
}

func (h *Hen) Warm(ctx *actor.Context, id string) (actor.None, error) {
	return actor.None{}, actor.Send(ctx, actor.Ref{Type: "Egg", ID: id}, "Grow", 1, actor.Delay(time.Hour), actor.OnUndelivered("GotCold"))
}

func (h *Hen) GotCold(ctx *actor.Context, by int) (actor.None, error) {
	h.Cold = append(h.Cold, ctx.Cause().Failed)
	return actor.None{}, nil
}

// Nest notes its hooks.
type Nest struct {
	Ran    []string `json:"ran"`
	Broken string   `json:"broken"` // the hook that fails
}

// hook returns a method that notes that it ran.
func hook(name string) func(*Nest, *actor.Context, actor.None) (actor.None, error) {
	return func(n *Nest, ctx *actor.Context, _ actor.None) (actor.None, error) {
		n.Ran = append(n.Ran, name)
		if cause := ctx.Cause(); cause.Kind != actor.CauseCall {
			return actor.None{}, fmt.Errorf("the hook has the cause %v", cause)
		}
		if n.Broken == name {
			return actor.None{}, actor.NewError(actor.StatusUnavailable, "broken", "as told")
		}
		if _, err := actor.Call[actor.None](ctx, actor.Ref{Type: "Nest", ID: "other"}, "Sit", nil); name == "left" && !errors.Is(err, actor.ErrNotAtomic) {
			return actor.None{}, fmt.Errorf("a call: %w", err)
		}
		return actor.None{}, nil
	}
}

func (n *Nest) Sit(*actor.Context, actor.None) (actor.None, error) { return actor.None{}, nil }

func (n *Nest) Break(_ *actor.Context, name string) (actor.None, error) {
	n.Broken = name
	return actor.None{}, nil
}

func (n *Nest) Look(*actor.Context, actor.None) ([]string, error) { return n.Ran, nil }

func (n *Nest) End(ctx *actor.Context, _ actor.None) (actor.None, error) {
	return actor.None{}, actor.PassAway(ctx)
}

func init() {
	actor.Register("Gate", actor.WaitOutsideSet(), actor.Method("Open", (*Door).Open), actor.Method("Close", (*Door).Close), actor.Method("Enter", (*Door).Enter, actor.In("open")), actor.Method("Fall", (*Door).Fall, actor.In("closed")))
	actor.Register("Nest", actor.Hooks{Created: "Made", Activated: "Woken", Leaving: "Left"}, actor.Method("Sit", (*Nest).Sit), actor.Method("Break", (*Nest).Break), actor.Method("End", (*Nest).End), actor.ReadOnly("Look", (*Nest).Look),
		actor.Method("Made", hook("made"), actor.Private()), actor.Method("Woken", hook("woken"), actor.Private()), actor.Method("Left", hook("left"), actor.Private()))
	actor.Register("Door", actor.Method("Open", (*Door).Open), actor.Method("Close", (*Door).Close, actor.In("open", "ajar")),
		actor.Method("Enter", (*Door).Enter, actor.In("open")), actor.Method("Fall", (*Door).Fall))
	actor.Register("Egg", actor.SpawnOnly(), actor.Method("Grow", (*Egg).Grow), actor.Method("Hatch", (*Egg).Hatch))
	actor.Register("Hen", actor.Method("Lay", (*Hen).Lay), actor.Method("LayWrong", (*Hen).LayWrong), actor.Method("Hatched", (*Hen).OnHatched),
		actor.Method("Warm", (*Hen).Warm), actor.Method("GotCold", (*Hen).GotCold))
}

func wantState(t *testing.T, h *actortest.Harness, typ, id string, want map[string]string) {
	t.Helper()
	if got := h.State(typ, id); !maps.Equal(got, want) {
		t.Errorf("the state of %s %s: got %q, want %q", typ, id, got, want)
	}
}

// TestMessagesOutsideASetWait: no attempt is used up, and they run once the set has their method.
func TestMessagesOutsideASetWait(t *testing.T) {
	h := actortest.New(t)
	do(t, h, "Gate", "g", "Close", "closed")
	h.Send("Gate", "g", "Enter", nil)
	h.Advance(time.Hour)
	if sent := h.Sent(); h.Deliver() != 0 || len(sent) != 1 || sent[0].Failures != 0 {
		t.Errorf("left %+v", sent)
	}
	if err := h.Call("Gate", "g", "Enter", nil, nil); !errors.Is(err, actor.ErrNotAccepted) {
		t.Errorf("a call, which nobody can wait for: %v", err)
	}
	do(t, h, "Gate", "g", "Close", "open")
	if n := h.Deliver(); n != 1 || len(h.Sent()) != 0 {
		t.Errorf("delivered %d, left %+v", n, h.Sent())
	}
}

// TestHooks: they run where they run on a host.
func TestHooks(t *testing.T) {
	h := actortest.New(t)
	wants := func(want ...string) {
		t.Helper()
		var ran []string
		if err := h.Call("Nest", "n", "Look", nil, &ran); err != nil || !slices.Equal(ran, want) {
			t.Errorf("it ran %q, %v; want %q", ran, err, want)
		}
	}
	fails := func(method, want string) {
		t.Helper()
		err := h.Call("Nest", "n", method, nil, nil)
		if e := (*actor.Error)(nil); !errors.As(err, &e) || e.Message != want {
			t.Errorf("%s: %v, want %s", method, err, want)
		}
	}
	wants() // a read-only method runs none
	if err := h.Leave("Nest", "n"); err != nil {
		t.Error(err)
	}
	wants() // it has not begun to live
	do(t, h, "Nest", "n", "Sit", nil)
	do(t, h, "Nest", "n", "Sit", nil)
	wants("made", "woken")
	h.Deactivate("Nest", "n")
	if err := h.Leave("Nest", "n"); err != nil {
		t.Error(err)
	}
	wants("made", "woken") // it was not in memory
	do(t, h, "Nest", "n", "Sit", nil)
	if err := h.Leave("Nest", "n"); err != nil {
		t.Error(err)
	}
	wants("made", "woken", "woken", "left")
	do(t, h, "Nest", "n", "Break", "left")
	if err := h.Leave("Nest", "n"); err == nil {
		t.Error("the hook did not fail")
	}
	wants("made", "woken", "woken", "left", "woken")
	do(t, h, "Nest", "n", "Break", "woken")
	h.Deactivate("Nest", "n")
	fails("Sit", "the hook Woken: as told")
	h.SetState("Nest", "n", 0, map[string]string{"ran": "[]"})
	do(t, h, "Nest", "n", "Sit", nil)
	wants("woken")
	do(t, h, "Nest", "n", "End", nil)
	wants()
	do(t, h, "Nest", "n", "Sit", nil)
	wants("made", "woken")
}

func TestMethodSets(t *testing.T) {
	h := actortest.New(t)
	do(t, h, "Door", "d", "Enter", nil) // all methods, at first
	var was string
	if err := h.Call("Door", "d", "Close", "ajar", &was); err != nil || was != "" || h.MethodSet("Door", "d") != "ajar" {
		t.Fatalf("%q, %v", was, err)
	}
	if err := h.Call("Door", "d", "Enter", nil, nil); !errors.Is(err, actor.ErrNotAccepted) {
		t.Errorf("a call outside the set: %v", err)
	}
	if err := h.Call("Door", "d", "Fall", nil, nil); err == nil || h.MethodSet("Door", "d") != "ajar" {
		t.Errorf("a turn that failed: %v, %q", err, h.MethodSet("Door", "d"))
	}
	// A message that is not accepted is delivered again.
	h.Send("Door", "d", "Enter", nil)
	if n := h.Deliver(); n != 1 || len(h.Sent()) != 1 {
		t.Errorf("delivered %d, left %+v", n, h.Sent())
	}
	if err := h.Call("Door", "d", "Open", nil, &was); err != nil || was != "ajar" { // in all sets
		t.Errorf("%q, %v", was, err)
	}
	h.Advance(time.Second)
	wantState(t, h, "Door", "d", map[string]string{"steps": "3"})
	do(t, h, "Door", "d", "Close", "")
	if set := h.MethodSet("Door", "d"); set != "" {
		t.Errorf("the set is %q", set)
	}
	err := h.Call("Door", "d", "Close", "locked", nil)
	if e := (*actor.Error)(nil); !errors.As(err, &e) || e.Code != "invalid_set" {
		t.Errorf("an unknown set: %v", err)
	}
}

func TestSpawnAndPassAway(t *testing.T) {
	h := actortest.New(t)
	if err := h.Call("Egg", "mine", "Grow", 1, nil); !errors.Is(err, actor.ErrPassedAway) {
		t.Errorf("an egg that nobody laid: %v", err)
	}
	var refused, egg, second actor.Ref
	if err := h.Call("Hen", "h", "Lay", true, &refused); err == nil {
		t.Fatal("not refused")
	}
	for _, ref := range []*actor.Ref{&egg, &second} {
		if err := h.Call("Hen", "h", "Lay", false, ref); err != nil {
			t.Fatal(err)
		}
	}
	if egg == second || egg.Type != "Egg" {
		t.Errorf("spawned %v and %v", egg, second)
	}
	if n := h.Deliver(); n != 2 {
		t.Errorf("delivered %d", n)
	}
	wantState(t, h, "Egg", egg.ID, map[string]string{"weight": "5"})
	do(t, h, "Hen", "h", "Warm", egg.ID)
	var said string
	if err := h.Call("Egg", egg.ID, "Hatch", nil, &said); err != nil || said != "hatched" {
		t.Fatalf("%q, %v", said, err)
	}
	if err := h.Call("Egg", egg.ID, "Grow", 1, nil); !errors.Is(err, actor.ErrPassedAway) {
		t.Errorf("a spawned actor that has passed away: %v", err)
	}
	wantState(t, h, "Egg", egg.ID, map[string]string{})
	h.Advance(2 * time.Hour)
	wantState(t, h, "Hen", "h", map[string]string{"hatched": `["` + egg.ID + `"]`, "cold": `["passed_away"]`})
	if len(h.Reminders()) != 0 || slices.Contains(h.Actors(), egg) {
		t.Errorf("%v, %v", h.Reminders(), h.Actors())
	}
	for typ, code := range map[string]string{"Nobody": "invalid_type", "Free": "invalid_type"} {
		err := h.Call("Hen", "h", "LayWrong", typ, nil)
		if e := (*actor.Error)(nil); !errors.As(err, &e) || e.Code != code {
			t.Errorf("spawn %s: %v", typ, err)
		}
	}
}

// Free has no state.
type Free struct{}

func (*Free) Do(*actor.Context, actor.None) (actor.None, error) { return actor.None{}, nil }

// Mayfly passes away without having been spawned.
type Mayfly struct {
	Days int `json:"days"`
}

func init() {
	actor.Register("Free", actor.PlacementStateless, actor.Method("Do", (*Free).Do))
	actor.Register("Mayfly", actor.Method("Live", func(m *Mayfly, ctx *actor.Context, end bool) (int, error) {
		m.Days++
		if end {
			return m.Days, errors.Join(actor.Claim(ctx, "mayfly"), actor.PassAway(ctx))
		}
		return m.Days, nil
	}))
}

func TestLaterCallsMeetTheEmptyActor(t *testing.T) {
	h := actortest.New(t)
	for i, want := range []int{1, 2, 3, 1} {
		var days int
		if err := h.Call("Mayfly", "m", "Live", i == 2, &days); err != nil || days != want {
			t.Errorf("call %d: %d, %v", i, days, err)
		}
	}
	if ref, found := h.Service("mayfly"); found {
		t.Errorf("%v stands for a service", ref)
	}
}
