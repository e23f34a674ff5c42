package actortest

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
	kit "github.com/greenroom-run/greenroom/guest-sdk/go/internal/reminder"
)

// Reminder is one that is set.
type Reminder struct {
	Actor        actor.Ref
	Name, Method string
	In           actor.Payload
	// Due is when it is due next.
	Due time.Time
	// FireAt is when it fires: Due, or later after a failure.
	FireAt time.Time
	// Failures counts the failed tries of this firing.
	Failures int
	Metadata map[string]string
}

// DeadLetter is a firing that failed as often as its [actor.Retry] allows, or a message that
// nobody has consumed.
type DeadLetter struct {
	Reminder Reminder // as it was for the last try; zero for a message
	Message  *Message // nil for a firing
	Err      error    // of the last try
	At       time.Time
}

// Advance moves the clock on, and runs what is due until then, reminders, timers and messages, in
// order, each at its own time: with what failed firings and new reminders add. What is due at once when it
// is set fires with the next Advance, also one of 0. The Jitter of an [actor.Reminder]
// is none here.
func (h *Harness) Advance(d time.Duration) {
	h.t.Helper()
	if h.chain != nil {
		h.t.Fatal("actortest: Advance while a turn runs, for which the clock stands still")
	}
	until := h.now.Add(d)
	for fired := 0; ; fired++ {
		next := nextDue(h, until)
		if next == nil {
			break
		}
		if fired == maxFirings {
			h.t.Fatalf("actortest: Advance(%v) has run %d reminders, timers and messages and is at %v, last %q of %s; advance in shorter steps, or mend one that sets itself anew without a delay",
				d, fired, h.now, next.name, next.ref)
		}
		if next.at.After(h.now) {
			h.now = next.at
		}
		next.run()
	}
	if until.After(h.now) {
		h.now = until
	}
}

// due is a reminder, a timer or a message whose time comes.
type due struct {
	at    time.Time
	order uint64
	name  string
	ref   actor.Ref
	run   func()
}

// nextDue returns what is due first until a time; nil if there is nothing.
func nextDue(h *Harness, until time.Time) *due {
	var first *due
	add := func(d due) {
		if first == nil || cmp.Or(d.at.Compare(first.at), cmp.Compare(d.order, first.order)) < 0 {
			first = &d
		}
	}
	if r := h.nextReminder(until); r != nil {
		add(due{r.FireAt, r.order, r.Name, r.actor, func() { h.fire(r) }})
	}
	if t := h.nextTimer(until); t != nil {
		add(due{t.due, t.order, t.Name, t.actor, func() { h.fireTimer(t) }})
	}
	if s, at := nextEvent(h, until); s != nil {
		add(due{at, s.order, s.method, s.by, func() { s.deliver(h) }})
	}
	if m := h.nextMessage(until, func(m *message) bool { return waitsOutside(h, m) }); m != nil {
		add(due{m.deliverAt, m.order, m.Method, m.to, func() { m.deliver(h) }})
	}
	return first
}

// maxFirings is how many reminders, timers and messages one Advance runs.
const maxFirings = 1_000_000

// Reminders returns all reminders that are set, in the order in which they fire.
func (h *Harness) Reminders() []Reminder {
	var sorted []*reminder
	for _, of := range h.reminders {
		sorted = slices.AppendSeq(sorted, maps.Values(of))
	}
	slices.SortFunc(sorted, inOrder)
	var list []Reminder
	for _, r := range sorted {
		list = append(list, r.exported())
	}
	return list
}

// DeadLetters returns the firings that failed as often as they may, in order.
func (h *Harness) DeadLetters() []DeadLetter { return slices.Clone(h.dead) }

// reminder is one of an actor.
type reminder struct {
	*kit.Reminder
	actor actor.Ref
	order uint64 // in which they were set
}

func (r *reminder) exported() Reminder {
	e := Reminder{
		Actor: r.actor, Name: r.Name, Method: r.Method, In: r.input(),
		Due: r.Due, FireAt: r.FireAt, Failures: int(r.Failures),
	}
	for _, m := range r.Metadata {
		if e.Metadata == nil {
			e.Metadata = map[string]string{}
		}
		e.Metadata[m.Name] = m.Value
	}
	return e
}

func (r *reminder) input() actor.Payload {
	return actor.Payload{ContentType: r.ContentType, Data: r.Payload}
}

// clone copies what changes.
func (r *reminder) clone() *reminder {
	c, s := *r, *r.Reminder
	c.Reminder = &s
	return &c
}

func inOrder(a, b *reminder) int {
	return cmp.Or(a.FireAt.Compare(b.FireAt), cmp.Compare(a.order, b.order))
}

// nextReminder returns the first that fires until a time; nil if there is none.
func (h *Harness) nextReminder(until time.Time) *reminder {
	var first *reminder
	for _, of := range h.reminders {
		for _, r := range of {
			if !r.FireAt.After(until) && (first == nil || inOrder(r, first) < 0) {
				first = r
			}
		}
	}
	return first
}

// firing is one try of a reminder.
type firing struct {
	kit.Firing
	reminder *reminder
	then     *reminder // what is left of it when the turn commits; nil for nothing
}

func (h *Harness) fire(r *reminder) {
	f := &firing{Firing: r.Fire(h.now), reminder: r}
	if then := r.clone(); then.Done(f.Firing) {
		f.then = then
	}
	if !f.Deliver {
		h.commitReminders(r.actor, map[string]*reminder{r.Name: f.then})
		return
	}
	_, err := h.invoke(r.actor, r.Method, r.input(), &cause{
		kind: abi.CauseReminder, name: r.Name, due: f.Here.At, attempt: f.Attempt, missed: f.Missed, metadata: r.Metadata, firing: f,
	})
	if err == nil {
		return
	}
	h.t.Logf("%s: reminder %q, try %d: %v", r.actor, r.Name, f.Attempt, err)
	before := r.exported()
	again, dead := r.Failed(f.Firing, h.now)
	if dead {
		h.dead = append(h.dead, DeadLetter{Reminder: before, Err: err, At: h.now})
	}
	if !again {
		h.commitReminders(r.actor, map[string]*reminder{r.Name: f.then})
	}
}

func (h *Harness) commitReminders(ref actor.Ref, changed map[string]*reminder) {
	for name, r := range changed {
		if r == nil {
			delete(h.reminders[ref], name)
			continue
		}
		if h.reminders[ref] == nil {
			h.reminders[ref] = map[string]*reminder{}
		}
		h.reminders[ref][name] = r
	}
}

const (
	// maxReminderChanges is how often a turn may set and cancel reminders.
	maxReminderChanges = 256
	// maxReminderNames is how many names a turn gets at once.
	maxReminderNames = 1000
)

// visible returns a reminder as the turn sees it, nil if there is none.
func (h *turnHost) visible(name string) *reminder {
	if r, changed := h.overlay.reminders[name]; changed {
		return r
	}
	return h.harness.reminders[h.ref][name]
}

func (h *turnHost) change(name string, r *reminder) abi.Code {
	if h.overlay.operated == maxReminderChanges {
		h.overlay.problem = "a turn sets and cancels reminders at most " + strconv.Itoa(maxReminderChanges) + " times"
		return abi.CodeTooMany
	}
	h.overlay.operated++
	if h.overlay.reminders == nil {
		h.overlay.reminders = map[string]*reminder{}
	}
	h.overlay.reminders[name] = r
	return 0
}

func (h *turnHost) refuse(problem string) abi.Code {
	h.overlay.problem = problem
	return abi.CodeInvalid
}

// methodProblem says why a reminder or timer cannot run a method, empty if it can.
func (h *turnHost) methodProblem(of, method string) string {
	spec := h.harness.types[h.ref.Type]
	at := slices.IndexFunc(spec.Methods, func(m abi.MethodSpec) bool { return m.Name == method })
	switch {
	case at < 0:
		return "the type " + spec.Name + " has no method " + strconv.Quote(method)
	case spec.Methods[at].ReadOnly:
		return "the method " + method + " is read-only; a " + of + " runs one that may change the actor"
	}
	return ""
}

func (h *turnHost) ReminderSet(frame []byte) abi.Code {
	h.overlay.problem = ""
	if code := cmp.Or(h.overlay.writable(), mayKeep(h)); code < 0 {
		return code
	}
	var r abi.Reminder
	if err := abi.DecodeReminder(slices.Clone(frame), &r); err != nil {
		return h.refuse(err.Error())
	}
	if problem := h.methodProblem("reminder", r.Method); problem != "" {
		return h.refuse(problem)
	}
	made, err := kit.New(r, h.harness.now)
	if err != nil {
		return h.refuse(err.Error())
	}
	if r.Flags&abi.FlagKeep != 0 && h.visible(r.Name) != nil {
		return 0
	}
	h.harness.reminded++
	return h.change(r.Name, &reminder{Reminder: made, actor: h.ref, order: h.harness.reminded})
}

func (h *turnHost) ReminderCancel(name string) abi.Code {
	h.overlay.problem = ""
	if code := cmp.Or(h.overlay.writable(), mayKeep(h)); code < 0 {
		return code
	}
	if err := kit.CheckName(name); err != nil {
		return h.refuse(err.Error())
	}
	return h.change(name, nil)
}

func (h *turnHost) ReminderGet(name string) ([]byte, abi.Code) {
	h.overlay.problem = ""
	if h.overlay.none {
		return nil, abi.CodeNoState
	}
	if code := mayKeep(h); code != 0 {
		return nil, code
	}
	if err := kit.CheckName(name); err != nil {
		return nil, h.refuse(err.Error())
	}
	r := h.visible(name)
	if r == nil {
		return nil, abi.CodeNotFound
	}
	frame := r.Frame()
	return abi.AppendReminder(nil, &frame), 0
}

func (h *turnHost) ReminderNames(prefix string) ([]byte, abi.Code) {
	h.overlay.problem = ""
	if h.overlay.none {
		return nil, abi.CodeNoState
	}
	if code := mayKeep(h); code != 0 {
		return nil, code
	}
	seen := map[string]*reminder{}
	maps.Copy(seen, h.harness.reminders[h.ref])
	maps.Copy(seen, h.overlay.reminders)
	var names []string
	for name, r := range seen {
		if r != nil && strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return abi.AppendKeyList(nil, names[:min(len(names), maxReminderNames)]), 0
}

func (h *turnHost) Problem() string { return h.overlay.problem }
