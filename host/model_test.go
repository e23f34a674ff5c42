package host_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// Actors of the model keep a log: each turn that changes something appends its
// name, and every reply, guest error and trap shows the log as its turn left or met
// it. So whatever a caller sees tells which turns it rests on.
//
// A name begins with what the turn did besides: 'a' adds to n, 's' sets last to the
// name, 'u' removes last, 'm' sets a reminder, 'x' cancels one, 'f' is another writer's. n
// and last follow from the log, and so does which reminders there are, but for those that
// are set from outside. The turn of a firing has the reminder's payload for a name, and the
// version that the reminder had, so that all deliveries of one firing have the same name.

// modelActor is the actor type that programs call.
func modelActor(placement string) hosttest.Actor {
	return hosttest.Actor{
		Placement: placement,
		Methods: map[string]hosttest.Func{
			"Add":   logged(nil),
			"Set":   logged(nil),
			"Unset": logged(nil), "Remind": logged(nil), "Cancel": logged(nil),
			"Fail": logged(func(_ *hosttest.Turn, log string) error {
				return &actor.GuestError{Status: 9, Code: "on_purpose", Message: log}
			}),
			"Trap": logged(func(_ *hosttest.Turn, log string) error { panic(log) }),
			"Hang": logged(func(t *hosttest.Turn, _ string) error {
				<-t.Context.Done()
				return nil
			}),
			// Touch changes nothing, but is not declared read-only.
			"Touch": func(t *hosttest.Turn) error {
				log, err := readLog(t)
				if err != nil || log == "" {
					return errors.Join(err, t.Reply(log))
				}
				return errors.Join(setLog(t, log+" touched"), setLog(t, log), t.Reply(log))
			},
		},
		ReadOnly: map[string]hosttest.Func{"Read": func(t *hosttest.Turn) error {
			log, err := readLog(t)
			return errors.Join(err, t.Reply(log))
		}},
	}
}

// logged is a method that appends the name in its payload, and then fails, if it
// does, with the log that it met.
func logged(fail func(t *hosttest.Turn, log string) error) hosttest.Func {
	return func(t *hosttest.Turn) error {
		log, err := readLog(t)
		if err != nil {
			return err
		}
		name := string(t.Frame.Payload)
		if t.Frame.Cause == abi.CauseReminder {
			name = firingName(name, uint64(t.Frame.Missed)) // as the program has it
		}
		switch name[0] {
		case 'a':
			_, err = t.Add("n", 1)
		case 's':
			err = t.SetJSON("last", strconv.Quote(name))
		case 'u':
			t.Calls.StateDelete([]byte("last"))
		case 'm':
			r := reminderOf(name)
			if code := t.Calls.ReminderSet(&abi.Reminder{Name: slotOf(name), Method: r.method, Payload: []byte(r.payload), PeriodNano: int64(r.every)}); code != 0 {
				err = fmt.Errorf("set a reminder: code %d, %s", code, t.Calls.Problem())
			}
		case 'x':
			if code := t.Calls.ReminderCancel([]byte(slotOf(name))); code != 0 {
				err = fmt.Errorf("cancel a reminder: code %d, %s", code, t.Calls.Problem())
			}
		}
		after := strings.TrimPrefix(log+" "+name, " ")
		if err = errors.Join(err, setLog(t, after)); err == nil && fail != nil {
			return fail(t, log)
		}
		return errors.Join(err, t.Reply(after))
	}
}

// modelReminder is a reminder that is there.
type modelReminder struct {
	payload, method string
	every           time.Duration
	version         uint64
}

func firingName(payload string, version uint64) string {
	return fmt.Sprintf("%s.%d", payload, version)
}

// digits returns the number in a name.
func digits(name string) int {
	n := 0
	for _, r := range name {
		if '0' <= r && r <= '9' {
			n = 10*n + int(r-'0')
		}
	}
	return n
}

// slotOf returns the reminder that a turn of a name sets or cancels: an actor has two, so
// that turns meet each other's.
func slotOf(name string) string { return fmt.Sprint("r", digits(name)%2) }

// reminderOf returns the reminder that a turn of a name sets.
func reminderOf(name string) modelReminder {
	methods := []string{"Add", "Touch", "Add", "Fail", "Set", "Add", "Trap"}
	n := digits(name) / 2
	r := modelReminder{payload: "a" + name, method: methods[n%len(methods)], version: 1}
	if n/len(methods)%2 == 0 {
		r.every = time.Hour
	}
	return r
}

func readLog(t *hosttest.Turn) (string, error) {
	quoted, err := t.Get("log")
	return strings.Trim(quoted, `"`), err
}

func setLog(t *hosttest.Turn, log string) error { return t.SetJSON("log", strconv.Quote(log)) }

// modelState is what a row holds.
type modelState struct {
	Log  string `json:"log"`
	N    int    `json:"n,omitempty"`
	Last string `json:"last,omitempty"`
}

func stateOf(row actor.Row) (s modelState, err error) {
	if len(row.State.Data) > 0 {
		err = json.Unmarshal(row.State.Data, &s)
	}
	return s, err
}

func encodeState(s modelState) actor.EncodedState {
	keys := map[string]any{"log": s.Log}
	if s.N > 0 {
		keys["n"] = s.N
	}
	if s.Last != "" {
		keys["last"] = s.Last
	}
	data, err := json.Marshal(keys) // sorted, as stored states are
	if err != nil {
		panic(err)
	}
	return actor.EncodedState{Format: actor.FormatJSON, Data: data}
}

// appended is s after the turn of a name.
func (s modelState) appended(name string) modelState {
	s.Log = strings.TrimPrefix(s.Log+" "+name, " ")
	switch name[0] {
	case 'a':
		s.N++
	case 's':
		s.Last = name
	case 'u':
		s.Last = ""
	}
	return s
}

// model is what the store was made to hold, one actor's turns after the other, and
// what callers were told. It judges each answer at the moment it comes.
type model struct {
	mu     sync.Mutex
	shared bool // the store: then no failure may rest on what was not the newest
	actors map[string]*modelHistory
	keyed  map[string]*modelOutcome // by actor, method and idempotency key
	seen   map[string]int           // what happened, over all programs
	// commit is the one that is being applied, nil between commits; firing has the steps
	// whose turns are to be among what it stores, by the actor and the name of the turn.
	commit *actor.Commit
	firing map[string]actor.ReminderStep
	broken []string
	trail  []string // all that happened, until something was wrong
}

// modelHistory is what became of one actor.
type modelHistory struct {
	// states are the one without turns and the one after each, deletes too.
	states []modelState
	turns  []string // the name of the turn before states[i+1]; "" for a delete
	at     map[string]int
	// versions tells which of states the commit of a version stored.
	versions   map[uint64]span
	reminders  map[string]modelReminder // that are there, by name
	emptied    int                      // how often the last of them went
	deliveries map[string]int           // by the name of the firing's turn
	// known is up to where answers have told of what the host did.
	known   int
	refused map[string]bool // turns that must not happen any more
	open    map[*modelCall]bool
	calls   []*modelCall // in the order of their begins
	deletes int          // that were acknowledged
	doubts  int          // deletes whose outcome nobody knows
	unknown int          // calls whose outcome nobody knows: their commits may be under way
}

// span is the states that came with one commit: those above from, up to to.
type span struct{ from, to int }

// modelOutcome is what the calls with one idempotency key came to.
type modelOutcome struct {
	payload, log string
	version      uint64
}

// modelCall is one call of a program.
type modelCall struct {
	caller  int
	id      string // of the actor
	method  string // "" deletes
	key     string
	payload string
	strong  bool
	firing  *actor.Firing // what asks for it, nil for a call
	// Set when it begins: how much of its actor was known, and stored, and how many
	// calls of it there were together with this one until it was answered.
	known, stored, company int
	answers                int
	reminded               bool // its actor had reminders when it began
	emptied                int
	happened               bool // as far as its caller knows, or may have
	acknowledged           bool
}

func (c *modelCall) writes() bool {
	return c.method != "Read" && c.method != "Touch" && c.method != ""
}

func (c *modelCall) String() string {
	method := c.method
	if method == "" {
		method = "(delete)"
	}
	if c.strong {
		method += " (strong)"
	}
	if c.firing != nil {
		method += " (fired by " + c.firing.Name + ")"
	}
	return fmt.Sprintf("%s.%s(%s) key %q of caller %d", c.id, method, c.payload, c.key, c.caller)
}

func newModel(seen map[string]int) *model {
	return &model{actors: make(map[string]*modelHistory), keyed: make(map[string]*modelOutcome), firing: make(map[string]actor.ReminderStep), seen: seen}
}

func (m *model) history(id string) *modelHistory {
	h := m.actors[id]
	if h == nil {
		h = &modelHistory{
			states: make([]modelState, 1), at: make(map[string]int), versions: make(map[uint64]span),
			refused: make(map[string]bool), open: make(map[*modelCall]bool),
			reminders: make(map[string]modelReminder), deliveries: make(map[string]int),
		}
		m.actors[id] = h
	}
	return h
}

func (m *model) fail(format string, args ...any) {
	m.happened("WRONG: "+format, args...)
	m.broken = append(m.broken, fmt.Sprintf(format, args...))
}

func (m *model) happened(format string, args ...any) {
	if len(m.broken) == 0 {
		m.trail = append(m.trail, fmt.Sprintf(format, args...))
	}
}

func (m *model) saw(what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen[what]++
}

// wrote takes over a row that has changed: turns must have been added to what was
// stored, each at most once and none that was refused.
func (m *model) wrote(key actor.Key, before, after actor.Row) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.happened("stored: %s at %d, %s", key.ID, after.Version, after.State.Data)
	h := m.history(key.ID)
	from := len(h.turns)
	if after.Version <= before.Version {
		m.fail("%s: version %d follows %d", key.ID, after.Version, before.Version)
	}
	defer func() { h.versions[after.Version] = span{from, len(h.turns)} }()
	if after.Deleted {
		deletes := m.commit != nil && slices.ContainsFunc(m.commit.Rows, func(w actor.RowWrite) bool { return w.Key == key && w.Delete })
		if !before.Deleted && before.Version != 0 || deletes && len(h.reminders) > 0 {
			h.append("", modelState{})
		}
		if deletes && len(h.reminders) > 0 {
			m.seen["reminders deleted"]++
			clear(h.reminders)
			h.emptied++
		}
		return
	}
	was := h.states[from]
	is, err := stateOf(after)
	added, ok := strings.CutPrefix(is.Log, was.Log)
	if err != nil || !ok {
		m.fail("%s: %+v replaces %+v (%v)", key.ID, is, was, err)
		return
	}
	for _, name := range strings.Fields(added) {
		if _, twice := h.at[name]; twice || h.refused[name] {
			m.fail("%s: %s is stored; before: %t, refused: %t", key.ID, name, twice, h.refused[name])
		}
		h.append(name, h.states[len(h.turns)].appended(name))
		m.reminds(key.ID, h, name)
	}
	if want := h.states[len(h.turns)]; is != want {
		m.fail("%s: %+v is stored, want %+v", key.ID, is, want)
	}
}

// reminds does what a turn that is stored does to reminders.
func (m *model) reminds(id string, h *modelHistory, name string) {
	switch {
	case name[0] == 'm':
		if _, anew := h.reminders[slotOf(name)]; anew {
			m.seen["reminder set anew"]++
		}
		h.reminders[slotOf(name)] = reminderOf(name)
	case name[0] == 'x':
		if _, there := h.reminders[slotOf(name)]; there {
			m.seen["reminder canceled"]++
		}
		h.remove(slotOf(name))
	case strings.Contains(name, "."):
		step, with := m.firing[id+" "+name]
		if !with {
			m.fail("%s: the turn of the firing %s is stored without its step", id, name)
			return
		}
		delete(m.firing, id+" "+name)
		m.steps(h, &step)
	}
}

// steps does what the step of a firing does to its reminder.
func (m *model) steps(h *modelHistory, step *actor.ReminderStep) {
	r, there := h.reminders[step.Name]
	if !there || r.version != step.Version {
		m.fail("%s: a step of %s at version %d, there is %+v", step.Key.ID, step.Name, step.Version, r)
		return
	}
	m.seen["fired "+r.method]++
	if step.Then == nil {
		h.remove(step.Name)
		return
	}
	r.version++
	h.reminders[step.Name] = r
}

func (h *modelHistory) remove(reminder string) {
	if _, there := h.reminders[reminder]; !there {
		return
	}
	if delete(h.reminders, reminder); len(h.reminders) == 0 {
		h.emptied++
	}
}

// applying is told of a commit before its first change: what the turns of its firings
// append must be among what it stores, and a method that appends nothing has its step alone.
func (m *model) applying(c *actor.Commit) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.commit = c
	for i := range c.Reminders.Steps {
		step := &c.Reminders.Steps[i]
		h := m.history(step.Key.ID)
		r := h.reminders[step.Name]
		m.happened("steps: %s of %s at version %d, over: %t", step.Name, step.Key.ID, step.Version, step.Then == nil)
		if (&modelCall{method: r.method}).writes() {
			m.firing[step.Key.ID+" "+firingName(r.payload, step.Version)] = *step
			continue
		}
		m.steps(h, step)
	}
}

// applied is told of the reminders that there are when a commit was applied.
func (m *model) applied(stored map[actor.ReminderName]actor.Reminder) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.firing {
		m.fail("a commit has the step of the firing %s without its turn", name)
	}
	clear(m.firing)
	m.commit = nil
	n := 0
	for id, h := range m.actors {
		for name, want := range h.reminders {
			n++
			r, there := stored[actor.ReminderName{Key: key(id), Name: name}]
			if !there || string(r.Payload.Data) != want.payload || r.Method != want.method || r.Version != want.version || r.Schedule.Every != want.every {
				m.fail("%s: the reminder %s is %+v, want %+v", id, name, r, want)
			}
		}
	}
	if n != len(stored) {
		m.fail("%d reminders are stored, want %d", len(stored), n)
	}
}

// placed is told of a reminder that is set from outside.
func (m *model) placed(id, name string, r modelReminder) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.happened("placed: %s of %s, %+v", name, id, r)
	m.history(id).reminders[name] = r
}

// is reports whether the reminder of a firing is as it was when that was made.
func (h *modelHistory) is(f *actor.Firing) bool {
	r, there := h.reminders[f.Name]
	return there && r.version == f.Step.Version && r.payload == string(f.Payload.Data)
}

func (h *modelHistory) append(name string, after modelState) {
	h.turns = append(h.turns, name)
	h.states = append(h.states, after)
	if name != "" {
		h.at[name] = len(h.turns)
	}
}

// begins is told of a call before the host is.
func (m *model) begins(c *modelCall) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.happened("begins: %v", c)
	h := m.history(c.id)
	c.known, c.stored, c.company = h.known, len(h.turns), len(h.open)
	for other := range h.open {
		other.company++
	}
	c.reminded, c.emptied = len(h.reminders) > 0, h.emptied
	if c.firing != nil {
		if h.deliveries[c.payload]++; h.deliveries[c.payload] > 1 {
			m.seen["delivered again"]++
		}
	}
	h.open[c] = true
	h.calls = append(h.calls, c)
}

// bounded judges how many calls of an actor are not answered, when none is on its
// way to the mailbox.
func (m *model) bounded(mailbox int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, h := range m.actors {
		n := 0
		for c := range h.open {
			if c.method != "Read" {
				n++
			}
		}
		if n > mailbox+1 {
			m.fail("%s: %d calls are admitted with a mailbox of %d", id, n, mailbox)
		}
	}
}

// answered judges what a call was answered. mailbox is the host's bound.
func (m *model) answered(c *modelCall, mailbox int, reply actor.Reply, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.happened("answered: %v: %q, %v", c, reply.Payload.Data, err)
	h := m.history(c.id)
	delete(h.open, c)
	if c.answers++; c.answers > 1 {
		m.fail("%v was answered %d times", c, c.answers)
	}
	var guest *actor.GuestError
	var trap *actor.TrapError
	switch {
	case err == nil:
		if m.seen["ok "+c.method]++; c.firing != nil {
			m.seen["ok firing"]++
			if h.is(c.firing) {
				m.fail("%v: answered, and the reminder is as it was", c)
			}
		}
		c.happened, c.acknowledged = true, true
		m.acknowledged(h, c, reply)
		return
	case errors.As(err, &guest):
		m.seen["guest error"]++
		m.shown(h, c, "Fail", guest.Message)
	case errors.As(err, &trap):
		m.seen["trap"]++
		m.shown(h, c, "Trap", trap.Message)
	default:
		m.refused(h, c, mailbox, err)
	}
	if errors.Is(err, actor.ErrAmbiguous) {
		c.happened = true
		h.unknown++
		if c.method == "" {
			h.doubts++
		}
		return
	}
	// It left no trace, and leaves none later.
	if c.key != "" || !c.writes() {
		return
	}
	if at, stored := h.at[c.payload]; stored && h.deliveries[c.payload] <= 1 {
		m.fail("%v: answered %v, but it is turn %d of %v", c, err, at, h.turns)
	}
	h.refused[c.payload] = c.firing == nil // a firing may be delivered again
}

// refused judges an answer that no guest gave.
func (m *model) refused(h *modelHistory, c *modelCall, mailbox int, err error) {
	condition := actor.AsCondition(err)
	if condition == nil {
		m.fail("%v: %v", c, err)
		return
	}
	m.seen[string(condition.Kind())]++
	switch condition {
	case actor.ErrMailboxFull:
		if c.company+h.unknown <= mailbox {
			m.fail("%v: the mailbox was full of %d calls", c, c.company)
		}
	case actor.ErrKeyReused:
		if o := m.keyed[c.scope()]; o == nil || o.payload == c.payload {
			m.fail("%v: %v, recorded is %+v", c, err, o)
		}
	case actor.ErrActorNotFound:
		least := c.known
		if m.shared {
			least = c.stored
		}
		if c.method != "" || !slices.Contains(h.states[least:], modelState{}) || c.reminded && c.emptied == h.emptied {
			m.fail("%v: %v, of what is %+v with the reminders %+v", c, err, h.states[least:], h.reminders)
		}
	case actor.ErrFiringTaken:
		if c.firing == nil || h.is(c.firing) {
			m.fail("%v: %v, the reminders are %+v", c, err, h.reminders)
		}
	case actor.ErrOverloaded, actor.ErrUnavailable, actor.ErrAmbiguous, actor.ErrDeadline, actor.ErrCanceled, actor.ErrStale:
	default:
		m.fail("%v: %v", c, err)
	}
}

func (c *modelCall) scope() string { return c.id + " " + c.method + " " + c.key }

// acknowledged judges a reply.
func (m *model) acknowledged(h *modelHistory, c *modelCall, reply actor.Reply) {
	log := string(reply.Payload.Data)
	if c.key != "" && c.method != "Read" {
		o := m.keyed[c.scope()]
		if o == nil {
			m.fail("%v: answered %q without a record", c, log)
			return
		}
		if o.payload != c.payload || o.log != log || o.version != reply.Version {
			m.fail("%v: answered %q at %d, recorded is %+v", c, log, reply.Version, *o)
		}
	}
	switch {
	case c.method == "":
		h.deletes++
	case c.writes():
		at, stored := h.at[c.payload]
		switch {
		case !stored:
			m.fail("%v: answered %q, and is not stored", c, log)
			return
		case c.key == "" && at <= c.known:
			m.fail("%v: is turn %d, and %d were known before", c, at, c.known)
		case h.states[at].Log != log:
			m.fail("%v: answered %q, and made %q", c, log, h.states[at].Log)
		}
		if v := h.versions[reply.Version]; at <= v.from || at > v.to {
			m.fail("%v: turn %d was answered with version %d, of turns %+v", c, at, reply.Version, v)
		}
		h.learn(at)
	case c.key != "" && c.method == "Touch":
		m.seen["recorded alone"]++
	case c.firing != nil && c.method == "Read": // in a turn of the mailbox, like any firing
		m.shown(h, c, "Read", log)
	case c.method == "Read":
		m.read(h, c, log, reply.Version)
	default:
		m.shown(h, c, "Touch", log)
	}
}

// shown judges a log that a caller sees of a turn that changed nothing: it is
// stored by now, and no older than what was known when the call began.
func (m *model) shown(h *modelHistory, c *modelCall, method, log string) {
	at := c.known
	if m.shared && method != "Touch" {
		at = c.stored
	}
	for at < len(h.states) && h.states[at].Log != log {
		at++
	}
	switch {
	case c.method != method:
		m.fail("%v: is answered like %s", c, method)
	case at == len(h.states):
		m.fail("%v: shows %q, stored were %+v", c, log, h.states[c.known:])
	default:
		h.learn(at)
	}
}

// read judges what a read-only method shows: what was committed, not what a turn
// within a commit left.
func (m *model) read(h *modelHistory, c *modelCall, log string, version uint64) {
	least := c.known
	if c.strong {
		least = c.stored
		m.seen["strong"]++
	}
	if version == 0 {
		if log != "" || !slices.Contains(h.states[least:], modelState{}) {
			m.fail("%v: shows %q without a version, stored were %+v", c, log, h.states[least:])
		}
		return
	}
	v, stored := h.versions[version]
	if !stored || v.to < least || h.states[v.to].Log != log {
		m.fail("%v: shows %q at version %d (%t, %+v), stored were %+v", c, log, version, stored, v, h.states[least:])
		return
	}
	h.learn(v.to)
}

// learn takes over that an answer showed the state at, as far as it is the host's
// own doing: it need not know of other writers until it meets them.
func (h *modelHistory) learn(at int) {
	for at > 0 && strings.HasPrefix(h.turns[at-1], "f") {
		at--
	}
	h.known = max(h.known, at)
}

// recorded takes over that a call was recorded.
func (m *model) recorded(key actor.Key, r actor.IdempotencyRecord, payloads []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := &modelOutcome{log: string(r.Reply.Data), version: r.Version}
	for _, p := range payloads {
		if actor.PayloadSum(actor.Payload{Data: []byte(p)}) == r.Payload {
			o.payload = p
		}
	}
	scope := (&modelCall{id: key.ID, method: r.Method, key: r.Key}).scope()
	if was := m.keyed[scope]; was != nil {
		m.fail("%s is recorded as %+v, and was as %+v", scope, *o, *was)
	}
	m.keyed[scope] = o
}

// ends judges what only the end of a program shows.
func (m *model) ends() {
	for id, h := range m.actors {
		last := make(map[int]int) // by caller, of the turns stored
		told := make(map[string]bool)
		for _, c := range h.calls {
			if c.answers != 1 {
				m.fail("%v was answered %d times", c, c.answers)
			}
			if c.happened {
				told[c.payload] = true
			}
			at, stored := h.at[c.payload]
			if c.key != "" || !stored || c.firing != nil && !c.acknowledged {
				continue
			}
			if at < last[c.caller] {
				m.fail("%v is turn %d, after turn %d of the same caller", c, at, last[c.caller])
			}
			last[c.caller] = at
		}
		for _, c := range h.calls {
			if at, stored := h.at[c.payload]; stored && !told[c.payload] {
				m.fail("%v: is turn %d, and nobody was told", c, at)
			}
			if _, stored := h.at[c.payload]; c.key != "" && stored && m.keyed[c.scope()] == nil {
				m.fail("%v is stored without a record", c)
			}
		}
		deletes := 0
		for _, name := range h.turns {
			if name == "" {
				deletes++
			}
		}
		if deletes < h.deletes || deletes > h.deletes+h.doubts {
			m.fail("%s: %d deletes are stored, %d acknowledged, %d unknown", id, deletes, h.deletes, h.doubts)
		}
	}
}
