package host_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/pipeline"
	"github.com/greenroom-run/greenroom/store/faultstore"
)

// TestHostAgainstModel runs random programs of calls, deliveries of reminders, faults, other
// writers, given up callers and passing time on a host with hardly any room, and compares the
// store and every answer with a model in which one turn follows the other.
func TestHostAgainstModel(t *testing.T) {
	for _, placement := range []string{abi.PlacementRing, abi.PlacementSticky, abi.PlacementAny, moving} {
		t.Run(placement, func(t *testing.T) {
			// How often programs meet what is rare, as a settlement that is held, is a matter of luck: they go
			// on until they have met everything.
			seen, least, most := make(map[string]int), 2, 20
			if testing.Short() {
				least, most = 1, 1
			}
			missing := func() (list []string) {
				for _, what := range mustMeet(placement) {
					if seen[what] == 0 {
						list = append(list, what)
					}
				}
				return list
			}
			for round := 0; round < least || round < most && len(missing()) > 0; round++ {
				rapid.Check(t, func(r *rapid.T) {
					p := drawProgram(r, placement)
					var broken []string
					synctest.Test(t, func(t *testing.T) { broken = p.run(t, seen) })
					if len(broken) > 0 {
						r.Fatal(strings.Join(broken, "\n"))
					}
				})
			}
			t.Logf("met: %v", seen)
			if list := missing(); len(list) > 0 && !testing.Short() {
				t.Errorf("no program met: %q", list)
			}
		})
	}
}

// moving is for programs whose deployments change the type's placement.
const moving = "moving"

// mustMeet is what the programs together have to come across: without it, they
// would not test what they are for.
func mustMeet(placement string) []string {
	what := []string{
		"ok Add", "ok Set", "ok Unset", "ok Touch", "ok Read", "ok ", "strong", "guest error", "trap", "recorded alone",
		"mailbox_full", "overloaded", "deadline", "canceled", "ambiguous", "store_unavailable", "idempotency_key_reused", "actor_not_found",
		"ok Remind", "ok Cancel", "ok firing", "fired Add", "fired Touch", "fired Set", "delivered again", "firing_taken",
		"reminder set anew", "reminder canceled", "reminders deleted",
		"run again", "refused commit", "other writer", "held " + string(faultstore.BeforeLoad), "held " + string(faultstore.BeforeSettle),
	}
	if placement == abi.PlacementAny || placement == moving {
		what = append(what, "held "+string(faultstore.BeforeTurnCommit))
	}
	if placement != abi.PlacementAny {
		what = append(what, "recorded reply", "folded", string(host.DeactivatePressure),
			"held "+string(faultstore.BeforeCommit), "held "+string(faultstore.AfterCommit))
	}
	for _, f := range faultsOf(placement) {
		what = append(what, string(f))
	}
	return what
}

// faultsOf returns the faults that turns of a placement can meet.
func faultsOf(placement string) []faultstore.Fault {
	faults := []faultstore.Fault{faultstore.LoadFails, faultstore.VersionsFail, faultstore.RecordLoadFails, faultstore.SettleFails, faultstore.SettleReplyLost,
		faultstore.ReminderReadFails}
	if placement == abi.PlacementAny || placement == moving {
		faults = append(faults, faultstore.TurnRetried, faultstore.TurnFails, faultstore.TurnLost, faultstore.TurnReplyLost)
	}
	if placement != abi.PlacementAny {
		faults = append(faults, faultstore.CommitFails, faultstore.CommitPartlyFails, faultstore.CommitLost, faultstore.CommitReplyLost)
	}
	return faults
}

// program is what is done to a host, and how little room it has.
type program struct {
	placement                                      string
	mailbox, activations, instances, workers, rows int
	callersCommit, shared                          bool
	grace                                          time.Duration
	seed                                           uint64
	steps                                          []step
}

// step is one thing that a program does.
type step struct {
	do      string // "call", "fire", "place", "fault", "hold", "release", "cancel", "write", "sleep" or "deploy"
	call    modelCall
	begin   bool          // by Begin, otherwise by Invoke
	timeout time.Duration // of the call, 0: none; or how long to sleep
	fault   faultstore.Fault
	point   faultstore.Point
	which   int    // of the calls, reminders, firings or holds
	again   bool   // a firing that was delivered before
	place   string // of a deployment
	settle  bool   // until nothing moves any more
	// Set for a call when it is asked for.
	ctx context.Context
}

// GoString is how a failing program is shown.
func (s step) GoString() string {
	text := "\n" + s.do
	switch s.do {
	case "call":
		text += " " + s.call.String()
		if s.begin {
			text += ", begun"
		}
		if s.timeout > 0 {
			text += ", for " + s.timeout.String()
		}
	case "fire", "place":
		if text += fmt.Sprint(" ", s.call.id, " ", s.which); s.again {
			text += " again"
		}
	case "fault":
		text += " " + string(s.fault)
	case "hold":
		text += " " + string(s.point)
	case "release", "cancel":
		text += fmt.Sprint(" ", s.which)
	case "write":
		text += " " + s.call.id
	case "sleep":
		text += " " + s.timeout.String()
	case "deploy":
		text += " " + s.place
	}
	if s.settle {
		text += "; settle"
	}
	return text
}

const modelCallers = 4

var modelMethods = []string{
	"Add", "Add", "Add", "Add", "Set", "Set", "Unset", "Touch", "Touch", "Fail", "Trap", "Hang", "Read", "Read", "",
	"Remind", "Remind", "Cancel",
}

func drawProgram(r *rapid.T, placement string) *program {
	p := &program{
		placement:     placement,
		mailbox:       rapid.IntRange(1, 5).Draw(r, "mailbox"),
		activations:   rapid.IntRange(1, 3).Draw(r, "activations"),
		instances:     rapid.IntRange(1, 3).Draw(r, "instances"),
		workers:       rapid.IntRange(1, 4).Draw(r, "workers"),
		rows:          rapid.IntRange(1, 3).Draw(r, "rows"),
		callersCommit: rapid.Bool().Draw(r, "callers commit"),
		shared:        rapid.Bool().Draw(r, "shared"),
		grace:         rapid.SampledFrom([]time.Duration{20 * time.Millisecond, 2 * time.Second}).Draw(r, "grace"),
		seed:          rapid.Uint64().Draw(r, "seed"),
	}
	faults, points := faultsOf(placement), []faultstore.Point{faultstore.BeforeLoad, faultstore.BeforeSettle, faultstore.BeforeVersions}
	if placement == abi.PlacementAny || placement == moving {
		points = append(points, faultstore.BeforeTurnCommit)
	}
	if placement != abi.PlacementAny {
		points = append(points, faultstore.BeforeCommit, faultstore.BeforeCommit, faultstore.AfterCommit)
	}
	things := []string{
		"call", "call", "call", "call", "call", "call", "call", "call", "call", "call", "call", "call",
		"fire", "fire", "fire", "fire", "place",
		"fault", "fault", "hold", "hold", "release", "release", "release", "cancel", "write", "sleep",
	}
	if placement == moving {
		things = append(things, "deploy")
	}
	number := 0
	p.steps = rapid.SliceOfN(rapid.Custom(func(r *rapid.T) step {
		s := step{
			do:     rapid.SampledFrom(things).Draw(r, "do"),
			settle: rapid.IntRange(0, 2).Draw(r, "settle") == 0,
		}
		switch s.do {
		case "call":
			number++
			drawCall(r, &s, number)
		case "fire", "place":
			s.call.caller, s.call.id = rapid.IntRange(0, modelCallers-1).Draw(r, "caller"), drawActor(r)
			s.begin = rapid.Bool().Draw(r, "begin")
			s.which = rapid.IntRange(0, 20).Draw(r, "which")
			s.again = rapid.IntRange(0, 2).Draw(r, "again") == 0
			drawPatience(r, &s)
		case "fault":
			s.fault = rapid.SampledFrom(faults).Draw(r, "fault")
		case "hold":
			s.point = rapid.SampledFrom(points).Draw(r, "point")
		case "release", "cancel":
			s.which = rapid.IntRange(0, 20).Draw(r, "which")
		case "write":
			s.call.id = drawActor(r)
		case "deploy":
			s.place = rapid.SampledFrom([]string{abi.PlacementRing, abi.PlacementSticky, abi.PlacementAny}).Draw(r, "placement")
		case "sleep":
			s.timeout = time.Duration(rapid.IntRange(1, 1500).Draw(r, "milliseconds")) * time.Millisecond
		}
		return s
	}), 50, 150).Draw(r, "steps")
	return p
}

func drawActor(r *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "a", "b", "c"}).Draw(r, "actor")
}

func drawPatience(r *rapid.T, s *step) {
	if rapid.IntRange(0, 7).Draw(r, "impatient") == 0 {
		s.timeout = time.Duration(rapid.IntRange(1, 300).Draw(r, "timeout")) * time.Millisecond
	}
}

func drawCall(r *rapid.T, s *step, number int) {
	c := &s.call
	c.caller = rapid.IntRange(0, modelCallers-1).Draw(r, "caller")
	c.id = drawActor(r)
	c.method = rapid.SampledFrom(modelMethods).Draw(r, "method")
	s.begin = c.method != "" && rapid.Bool().Draw(r, "begin")
	drawPatience(r, s)
	letter := map[string]string{"Set": "s", "Unset": "u", "Remind": "m", "Cancel": "x"}[c.method]
	switch {
	case c.method == "Fail" || c.method == "Trap" || c.method == "Hang": // what it does besides is undone
		letter = rapid.SampledFrom([]string{"a", "m", "x"}).Draw(r, "besides")
	case letter == "":
		letter = "a"
	}
	c.payload = fmt.Sprintf("%s%d", letter, number)
	c.strong = c.method == "Read" && rapid.Bool().Draw(r, "strong")
	if c.method != "" && rapid.IntRange(0, 2).Draw(r, "keyed") == 0 {
		c.key = rapid.SampledFrom([]string{"k1", "k2"}).Draw(r, "key")
		c.payload = letter + c.method[:1] + c.key
		if rapid.IntRange(0, 4).Draw(r, "other payload") == 0 {
			c.payload += "x"
		}
	}
}

// theater runs a program.
type theater struct {
	*program
	*model
	stage  *stage
	faults *faultstore.Store
	queues [modelCallers]chan step
	cancel []context.CancelFunc // of the calls
	holds  []*faultstore.Held
	points []faultstore.Point
	writes int
	now    string // the placement

	reminders *modelReminders
	places    int
	firings   []*actor.Firing // that were delivered
}

// tell adds a step to the trail.
func (th *theater) tell(s step) {
	th.mu.Lock()
	defer th.mu.Unlock()
	th.happened("%s", strings.TrimSpace(s.GoString()))
}

// run returns what was wrong.
func (p *program) run(t *testing.T, seen map[string]int) []string {
	th := &theater{program: p, model: newModel(seen)}
	fake := newFakeStore()
	fake.shared, th.model.shared = p.shared, p.shared
	fake.wrote, fake.recorded = th.wrote, func(key actor.Key, r actor.IdempotencyRecord) { th.model.recorded(key, r, p.payloads()) }
	fake.applying, fake.applied = th.model.applying, th.model.applied
	th.faults = faultstore.New(committer{fakeStore: fake}, faultstore.Config{Seed: p.seed})
	th.reminders = &modelReminders{newReminders(fake), th.faults}
	th.stage = newStage(t, host.Config{
		Committer: th.faults, Reminders: th.reminders, MaxActivations: p.activations, SettleGrace: p.grace, Slots: p.instances,
		Limits:   host.Limits{Mailbox: p.mailbox, Instances: p.instances, TurnDeadline: time.Second},
		Pipeline: pipeline.Config{Workers: p.workers, GroupRows: p.rows, CallersCommit: p.callersCommit},
		Observers: []host.Events{{
			TurnEnd: func(e host.TurnEnd) {
				if e.Runs > 1 {
					th.saw("run again")
				}
				if e.Runs == 0 && e.Err == nil && e.Method != "" {
					th.saw("recorded reply")
				}
			},
			Commit: func(e host.CommitEnd) {
				if e.GroupSize > 1 {
					th.saw("folded")
				}
				if errors.Is(e.Err, actor.ErrStale) {
					th.saw("refused commit")
				}
			},
			Deactivated: func(d host.Deactivation) { th.saw(string(d.Reason)) },
		}},
	})
	th.stage.store = fake
	th.deploy(p.placement)
	var callers sync.WaitGroup
	for i := range th.queues {
		th.queues[i] = make(chan step, len(p.steps)+100)
		callers.Go(func() {
			for s := range th.queues[i] {
				th.ask(s, &callers)
			}
		})
	}
	for _, s := range p.steps {
		th.perform(t, s)
		if s.settle {
			th.settled()
		}
	}
	th.drain(t)
	for _, q := range th.queues {
		close(q)
	}
	done := make(chan struct{})
	go func() {
		callers.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(time.Hour): // far above every deadline and pause
		th.ends() // says which calls have no answer
		t.Fatal(strings.Join(slices.Concat(th.trail, th.broken), "\n"))
	}
	if pending := th.faults.Pending(); len(pending) > 0 {
		th.fail("planned faults that never happened: %q", pending)
	}
	if err := th.stage.Stop(context.Background()); err != nil {
		th.fail("stop: %v", err)
	}
	for _, f := range faultsOf(p.placement) { // no event comes any more
		th.seen[string(f)] += th.faults.Fired(f)
	}
	th.ends()
	if len(th.broken) > 0 {
		return slices.Concat(th.trail, th.broken)
	}
	return nil
}

func (p *program) payloads() (all []string) {
	for _, s := range p.steps {
		all = append(all, s.call.payload)
	}
	return append(all, drainPayload)
}

func (th *theater) perform(t *testing.T, s step) {
	if s.do != "call" {
		th.tell(s)
	}
	switch s.do {
	case "call":
		th.queue(t, s)
	case "fire":
		th.aim(t, &s)
		th.queue(t, s)
	case "place":
		th.place(t, s.call.id)
	case "cancel": // one of the latest
		if n := len(th.cancel); n > 0 {
			th.cancel[max(0, n-1-s.which%5)]()
		}
	case "fault":
		th.faults.Arm(s.fault, 1)
	case "hold":
		th.holds, th.points = append(th.holds, th.faults.Hold(s.point)), append(th.points, s.point)
	case "release": // one of the oldest
		if len(th.holds) > 0 {
			th.release(s.which % min(2, len(th.holds)))
		}
	case "write":
		th.writes++
		th.saw("other writer")
		th.stage.store.write(key(s.call.id), func(row *actor.Row) {
			state, err := stateOf(*row)
			if err != nil {
				panic(err)
			}
			row.Deleted = false
			row.State = encodeState(state.appended(fmt.Sprintf("f%d", th.writes)))
		})
	case "deploy":
		th.deploy(s.place)
	case "sleep":
		time.Sleep(s.timeout)
	}
}

// queue has the caller of a call make it.
func (th *theater) queue(t *testing.T, s step) {
	ctx, cancel := context.WithCancel(t.Context())
	if s.timeout > 0 {
		ctx, cancel = context.WithTimeout(t.Context(), s.timeout)
	}
	s.ctx, th.cancel = ctx, append(th.cancel, cancel)
	th.queues[s.call.caller] <- s
}

// modelReminders are fake reminders whose reads meet faults.
type modelReminders struct {
	*fakeReminders
	faults *faultstore.Store
}

func (mr *modelReminders) FindReminders(ctx context.Context, names []actor.ReminderName) ([]actor.Reminder, error) {
	return mr.faults.FindReminders(ctx, names)
}

// Committed tells nobody: deliveries are the program's.
func (*modelReminders) Committed(*actor.ReminderEffects) {}

// place sets a reminder from outside.
func (th *theater) place(t *testing.T, id string) {
	th.places++
	name := fmt.Sprint("p", th.places)
	want := reminderOf(name)
	r, err := th.reminders.Prepare(t.Context(), actor.ReminderSpec{Key: key(id), Name: slotOf(name), Method: want.method,
		Payload: actor.Payload{Data: []byte(want.payload)}, Schedule: actor.Schedule{Every: want.every}})
	if err != nil {
		t.Fatal(err)
	}
	fake := th.stage.store
	fake.mu.Lock()
	defer fake.mu.Unlock()
	fake.setReminder(r)
	th.placed(id, r.Name, want)
}

// aim makes of a step the delivery of a reminder of its actor, which is set first if there
// is none, or of a firing that was delivered before.
func (th *theater) aim(t *testing.T, s *step) {
	var f *actor.Firing
	if n := len(th.firings); s.again && n > 0 { // one of the latest
		f = th.firings[max(0, n-1-s.which%5)]
	} else {
		found := th.found(s.call.id)
		for len(found) == 0 { // a delete that is under way may take it again
			th.place(t, s.call.id)
			found = th.found(s.call.id)
		}
		r := &found[s.which%len(found)]
		f = &actor.Firing{
			Reminder: r.ID, Key: r.Key, Name: r.Name, Method: r.Method, Payload: r.Payload, Due: r.Due, Attempt: 1,
			Missed: uint32(r.Version), // the turn's name is made of it
			Step:   actor.ReminderStep{ReminderName: actor.ReminderName{Key: r.Key, Name: r.Name}, ID: r.ID, Version: r.Version},
		}
		if every := r.Schedule.Every; every > 0 {
			next := r.ReminderProgress
			next.Due = next.Due.Add(every)
			next.FireAt = next.Due
			f.Step.Then = &next
		}
		th.firings = append(th.firings, f)
	}
	c := &s.call
	c.id, c.method, c.firing, c.payload = f.Key.ID, f.Method, f, firingName(string(f.Payload.Data), f.Step.Version)
}

// found returns the reminders of an actor in the order of their names.
func (th *theater) found(id string) []actor.Reminder {
	fake := th.stage.store
	fake.mu.Lock()
	defer fake.mu.Unlock()
	var found []actor.Reminder
	for n, r := range fake.reminders {
		if n.Key == key(id) {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b actor.Reminder) int { return strings.Compare(a.Name, b.Name) })
	return found
}

func (th *theater) deploy(placement string) {
	if placement == moving {
		placement = abi.PlacementRing // at first
	}
	th.now = placement
	th.stage.world.Deploy("app", "T", modelActor(placement))
}

func (th *theater) release(i int) {
	held := th.holds[i]
	select {
	case <-held.Reached():
		th.saw("held " + string(th.points[i]))
	default:
	}
	held.Release()
	th.holds, th.points = slices.Delete(th.holds, i, i+1), slices.Delete(th.points, i, i+1)
}

// settled waits until nothing moves, when every call that was not refused is in
// its mailbox or past it.
func (th *theater) settled() {
	synctest.Wait()
	th.bounded(th.mailbox)
}

const drainPayload = "adrain"

// drain ends all holds, and calls fresh actors until all planned faults have
// happened.
func (th *theater) drain(t *testing.T) {
	for len(th.holds) > 0 {
		th.release(0)
	}
	synctest.Wait()
	for round := 0; round < 40 && len(th.faults.Pending()) > 0; round++ {
		if th.placement == moving {
			th.deploy([]string{abi.PlacementRing, abi.PlacementAny}[round%2])
		}
		for _, f := range th.faults.Pending() {
			if f == faultstore.SettleFails || f == faultstore.SettleReplyLost {
				lost := faultstore.CommitLost
				if th.now == abi.PlacementAny {
					lost = faultstore.TurnLost
				}
				th.faults.Arm(lost, 1)
			}
		}
		for i, method := range []string{"Read", "Add", "Fail"} {
			c := modelCall{id: fmt.Sprintf("drain%d", round), method: method, payload: fmt.Sprintf("a%d-%d", round, i)}
			c.strong = method == "Read" && round%2 == 1 // which asks for the version
			if method == "Fail" {
				c.key, c.payload = "k", drainPayload // it is looked up
			}
			th.perform(t, step{do: "call", call: c})
			time.Sleep(5 * time.Second)
		}
		th.perform(t, step{do: "fire", call: modelCall{id: fmt.Sprint("drain", round)}})
		time.Sleep(5 * time.Second)
	}
}

// ask makes a call, and for Invoke waits for its answer.
func (th *theater) ask(s step, callers *sync.WaitGroup) {
	c := &s.call
	inv := actor.Invocation{Key: key(c.id), Method: c.method, IdempotencyKey: c.key, Payload: actor.Payload{Data: []byte(c.payload)}}
	if c.firing != nil {
		inv.Firing, inv.Payload = c.firing, c.firing.Payload
	}
	if c.strong {
		inv.Consistency = actor.ConsistencyStrong
	}
	th.begins(c)
	switch {
	case c.method == "":
		err := th.stage.Delete(s.ctx, inv.Key)
		th.answered(c, th.mailbox, actor.Reply{}, err)
	case s.begin:
		callers.Add(1)
		begun := th.stage.Begin(s.ctx, inv, &told{th, c, callers})
		context.AfterFunc(s.ctx, begun.GiveUp)
	default:
		reply, err := th.stage.Invoke(s.ctx, inv)
		th.answered(c, th.mailbox, reply, err)
	}
}

// told is the receiver of a call that was begun.
type told struct {
	*theater
	c       *modelCall
	callers *sync.WaitGroup
}

func (to *told) Answer(reply actor.Reply, err error) {
	to.answered(to.c, to.mailbox, reply, err)
	to.callers.Done()
}
