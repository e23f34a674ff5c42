package guarantees

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/faultstore"
)

// setOnly are reminders that are stored, and that nothing delivers.
type setOnly struct {
	store.Store
	tokens atomic.Uint32
}

func (r *setOnly) Prepare(_ context.Context, spec actor.ReminderSpec) (actor.Reminder, error) {
	due := time.Now().Add(spec.Schedule.After)
	return actor.Reminder{
		ID: actor.ReminderID{Prefix: 1, Vector: actor.Vector([]byte("programs")), Token: r.tokens.Add(1)}, Version: 1, ReminderSpec: spec,
		ReminderProgress: actor.ReminderProgress{Due: due, FireAt: due, Left: 1},
	}, spec.Validate()
}

func (*setOnly) Unused(string, []actor.ReminderID) {}

func (*setOnly) Committed(*actor.ReminderEffects) {}

func (r *setOnly) ReminderNames(ctx context.Context, key actor.Key, prefix string, limit int) ([]string, error) {
	return r.Store.ReminderNames(ctx, store.ReminderNameQuery{Key: key, Prefix: prefix, Limit: min(limit, 100)})
}

func (r *setOnly) ThinReminders(ctx context.Context, row actor.RowFence, damaged bool) error {
	return store.ThinReminders(ctx, r.Store, row, damaged)
}

func (r *setOnly) EarlierMessage(ctx context.Context, n actor.ReminderName) (bool, error) {
	return store.EarlierMessage(ctx, r.Store, n)
}

func (*setOnly) Inbox(context.Context, actor.Key) (messages int, bytes int64, err error) {
	return 0, 0, nil
}

var programActors = []string{"a", "b", "c"}

// programType is the type of a program's actor. That of c is placed otherwise.
func programType(id string) string {
	if id == "c" {
		return "Loose"
	}
	return "Counter"
}

func (r *rig) programKey(id string) actor.Key {
	return actor.Key{App: r.app, Type: programType(id), ID: id}
}

// program returns calls, failures, reminders, timers and messages, nested at random.
func program(rng *rand.Rand, depth int) (ops []hosttest.Op) {
	pick := func(from ...string) string { return from[rng.IntN(len(from))] }
	for range rng.IntN(5) {
		o := hosttest.Op{Do: pick("add", "add", "call", "call", "call", "must", "must", "fail", "trap", "remind", "cancel", "names", "time", "untime", "send", "send")}
		switch o.Do {
		case "add":
			o.N = int64(rng.IntN(10) - 3)
		case "call", "must":
			o.ID, o.Again = pick(programActors...), rng.IntN(2) == 0
			o.Type = programType(o.ID)
			if o.Look = depth == 0 || rng.IntN(5) == 0; !o.Look {
				o.Ops = program(rng, depth-1)
			}
		case "remind", "cancel":
			o.ID = pick("x", "y")
		case "send":
			o.ID, o.N = pick(programActors...), int64(rng.IntN(100))
			o.Type = programType(o.ID)
		case "time", "untime":
			o.ID, o.N = pick("tx", "ty"), 3600
		}
		ops = append(ops, o)
	}
	return ops
}

// TestChainsAgainstModel runs programs of nested calls, failures, reentrancy, reminders, timers and
// messages, one after the other, with faults of the store, and compares every reply and what is stored with a
// sequential model. No host holds one of the actors.
func TestChainsAgainstModel(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s store.Store) {
		const calls = 120
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		rng := rand.New(rand.NewPCG(seed, 1))
		r := newRig(t, s, "programs", faultstore.Config{Seed: 5})
		r.reminders = &setOnly{Store: r.store}
		loose := hosttest.ScriptedActor()
		r.world.Deploy(r.app, "Counter", loose)
		loose.Placement = abi.PlacementAny
		r.world.Deploy(r.app, "Loose", loose)
		hosts := []*host.Host{r.host(t, host.Limits{}), r.host(t, host.Limits{})} // that commit by themselves, and by their callers
		h := hosts[rng.IntN(len(hosts))]
		m := hosttest.Model{}
		for i := range calls {
			if i%4 == 3 {
				r.store.Arm([]faultstore.Fault{faultstore.CommitFails, faultstore.CommitLost, faultstore.CommitReplyLost}[rng.IntN(3)], 1)
			}
			id, ops := programActors[rng.IntN(len(programActors))], program(rng, 4)
			after, want, code := m.Run(id, ops)
			reply, err := h.Invoke(t.Context(), actor.Invocation{Key: r.programKey(id), Method: "Do", Payload: actor.Payload{Data: []byte(hosttest.Script(ops...))}})
			r.store.Calm()
			var guest *actor.GuestError
			var trap *actor.TrapError
			got := ""
			switch {
			case err == nil:
				m = after
			case errors.Is(err, actor.ErrUnavailable): // nothing was done
				got, want = code, ""
			case errors.As(err, &guest):
				got = guest.Code
			case errors.As(err, &trap):
				got = "trap"
			default:
				t.Fatalf("call %d: %v", i, err)
			}
			if code != "" {
				want = ""
			}
			if got != code || string(reply.Payload.Data) != want {
				t.Fatalf("call %d, %s of %s: %q, %v, want %q %s", i, hosttest.Script(ops...), id, reply.Payload.Data, err, want, code)
			}
			for _, id := range programActors {
				if now := r.programmed(t, h, id); now.String() != m[id].String() {
					t.Fatalf("after call %d %s is %v, want %v", i, id, now, m[id])
				}
			}
		}
	})
}

// programmed returns what a scripted actor has, from the store and in the memory of a host.
func (r *rig) programmed(t *testing.T, h *host.Host, id string) hosttest.ModelActor {
	t.Helper()
	reply, err := h.Invoke(t.Context(), actor.Invocation{Key: r.programKey(id), Method: "Look", Consistency: actor.ConsistencyStrong})
	if err != nil {
		t.Fatal(err)
	}
	a := hosttest.ModelActor{Has: map[string]bool{}}
	fmt.Sscan(string(reply.Payload.Data), &a.N)
	names, err := r.reminders.ReminderNames(t.Context(), r.programKey(id), "", 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		a.Has[name] = true
	}
	a.Sent = map[string]string{}
	for _, to := range programActors {
		list, _, err := r.store.ListMessages(t.Context(), store.MessageQuery{Key: r.programKey(to), Limit: store.MaxList})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range list {
			if m.Message.From == r.programKey(id) {
				a.Sent[to] += " " + string(m.Payload.Data)
			}
		}
	}
	for _, name := range []string{"tx", "ty"} {
		if _, err := h.GetTimer(t.Context(), r.programKey(id), name); err == nil {
			a.Has[name] = true
		}
	}
	return a
}
