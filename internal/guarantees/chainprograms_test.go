package guarantees

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
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

// Accepted implements [host.Reminders].
func (*setOnly) Accepted([]actor.ReminderID) {}

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

// TestChainsAgainstModel runs programs of nested calls, failures, reentrancy, reminders, timers, durable
// and volatile messages, events, services and lives, one after the other, from outside and as messages,
// with faults of the store, and compares every reply and what is there afterwards with a sequential
// model: on one host, and on three that know nothing of each other. No host holds one of the actors.
func TestChainsAgainstModel(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s store.Store) {
		t.Run("one host", func(t *testing.T) { chainsAgainstModel(t, s, 1) })
		t.Run("three hosts", func(t *testing.T) { chainsAgainstModel(t, s, 3) })
	})
}

// programRig is a rig with what the model says of its actors.
type programRig struct {
	*rig
	hosts []*host.Host
	m     hosttest.Model
	heard chan struct{} // has a value for each delivery of a volatile message
	met   map[string]int
}

func chainsAgainstModel(t *testing.T, s store.Store, hosts int) {
	const least, most = 120, 5000
	rng := rand.New(rand.NewPCG(seeded(t), 1))
	r := &programRig{rig: newRig(t, s, fmt.Sprint("programs-", hosts), faultstore.Config{Seed: rng.Uint64()}), heard: make(chan struct{}, 1<<10), met: map[string]int{}}
	set := &setOnly{Store: r.store}
	set.tokens.Store(uint32(hosts) << 20) //nolint:gosec // few; each test of a store has tokens of its own
	r.reminders = set
	r.turnEnd = func(e host.TurnEnd) {
		if e.Method == "Hear" {
			if e.Err != nil {
				t.Errorf("%s was told something: %v", e.Key.ID, e.Err)
			}
			r.heard <- struct{}{}
		}
	}
	loose := hosttest.ScriptedActor()
	r.world.Deploy(r.app, "Counter", loose)
	r.world.Deploy(r.app, "Child", loose)
	loose.Placement = abi.PlacementAny
	r.world.Deploy(r.app, "Loose", loose)
	for range max(2, hosts) { // those that commit by themselves, and by their callers
		r.hosts = append(r.hosts, r.host(t, host.Limits{}))
	}
	programs := hosttest.Programs{Draw: rng.IntN, Actors: programActors, Type: programType}
	if hosts == 1 {
		at := rng.IntN(2)
		r.hosts = r.hosts[at : at+1]
	} else {
		programs.Without = []string{"time", "untime"} // which a host has in its memory
	}
	faults := []faultstore.Fault{faultstore.CommitFails, faultstore.CommitLost, faultstore.CommitReplyLost}
	words := []string{"consumed", "order", "passed_away", "not_accepted", "not_reentrant", "on_purpose", "trap", "claim_-10", "told", "lives", "spawned", "events", "unavailable"}
	missing := func() (list []string) {
		for _, f := range faults {
			if r.store.Fired(f) == 0 {
				list = append(list, string(f))
			}
		}
		for _, word := range words {
			if r.met[word] == 0 {
				list = append(list, word)
			}
		}
		return list
	}
	for i := 0; i < least || i < most && len(missing()) > 0; i++ {
		id, fault := programs.Actor(), faultstore.Fault("")
		if i%4 == 3 {
			fault = faults[rng.IntN(len(faults))]
		}
		place := -1 // of the message that asks for the turn
		if inbox := r.m.Actor(id).Inbox; len(inbox) > 0 && rng.IntN(3) == 0 {
			place = rng.IntN(len(inbox))
		}
		r.program(t, fmt.Sprint("call ", i), id, place, programs.Script(4), fault, r.hosts[rng.IntN(len(r.hosts))])
	}
	t.Logf("met %v", r.met)
	if list := missing(); len(list) > 0 {
		t.Errorf("no program met: %v", list)
	}
}

// program runs what ops say, or the message at a place of an actor's inbox, and compares.
func (r *programRig) program(t *testing.T, what, id string, place int, ops []hosttest.Op, fault faultstore.Fault, h *host.Host) {
	t.Helper()
	inv := actor.Invocation{Key: r.programKey(id), Method: "Do", Payload: actor.Payload{Data: []byte(hosttest.Script(ops...))}}
	var after hosttest.Model
	var tells []hosttest.ModelTell
	var want, code string
	var letter actor.Reminder
	if place >= 0 {
		letter = r.letter(t, id, place)
		inv.Firing, inv.Payload = firingOf(&letter), letter.Payload
		ops = nil
		if err := json.Unmarshal(letter.Payload.Data, &ops); err != nil {
			t.Fatal(err)
		}
		after, tells, want, code = r.m.Consume(id, place, ops)
	} else {
		after, tells, want, code = r.m.Run(id, ops)
	}
	// What is told comes with commits of its own, which must not meet the fault: a turn that commits
	// nothing would leave it to them, and so would one under the lock of a row, which meets other faults.
	if fault != "" && (len(tells) == 0 || after.Durable() != r.m.Durable() && programType(id) != "Loose") {
		r.store.Arm(fault, 1)
	}
	reply, err := h.Invoke(t.Context(), inv)
	r.store.Calm()
	got := codeOf(err)
	switch {
	// Nothing was done. It is not known if a host that was behind has lost the refusal.
	case got == "unavailable" && fault != "", got == "ambiguous" && fault != "" && len(r.hosts) > 1:
		code, want, tells = got, "", nil
	case place >= 0 && got == "taken" && fault != "" && code == "": // it was done, and does not know it
		code, want, r.m = got, "", after
	case code == "":
		r.m = after
	default:
		want = ""
	}
	if got != code || string(reply.Payload.Data) != want {
		t.Fatalf("%s, %s of %s with the fault %q: %q, %v, want %q %s", what, hosttest.Script(ops...), id, fault, reply.Payload.Data, err, want, code)
	}
	r.met[cmp.Or(code, "ok")]++
	for _, word := range []string{"not_reentrant", "not_accepted", "passed_away"} {
		r.met[word] += strings.Count(want, word)
	}
	if place >= 0 && (code == "" || code == "taken") {
		r.met["consumed"]++
	}
	if place >= 0 && code == "passed_away" { // it is given up
		c := actor.CommitOf()
		c.Reminders.Steps = []actor.ReminderStep{inv.Firing.Step}
		if err := r.store.Commit(t.Context(), []actor.Commit{c})[0]; err != nil {
			t.Fatal(err)
		}
		r.m = r.m.Without(id, place)
	}
	for _, told := range tells {
		<-r.heard
		r.m = r.m.Tell(told)
		r.met["told"]++
	}
	r.met["spawned"] = r.m.Spawned
	for _, id := range programActors {
		want := r.m.Actor(id)
		if now := r.programmed(t, h, id); now.String() != want.String() {
			t.Fatalf("after %s, %s, %s is %v, want %v", what, hosttest.Script(ops...), id, now, want)
		}
		r.met["lives"], r.met["events"] = r.met["lives"]+want.Lives, r.met["events"]+len(want.Events)
	}
	if list, _, err := r.store.ListActors(t.Context(), store.ActorQuery{App: r.app, Type: "Child", Limit: store.MaxList}); err != nil || len(list) != min(r.m.Spawned, store.MaxList) {
		t.Fatalf("after %s there are %d spawned actors (%v), want %d", what, len(list), err, r.m.Spawned)
	}
}

// codeOf returns the word of the model for an error.
func codeOf(err error) string {
	var guest *actor.GuestError
	var trap *actor.TrapError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &guest):
		return guest.Code
	case errors.As(err, &trap):
		return "trap"
	case errors.Is(err, actor.ErrUnavailable):
		return "unavailable"
	case errors.Is(err, actor.ErrAmbiguous):
		return "ambiguous"
	case errors.Is(err, actor.ErrFiringTaken):
		return "taken"
	case errors.Is(err, actor.ErrMessageOrder):
		return "order"
	case errors.Is(err, actor.ErrPassedAway):
		return "passed_away"
	}
	return err.Error()
}

// letter returns the message at a place of an actor's inbox in the model.
func (r *programRig) letter(t *testing.T, id string, place int) actor.Reminder {
	t.Helper()
	inbox := r.m.Actor(id).Inbox
	earlier := 0
	for _, m := range inbox[:place] {
		if m.From == inbox[place].From {
			earlier++
		}
	}
	for _, m := range r.inbox(t, id) {
		if m.Message.From.ID == inbox[place].From {
			if earlier == 0 {
				return m
			}
			earlier--
		}
	}
	t.Fatalf("%s has no message %d of %v", id, place, inbox)
	return actor.Reminder{}
}

// inbox returns the messages to an actor, in the order of their names.
func (r *programRig) inbox(t *testing.T, id string) (all []actor.Reminder) {
	t.Helper()
	for after := ""; ; {
		list, next, err := r.store.ListMessages(t.Context(), store.MessageQuery{Key: r.programKey(id), After: after, Limit: store.MaxList})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, list...)
		if after = next; after == "" {
			return all
		}
	}
}

// firingOf returns the first delivery of a message.
func firingOf(m *actor.Reminder) *actor.Firing {
	_, ordered := actor.SenderOfOrdered(m.Name)
	n := actor.ReminderName{Key: m.Key, Name: m.Name}
	return &actor.Firing{
		Reminder: m.ID, Key: m.Key, Name: m.Name, Method: m.Method, Payload: m.Payload, Due: m.Due, Attempt: 1, Message: m.Message, SentAt: m.CreatedAt,
		Step: actor.ReminderStep{ReminderName: n, ID: m.ID, Version: m.Version, Ordered: ordered},
	}
}

// programmed returns what a scripted actor has, from the store and in the memory of a host.
func (r *programRig) programmed(t *testing.T, h *host.Host, id string) hosttest.ModelActor {
	t.Helper()
	see := func(method, payload string) string {
		reply, err := h.Invoke(t.Context(), actor.Invocation{Key: r.programKey(id), Method: method, Payload: actor.Payload{Data: []byte(payload)}, Consistency: actor.ConsistencyStrong})
		if err != nil {
			t.Fatal(err)
		}
		return string(reply.Payload.Data)
	}
	rows, err := r.store.LoadActors(t.Context(), []actor.Key{r.programKey(id)}, actor.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a := hosttest.ModelActor{Set: rows[0].MethodSet, Lives: int(rows[0].Life), Has: map[string]bool{}, Heard: map[string]string{}} //nolint:gosec // few lives
	fmt.Sscan(see("Look", ""), &a.N)
	for _, from := range programActors {
		if heard := see("Heard", from); heard != "" {
			a.Heard[from] = heard
		}
	}
	names, err := r.reminders.ReminderNames(t.Context(), r.programKey(id), "", 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		a.Has[name] = true
	}
	for _, name := range []string{"tx", "ty"} {
		if _, err := h.GetTimer(t.Context(), r.programKey(id), name); err == nil {
			a.Has[name] = true
		}
	}
	services, err := r.store.ListServices(t.Context(), actor.ServiceQuery{App: r.app, Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range services {
		if s.Actor == r.programKey(id) {
			a.Has[s.Name] = true
		}
	}
	for _, m := range r.inbox(t, id) {
		a.Inbox = append(a.Inbox, hosttest.ModelMessage{From: m.Message.From.ID, Payload: string(m.Payload.Data)})
	}
	for after := (actor.EventPosition{}); ; {
		page, err := r.store.ReadEvents(t.Context(), actor.EventQuery{Key: r.programKey(id), After: after, Limit: store.MaxList})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Events {
			a.Events += fmt.Sprintf(" %d:%s:%s", e.Life, e.Name, e.Payload.Data)
			after = e.Position
		}
		if len(page.Events) == 0 {
			return a
		}
	}
}
