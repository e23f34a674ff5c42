package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/hosttest"
	"github.com/greenroom-run/greenroom/internal/history/listappend"
)

// ledgers are actors of two types, placed together by the first part of their IDs, that call each
// other. Those of one place transfer money in atomic calls; those of two places notify each
// other in calls that another host perhaps commits on its own.
type ledgers struct {
	types  []*actorType
	places [][]actor.Key // of each group key
	// tells is the place whose ledgers notify those of the other one. Only one place does, since chains
	// over hosts that wait for each other only end at their deadlines, and those of reminders would
	// meet again.
	tells int
}

// ledger is the state of one.
type ledger struct {
	// Balance is the money that it got, less the money that it gave.
	Balance int64 `json:"balance"`
	// List has elements that chains have appended.
	List []int64 `json:"list"`
	// Runs are the runs of chains whose outermost turn was one of this ledger.
	Runs []int64 `json:"runs"`
	// Told are the notices that it has sent, Noted those that it got. Heard are the notices of its own for
	// which it was called back.
	Told  []int64 `json:"told"`
	Noted []int64 `json:"noted"`
	Heard []int64 `json:"heard"`
	// Reminder is the number of the reminder that it waits for; 0: of none.
	Reminder int64 `json:"reminder"`
}

// newLedgers chooses how the ledgers of a run are placed.
func newLedgers(plan *rand.Rand) *ledgers {
	l := &ledgers{tells: plan.IntN(2)}
	deployed := &deployed{policies: []string{heldPolicies[plan.IntN(len(heldPolicies))]}, generation: 1}
	if plan.IntN(3) == 0 {
		for range 2 + plan.IntN(2) {
			deployed.policies = append(deployed.policies, heldPolicies[plan.IntN(len(heldPolicies))])
		}
	}
	for _, name := range []string{"Account", "Vault"} {
		l.types = append(l.types, &actorType{name: name, deployed: deployed, together: abi.CoLocate{Group: "bank", Separator: "/", Parts: 1}})
	}
	for _, place := range []string{"a", "b"} {
		l.places = append(l.places, []actor.Key{
			{App: app, Type: "Account", ID: place + "/0"}, {App: app, Type: "Vault", ID: place + "/0"}, {App: app, Type: "Account", ID: place + "/1"},
		})
	}
	return l
}

// all returns all ledgers; none if the run has none.
func (l *ledgers) all() []actor.Key {
	if l == nil {
		return nil
	}
	return slices.Concat(l.places...)
}

func nameOfLedger(key actor.Key) string { return key.Type + " " + key.ID }

// script is the input of a ledger's methods.
type script struct {
	// Chain is the number of the chain that the turn belongs to. All elements and reminders follow
	// from it, so that another run of the chain makes the same ones.
	Chain int64  `json:"chain"`
	Steps []step `json:"steps"`
}

// changes reports whether the script may change anything.
func (s *script) changes() bool {
	return slices.ContainsFunc(s.Steps, func(one step) bool {
		return one.Do != "read" && one.Do != "wait" && (one.Do != "call" || one.N != 0 || (&script{Steps: one.Steps}).changes())
	})
}

// step is one thing of a script.
type step struct {
	// Do is "append" to the list, "read" it, "wait", "take" money, "call" another ledger, "tell" one of
	// another place, "note" what another ledger tells, call that one "back", "hear" of that, "remind" the ledger itself, "fail" or "trap".
	Do string `json:"do"`
	// N makes the element of an append and the reminder unique, is the amount that is taken or that a
	// call gives, and how many milliseconds a wait takes; 0: some.
	N  int64  `json:"n,omitempty"`
	To string `json:"to,omitempty"` // the ledger that is called, by [nameOfLedger]
	// Try goes on if the call fails.
	Try bool `json:"try,omitempty"`
	// Method is the method of To.
	Method string `json:"method,omitempty"`
	// Limit is how long the call may take, in milliseconds.
	Limit uint32 `json:"limit,omitempty"`
	Steps []step `json:"steps,omitempty"`
}

// did is the reply of a ledger's method.
type did struct {
	// Run is the number of the run of the chain; 0 in the reply of a called turn.
	Run int64           `json:"run,omitempty"`
	Ops []listappend.Op `json:"ops"`
	// Failed says that the call counts as failed; see [sabotage].
	Failed bool `json:"failed,omitempty"`
}

// elements is how many elements one chain has at most.
const elements = 64

// firstReminder is above the numbers of all chains that reminders do not begin.
const firstReminder = 1_000_000

// turn is one turn of a ledger.
type turn struct {
	*hosttest.Turn
	p     *process
	key   actor.Key
	chain int64
	did   did
}

// ledgerType is the guest of a ledger.
func (w *world) ledgerType(p *process, policy string) hosttest.Actor {
	run := func(writes bool) hosttest.Func {
		return func(t *hosttest.Turn) error {
			key := actor.Key{App: app, Type: t.Frame.Type, ID: t.Frame.ID}
			if writes {
				w.begins(p, key)
			}
			if n := p.noiseOf("turn of " + key.Type); w.faulty(n, 0.1) { // the guest takes its time
				select {
				case <-time.After(n.delay()):
				case <-t.Context.Done():
				}
			}
			if !p.pass() {
				return hosttest.Fail("dead")
			}
			var s script
			if err := json.Unmarshal(t.Frame.Payload, &s); err != nil {
				return err
			}
			mine := &turn{Turn: t, p: p, key: key, chain: s.Chain}
			return mine.run(&s)
		}
	}
	write, read := run(true), run(false)
	return hosttest.Actor{
		Placement: policy, Instance: "shared",
		Methods:  map[string]hosttest.Func{"Do": write, "DoAgain": write, "Note": write},
		ReadOnly: map[string]hosttest.Func{"See": read, "SeeAgain": read}, Reentrant: []string{"DoAgain", "SeeAgain"},
	}
}

// run runs a script.
func (t *turn) run(s *script) error {
	fired := t.Frame.Cause == abi.CauseReminder
	if outermost := t.Frame.CallerType == ""; outermost && s.changes() && !t.isOfSeveral() {
		t.did.Run = t.p.w.newRun()
		if err := t.add("runs", t.did.Run); err != nil {
			return err
		}
	}
	if fired {
		if err := t.SetNumber("reminder", 0); err != nil {
			return err
		}
	}
	for i := range s.Steps {
		if err := t.step(&s.Steps[i]); err != nil {
			return err
		}
	}
	if t.did.Run != 0 {
		t.p.w.ran(t.chain, t.did.Run, t.did.Ops)
	}
	if !t.p.pass() {
		return hosttest.Fail("dead")
	}
	text, err := json.Marshal(t.did)
	return errors.Join(err, t.Reply(string(text)))
}

// isOfSeveral reports whether the turn is one of several calls from outside, which have no outermost turn.
func (t *turn) isOfSeveral() bool { return strings.HasPrefix(t.Frame.InvocationID, several) }

// list returns a list of numbers of the ledger.
func (t *turn) list(name string) (list []int64, err error) {
	text, err := t.Get(name)
	if err == nil && text != "" {
		err = json.Unmarshal([]byte(text), &list)
	}
	return list, err
}

// add adds a number to a list of the ledger.
func (t *turn) add(name string, n int64) error {
	list, err := t.list(name)
	if err != nil {
		return err
	}
	text, err := json.Marshal(append(list, n))
	return errors.Join(err, t.SetJSON(name, string(text)))
}

// step does one thing.
func (t *turn) step(s *step) error {
	switch s.Do {
	case "append":
		element := t.chain*elements + s.N
		t.did.Ops = append(t.did.Ops, listappend.Append(nameOfLedger(t.key), element))
		return t.add("list", element)
	case "read":
		list, err := t.list("list")
		t.did.Ops = append(t.did.Ops, listappend.Read(nameOfLedger(t.key), list...))
		return err
	case "fail":
		if t.p.w.sabotage.savepoint && t.Frame.CallerType != "" {
			t.did.Failed = true
			return nil
		}
		return hosttest.Fail("on_purpose")
	case "wait":
		wait := time.Duration(s.N) * time.Millisecond
		if wait == 0 {
			wait = t.p.noiseOf("wait").below(lease / 8)
		}
		select {
		case <-time.After(wait):
		case <-t.Context.Done():
		}
		if !t.p.pass() {
			return hosttest.Fail("dead")
		}
		return nil
	case "trap":
		panic("on purpose")
	case "remind":
		return t.remind(s)
	case "note":
		return t.add("noted", t.chain)
	case "back":
		if _, err := t.call(s, &script{Chain: t.chain, Steps: []step{{Do: "hear"}}}, 0); err != nil {
			return t.caught(s, err)
		}
		return nil
	case "hear":
		t.p.w.happened("called back")
		return t.add("heard", t.chain)
	case "take":
		_, err := t.Add("balance", s.N)
		return err
	case "tell":
		if _, err := t.call(s, &script{Chain: t.chain, Steps: []step{{Do: "note"}, {Do: "back", Method: "DoAgain", To: nameOfLedger(t.key)}}}, 0); err != nil {
			return t.caught(s, err)
		}
		return t.add("told", t.chain)
	}
	reply, err := t.call(s, &script{Chain: t.chain, Steps: s.Steps}, abi.MessageAtomic)
	if err != nil {
		return t.caught(s, err)
	}
	var called did
	if err := json.Unmarshal([]byte(reply), &called); err != nil {
		return err
	}
	if called.Failed {
		return t.caught(s, &actor.GuestError{Status: 9, Code: "on_purpose"})
	}
	t.did.Ops = append(t.did.Ops, called.Ops...)
	if s.N != 0 {
		_, err = t.Add("balance", -s.N)
	}
	return err
}

// call calls another ledger.
func (t *turn) call(s *step, payload *script, flags uint32) (string, error) {
	text, err := json.Marshal(payload)
	if err != nil {
		return "", err
	}
	typ, id, _ := strings.Cut(s.To, " ")
	return t.CallWith(&abi.Message{Type: typ, ID: id, Method: s.Method, Payload: text, Flags: flags, LimitMillis: s.Limit})
}

// caught returns what the turn fails with after a failed call: nil if the step goes on.
func (t *turn) caught(s *step, err error) error {
	var refused *actor.GuestError
	if !errors.As(err, &refused) {
		return err
	}
	t.p.w.total.add("failed call: "+refused.Code, 1)
	if s.Try {
		return nil
	}
	return hosttest.Fail(refused.Code)
}

// remind sets the reminder of the ledger, and replaces the one that it has.
func (t *turn) remind(s *step) error {
	number := firstReminder + t.chain*elements + s.N
	text, err := json.Marshal(script{Chain: number, Steps: s.Steps})
	if err != nil {
		return err
	}
	code := t.Calls.ReminderSet(&abi.Reminder{Name: reminderName, Method: "Do", Payload: text, DelayNano: int64(lease / 2)})
	if code != 0 {
		return hosttest.Fail(fmt.Sprint("reminder_", code))
	}
	return t.SetNumber("reminder", number)
}

// plan makes scripts at random.
type plan struct {
	rng     *rand.Rand
	ledgers *ledgers
	place   int // where the chain begins
	next    int64
}

func (p *plan) number() int64 {
	p.next++
	return p.next
}

// target chooses whom to call: one of the same place, mostly.
func (p *plan) target() string {
	place := p.place
	if p.rng.IntN(12) == 0 {
		place = 1 - place
	}
	return nameOfLedger(p.ledgers.places[place][p.rng.IntN(3)])
}

// steps returns the steps of a turn of a ledger, within open turns of others.
func (p *plan) steps(depth int, open []string) (steps []step) {
	for range 1 + p.rng.IntN(3) {
		s := step{Do: []string{"append", "read", "call", "call", "call", "remind"}[p.rng.IntN(6)], Try: p.rng.IntN(3) == 0}
		switch {
		case s.Do == "append":
			s.N = p.number()
		case s.Do == "remind":
			if depth == 0 || p.rng.IntN(3) > 0 {
				continue
			}
			s.N = p.number()
			s.Steps = []step{{Do: "append", N: 1}, {Do: "call", Method: "DoAgain", To: p.target(), N: 1, Try: true, Steps: []step{{Do: "take", N: 1}, {Do: "append", N: 2}}}}
			if p.tells(1.0 / 3) {
				tell := p.tell()
				tell.Try = true // it may be told itself
				s.Steps = append([]step{tell}, s.Steps...)
			}
		case s.Do == "call" && depth == 0:
			s.Do = "read"
		case s.Do == "call":
			p.call(&s, depth, open)
		}
		steps = append(steps, s)
	}
	return steps
}

// tells reports whether the chain sends a notice, at random with a probability.
func (p *plan) tells(probability float64) bool {
	return p.place == p.ledgers.tells && p.rng.Float64() < probability
}

// tell returns a step that notifies a ledger of another place. It must be the first step of its
// chain: the call has the same number in all runs, and calls before it would fail in some.
func (p *plan) tell() step {
	return step{Do: "tell", Method: "Note", To: nameOfLedger(p.ledgers.places[1-p.place][p.rng.IntN(3)]), Try: p.rng.IntN(3) == 0}
}

// call makes s a step that calls another ledger, or one whose turn is open.
func (p *plan) call(s *step, depth int, open []string) {
	s.To = p.target()
	again := ""
	if slices.Contains(open, s.To) {
		again = "Again"
		if p.rng.IntN(6) == 0 { // refused
			again, s.Try = "", true
		}
	}
	if p.rng.IntN(20) == 0 {
		s.Limit = 1 + p.rng.Uint32N(5)
	}
	if p.rng.IntN(4) == 0 {
		s.Method, s.Steps = "See"+again, []step{{Do: "read"}}
		return
	}
	s.Method = "Do" + again
	s.Steps = p.steps(depth-1, append(slices.Clone(open), s.To))
	if p.rng.IntN(2) == 0 {
		s.N = p.rng.Int64N(9) - 4
		s.Steps = append([]step{{Do: "take", N: s.N}}, s.Steps...)
	}
	if s.Try && p.rng.IntN(2) == 0 {
		s.Steps = append(s.Steps, step{Do: []string{"fail", "trap"}[p.rng.IntN(2)]})
	}
}
