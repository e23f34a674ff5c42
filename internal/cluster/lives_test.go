//go:build unix

package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/greenroom-run/greenroom/client"
	"github.com/greenroom-run/greenroom/internal/crash"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/pgtest"
)

// TestLives: whatever breaks, an actor accepts the methods of the set that its last turn chose, a turn
// spawns once, a life ends once and with all that it had, a spawned actor stays dead, and one actor at a
// time stands for a service. Each caller has actors of its own, so it knows what each answer has to be.
func TestLives(t *testing.T) {
	t.Run("postgresql", func(t *testing.T) {
		db := pgtest.Start(t)
		lives(t, db.Database(t), db)
	})
	if os.Getenv(pgtest.CockroachVariable) != "" {
		t.Run("cockroachdb", func(t *testing.T) {
			url, _ := pgtest.CockroachURL(t)
			lives(t, url, nil)
		})
	}
}

func lives(t *testing.T, database string, db *pgtest.Server) {
	t.Helper()
	members := startCluster(t, database, nil)
	deployGuest(t, members[0], "../crash/testdata/lives", guestbuild.Go)
	r := &run{members: members, client: newClient(t, members, 0), names: callers}
	var mu sync.Mutex
	met := map[string]int{}
	spawned := map[string]bool{} // by ID, whether it is dead
	random := r.begin(t, func(ctx context.Context, t *testing.T, caller int, random *rand.Rand) {
		k := &doorkeeper{run: r, name: fmt.Sprint("k", caller), random: random}
		for ctx.Err() == nil {
			select {
			case <-r.stop:
				return
			default:
			}
			what, err := k.step(ctx)
			if err != nil {
				if ctx.Err() == nil {
					t.Errorf("%s: %v", k.name, err)
				}
				return
			}
			mu.Lock()
			met[what]++
			if id := k.made; id != "" {
				if _, again := spawned[id]; again {
					t.Errorf("%s was spawned twice", id)
				}
				spawned[id] = false
			}
			if k.dead != "" {
				spawned[k.dead] = true
			}
			mu.Unlock()
			k.made, k.dead = "", ""
			select {
			case r.acks <- k.name:
			default:
			}
		}
	})
	r.breakAll(t, random, faults(db), func() {})
	r.finish()
	alive := 0
	for id, dead := range spawned {
		if !dead {
			alive++
			continue
		}
		if _, err := r.reply(t.Context(), client.Request{Type: "Guest", ID: id, Method: "Greet", IdempotencyKey: "again"}); kindOf(err) != "passed_away" {
			t.Errorf("%s, whose life is over: %v", id, err)
		}
	}
	t.Logf("met %v, %d of %d spawned actors live", met, alive, len(spawned))
	for _, what := range []string{"enter", "enter refused", "open", "close", "end", "make", "leave", "claim", "claim refused", "release"} {
		if met[what] == 0 {
			t.Errorf("no turn: %s", what)
		}
	}
}

// doorkeeper is a caller that has two doors, and the guests that they spawn.
type doorkeeper struct {
	*run
	name   string
	random *rand.Rand
	calls  int
	doors  [2]struct {
		entered int
		set     string
		made    int // guests, in this life
		claims  bool
	}
	guests []string
	// made and dead are what the last step has spawned, and whose life it has ended.
	made, dead string
}

// ask makes a call once, and decodes its reply. kind is that of the refusal.
func (k *doorkeeper) ask(ctx context.Context, typ, id, method, payload string, into any) (kind string, err error) {
	k.calls++
	text, err := k.reply(ctx, client.Request{Type: typ, ID: id, Method: method, Payload: []byte(payload), IdempotencyKey: fmt.Sprint(k.name, " ", k.calls)})
	if kind := kindOf(err); kind == "not_accepted" || kind == "passed_away" {
		return kind, nil
	}
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		err = fmt.Errorf("%s.%s: %w", id, method, err)
	}
	return "", err
}

func kindOf(err error) string {
	var e *client.Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}

// step does something, says what, and checks the answer.
func (k *doorkeeper) step(ctx context.Context) (what string, err error) {
	i := k.random.IntN(len(k.doors))
	d, id, service := &k.doors[i], fmt.Sprint(k.name, "-", i), fmt.Sprintf("%q", "service of "+k.name)
	differs := func(got, want any) error { return fmt.Errorf("%s of %s: %v, want %v", what, id, got, want) }
	method := map[string]string{"enter": "Enter", "open": "Open", "close": "Close", "end": "End"}
	switch what = []string{"enter", "enter", "enter", "open", "close", "end", "make", "leave", "claim", "release", "look"}[k.random.IntN(11)]; what {
	case "enter", "open", "close", "end":
		var n int
		kind, err := k.ask(ctx, "Door", id, method[what], "", &n)
		if err != nil {
			return what, err
		}
		accepts := d.set == "" || what == "end" || what == "open" && d.set == "closed" || what != "open" && d.set == "open"
		if (kind == "") != accepts {
			return what, differs(kind, accepts)
		}
		if kind != "" {
			return what + " refused", nil
		}
		if what == "enter" {
			d.entered++
		}
		if n != d.entered {
			return what, differs(n, d.entered)
		}
		switch what {
		case "open":
			d.set = "open"
		case "close":
			d.set = "closed"
		case "end":
			d.entered, d.set, d.made, d.claims = 0, "", 0, false
		}
	case "make":
		if _, err := k.ask(ctx, "Door", id, "Make", "", &k.made); err != nil {
			return what, err
		}
		d.made++
		k.guests = append(k.guests, k.made)
	case "leave":
		if len(k.guests) == 0 {
			return "", nil
		}
		guest := k.guests[0]
		k.guests = k.guests[1:]
		var n int
		if kind, err := k.ask(ctx, "Guest", guest, "Greet", "", &n); err != nil || kind != "" || n < 1 || n > 2 {
			return what, errors.Join(err, differs(fmt.Sprint(n, " ", kind), "1 or 2, with the message"))
		}
		if kind, err := k.ask(ctx, "Guest", guest, "Leave", "", &n); err != nil || kind != "" || n < 1 || n > 2 {
			return what, errors.Join(err, differs(fmt.Sprint(n, " ", kind), "1 or 2, with the message"))
		}
		if kind, err := k.ask(ctx, "Guest", guest, "Greet", "", &n); err != nil || kind != "passed_away" {
			return what, errors.Join(err, differs(kind, "passed_away"))
		}
		k.dead = guest
	case "claim":
		var held bool
		if _, err := k.ask(ctx, "Door", id, "Claim", service, &held); err != nil {
			return what, err
		}
		if want := !k.doors[1-i].claims; held != want {
			return what, differs(held, want)
		}
		if !held {
			return what + " refused", nil
		}
		d.claims = true
	case "release":
		var held bool
		if _, err := k.ask(ctx, "Door", id, "Release", service, &held); err != nil {
			return what, err
		}
		if held != d.claims {
			return what, differs(held, d.claims)
		}
		d.claims = false
	case "look":
		var now struct {
			Entered int
			Made    []any
		}
		text, err := k.reply(ctx, client.Request{Type: "Door", ID: id, Method: "Look", ReadOnly: true, Strong: true})
		if err == nil {
			err = json.Unmarshal(text, &now)
		}
		if err != nil {
			return what, err
		}
		if now.Entered != d.entered || len(now.Made) != d.made {
			return what, differs(now, *d)
		}
	}
	return what, nil
}

// TestManyMessages has actors on three servers send each other GREENROOM_MESSAGES messages at least,
// while everything breaks: each takes effect once, in the order of its sender, and each that is never
// taken comes back once. Fewer do so in TestThreeHosts.
func TestManyMessages(t *testing.T) {
	least := crash.Messages(t, 0)
	if least == 0 {
		t.Skip("GREENROOM_MESSAGES is not set")
	}
	db := pgtest.Start(t)
	members := startCluster(t, db.Database(t), nil)
	deployGuest(t, members[0], "../node/testdata/post", guestbuild.Go)
	r := &run{members: members, client: newClient(t, members, 0), names: callers}
	var waves, messages atomic.Int64
	random := r.begin(t, func(ctx context.Context, t *testing.T, caller int, _ *rand.Rand) {
		posts := crash.Large(least/callers, func(ctx context.Context, req client.Request) ([]byte, error) {
			text, err := r.reply(ctx, req)
			if err == nil {
				select {
				case r.acks <- fmt.Sprint(caller):
				default:
				}
			}
			return text, err
		})
		for ctx.Err() == nil {
			select {
			case <-r.stop:
				return
			default:
			}
			n, err := posts.Wave(ctx, int(waves.Add(1)))
			if err != nil {
				if ctx.Err() == nil {
					t.Error(err)
				}
				return
			}
			messages.Add(int64(n))
		}
	})
	for messages.Load() < int64(least) && !t.Failed() {
		r.breakAll(t, random, faults(db), func() {})
		t.Logf("%d messages took effect", messages.Load())
	}
	r.finish()
	t.Logf("%d messages took effect in %d waves", messages.Load(), waves.Load())
}
