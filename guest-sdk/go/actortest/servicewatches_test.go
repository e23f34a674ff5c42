package actortest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actortest"
)

// Board watches services, and claims them.
type Board struct {
	Seen []string `json:"seen"`
}

func (b *Board) Watch(ctx *actor.Context, name string) (actor.None, error) {
	return actor.None{}, actor.WatchService(ctx, name, "See")
}

func (b *Board) Unwatch(ctx *actor.Context, name string) (bool, error) {
	return actor.UnwatchService(ctx, name)
}

func (b *Board) See(ctx *actor.Context, now actor.Services) (actor.None, error) {
	c := ctx.Cause()
	text := fmt.Sprint(c.Kind, " ", c.Name, c.From.ID, ":")
	for _, n := range now.Services {
		text += fmt.Sprint(" ", n.Name, "=", n.Ref())
	}
	if now.More {
		text = fmt.Sprint(len(now.Services), " and more")
	}
	b.Seen = append(b.Seen, strings.TrimSpace(text+" "+c.Failed))
	return actor.None{}, nil
}

func (b *Board) Claim(ctx *actor.Context, names []string) (actor.None, error) {
	for _, name := range names {
		if err := actor.Claim(ctx, name); err != nil {
			return actor.None{}, err
		}
	}
	return actor.None{}, nil
}

func (b *Board) Release(ctx *actor.Context, name string) (actor.None, error) {
	_, err := actor.Release(ctx, name)
	return actor.None{}, err
}

func (b *Board) WatchOwn(ctx *actor.Context, name string) (actor.None, error) {
	if err := actor.WatchService(ctx, name, "See"); err != nil {
		return actor.None{}, err
	}
	return b.Claim(ctx, []string{name})
}

func (b *Board) WatchAndFail(ctx *actor.Context, name string) (actor.None, error) {
	_, _ = b.WatchOwn(ctx, name)
	return actor.None{}, actor.Errorf("no", "no")
}

func (b *Board) End(ctx *actor.Context, _ actor.None) (actor.None, error) {
	return actor.None{}, actor.PassAway(ctx)
}

func (b *Board) Look(ctx *actor.Context, name string) (actor.None, error) {
	return actor.None{}, actor.WatchService(ctx, name, "See")
}

func (b *Board) Wrong(ctx *actor.Context, method string) (actor.None, error) {
	return actor.None{}, actor.WatchService(ctx, "mailer", method)
}

func init() {
	actor.Register("Board",
		actor.Method("Watch", (*Board).Watch), actor.Method("Unwatch", (*Board).Unwatch), actor.Method("See", (*Board).See),
		actor.Method("Claim", (*Board).Claim), actor.Method("Release", (*Board).Release), actor.Method("WatchOwn", (*Board).WatchOwn),
		actor.Method("WatchAndFail", (*Board).WatchAndFail), actor.Method("End", (*Board).End), actor.Method("Wrong", (*Board).Wrong),
		actor.ReadOnly("Look", (*Board).Look),
	)
}

// seen checks all that the board b has learned so far, and forgets it.
func seen(t *testing.T, h *actortest.Harness, want ...string) {
	t.Helper()
	h.Deliver()
	var got []string
	if state := h.State("Board", "b")["seen"]; state != "" {
		if err := json.Unmarshal([]byte(state), &got); err != nil {
			t.Error(err)
		}
	}
	wantList(t, "seen", got, want...)
	h.SetState("Board", "b", 0, nil)
}

// A board learns who stands for a group at once, and when that has changed; the newest list alone.
func TestWatchedServices(t *testing.T) {
	h := actortest.New(t)
	do(t, h, "Board", "b", "Watch", "work/")
	seen(t, h, "services work/:")
	do(t, h, "Board", "x", "Claim", []string{"work/2", "work/1", "worker"})
	do(t, h, "Board", "y", "Claim", []string{"work/10"})
	seen(t, h, "services work/: work/1=Board||x work/10=Board||y work/2=Board||x")
	do(t, h, "Board", "x", "Release", "worker")
	do(t, h, "Board", "x", "Release", "work/2")
	do(t, h, "Board", "y", "End", nil)
	seen(t, h, "services work/: work/1=Board||x")
	h.Delete("Board", "x")
	seen(t, h, "services work/:")
	seen(t, h)
	if w := h.Watches("Board", "b"); len(w) != 1 || w[actor.Service("work/")] != "See" {
		t.Errorf("watches %v", w)
	}
	watched := false
	if err := h.Call("Board", "b", "Unwatch", "work/", &watched); err != nil || !watched {
		t.Errorf("%v, %v", watched, err)
	}
	do(t, h, "Board", "x", "Claim", []string{"work/1"})
	seen(t, h)
}

// The first list has what the turn has claimed; one name is no group; a turn that fails watches nothing.
func TestWatchOfOneService(t *testing.T) {
	h := actortest.New(t)
	if err := h.Call("Board", "b", "WatchAndFail", "mailer", nil); err == nil {
		t.Error("no error")
	}
	seen(t, h)
	do(t, h, "Board", "x", "Claim", []string{"mailer/2"})
	do(t, h, "Board", "b", "WatchOwn", "mailer")
	do(t, h, "Board", "b", "Watch", "mailer")
	seen(t, h, "services mailer: mailer=Board||b")
	do(t, h, "Board", "b", "Watch", "mailer") // again
	seen(t, h)
	do(t, h, "Board", "b", "Unwatch", "mailer")
	do(t, h, "Board", "b", "Watch", "mailer")
	seen(t, h, "services mailer: mailer=Board||b")
	do(t, h, "Board", "b", "Release", "mailer")
	h.Move("Board", "b")
	seen(t, h, "services mailer: moved")
	do(t, h, "Board", "b", "Claim", []string{"mailer"})
	seen(t, h)
	do(t, h, "Board", "b", "Watch", "mailer")
	seen(t, h, "services mailer: mailer=Board||b")
	do(t, h, "Board", "b", "End", nil)
	do(t, h, "Board", "x", "Claim", []string{"mailer"})
	seen(t, h)
}

func TestWatchOfServicesRefused(t *testing.T) {
	h := actortest.New(t)
	for method, want := range map[string]string{"": "names no method", "Missing": `no method "Missing"`, "Look": "read-only"} {
		if err := h.Call("Board", "b", "Wrong", method, nil); !errors.Is(err, actor.ErrInvalidWatch) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", method, err, want)
		}
	}
	for _, name := range []string{"", "\x00", strings.Repeat("x", 257)} {
		if err := h.Call("Board", "b", "Watch", name, nil); !errors.Is(err, actor.ErrInvalidWatch) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := h.Call("Board", "b", "Look", "mailer", nil); !errors.Is(err, actor.ErrReadOnly) {
		t.Errorf("read-only: %v", err)
	}
	for i := range 100 {
		do(t, h, "Board", "b", "Watch", fmt.Sprint(i))
	}
	if err := h.Call("Board", "b", "Watch", "x", nil); !errors.Is(err, actor.ErrTooMany) {
		t.Errorf("one too many: %v", err)
	}
}

// A group of more services than a list has says so.
func TestWatchOfALargeGroup(t *testing.T) {
	h := actortest.New(t)
	do(t, h, "Board", "b", "Watch", "work/")
	var names []string
	for i := range 257 {
		names = append(names, fmt.Sprint("work/", i))
	}
	do(t, h, "Board", "x", "Claim", names)
	seen(t, h, "256 and more")
}
