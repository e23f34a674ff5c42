package reminder

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/reminder/remindertest"
	"github.com/greenroom-run/greenroom/store"
)

// simRow is the row of occurrences that a schedule names, worked out without what is under
// test.
type simRow struct {
	every  time.Duration // 0: one occurrence, or daily
	phased bool          // multiples of every since 1970, not from the first on
	daily  *daily
}

// daily is a time on the wall of a zone, every day.
type daily struct {
	hour, minute int
	zone         *time.Location
}

// on returns when a day has its time on the wall: the first moment that shows it, or the
// first after the gap that it falls into. It looks at each minute.
func (d *daily) on(year int, month time.Month, day int) time.Time {
	start := time.Date(year, month, day, d.hour, d.minute, 0, 0, d.zone).Add(-3 * time.Hour)
	// In the zones here the day itself exists, and the gap ends within it.
	for n := range 6 * 60 {
		at := start.Add(time.Duration(n) * time.Minute)
		local := at.In(d.zone)
		if local.Year() == year && local.Month() == month && local.Day() == day && local.Hour()*60+local.Minute() >= d.hour*60+d.minute {
			return at.UTC()
		}
	}
	panic("a day without this time")
}

// after returns the first occurrence after another one; zero: it was the only one.
func (r *simRow) after(t time.Time) time.Time {
	switch {
	case r.daily != nil:
		local := t.In(r.daily.zone)
		for n := -1; ; n++ {
			year, month, day := time.Date(local.Year(), local.Month(), local.Day()+n, 12, 0, 0, 0, time.UTC).Date()
			if at := r.daily.on(year, month, day); at.After(t) {
				return at
			}
		}
	case r.phased:
		return t.Truncate(r.every).Add(r.every)
	case r.every > 0:
		return t.Add(r.every)
	}
	return time.Time{}
}

// between counts the occurrences from one on that are before another.
func (r *simRow) between(from, to time.Time) (n int64) {
	if r.every > 0 {
		return int64(to.Sub(from) / r.every)
	}
	for ; !from.IsZero() && from.Before(to); from = r.after(from) {
		n++
	}
	return n
}

// rowOf reads the schedules that simSchedule makes.
func rowOf(s *actor.Schedule) simRow {
	var n, minute, hour int
	switch {
	case s.Every > 0:
		return simRow{every: s.Every}
	case s.Cron == "":
		return simRow{}
	}
	if _, err := fmt.Sscanf(s.Cron, "*/%d * * * * *", &n); err == nil && s.Cron == fmt.Sprintf("*/%d * * * * *", n) {
		return simRow{every: time.Duration(n) * time.Second, phased: true}
	}
	if _, err := fmt.Sscanf(s.Cron, "*/%d * * * *", &n); err == nil {
		return simRow{every: time.Duration(n) * time.Minute, phased: true}
	}
	if _, err := fmt.Sscanf(s.Cron, "%d %d * * *", &minute, &hour); err != nil {
		panic(err)
	}
	zone, err := time.LoadLocation(s.Zone)
	if err != nil {
		panic(err)
	}
	return simRow{daily: &daily{hour, minute, zone}}
}

var simZones = []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Kolkata", "America/St_Johns"}

// simSchedule draws a schedule.
func simSchedule(rng *rand.Rand, now time.Time) (s actor.Schedule) {
	some := func(d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }
	switch rng.IntN(4) {
	case 0:
		s.After = some(time.Minute)
	case 1:
		s.At = now.Add(some(3*time.Minute) - time.Minute)
	case 2:
		s.After = some(20 * time.Minute) // beyond the window
	}
	switch rng.IntN(8) {
	case 0, 1:
		s.Every = 100*time.Millisecond + some(5*time.Second).Truncate(time.Microsecond)
	case 2, 3:
		s.Every = time.Second + some(10*time.Minute).Truncate(time.Microsecond)
	case 4:
		s.Cron, s.Zone = fmt.Sprintf("*/%d * * * * *", []int{5, 10, 20, 30}[rng.IntN(4)]), "UTC"
	case 5:
		s.Cron, s.Zone = fmt.Sprintf("*/%d * * * *", []int{1, 2, 5, 15}[rng.IntN(4)]), "UTC"
	case 6:
		s.Cron, s.Zone = fmt.Sprintf("%d %d * * *", rng.IntN(60), rng.IntN(24)), simZones[rng.IntN(len(simZones))]
	}
	if s.Every > 0 || s.Cron != "" {
		s.Times = uint32(rng.IntN(2) * rng.IntN(30))
		if rng.IntN(4) == 0 {
			s.Until = now.Add(30*time.Minute + some(48*time.Hour))
		}
	}
	if rng.IntN(5) == 0 {
		s.Jitter = some(50 * time.Millisecond)
	}
	return s
}

// judge follows what is committed to every reminder that there ever was, and what runs.
type judge struct {
	w *simulation

	mu         sync.Mutex
	violations []string
	trace      []string
	handedOut  map[actor.ReminderID]bool
	known      map[actor.ReminderID]*simReminder
	turns      map[actor.CommitID]*simTurn // commits of turns
	runs       map[actor.ReminderID][]*simTurn
	deliveries map[simDelivery]bool // those that were sent, and whether one has arrived
}

// simReminder is what is known of a reminder.
type simReminder struct {
	row     simRow
	spec    actor.ReminderSpec
	version uint64 // 0: it is gone
	fired   int
	deleted bool // that was acknowledged
	// The versions that it has by being paused or resumed, and by firing for an occurrence
	// that the next one was past already.
	resumed, catchesUp uint64
}

// simTurn is a turn of a firing.
type simTurn struct {
	firing actor.Firing
	host   *simProcess
	began  time.Time       // database time, of the delivery
	ctx    context.Context // its host stops it when that ends
	// excused: who delivered it was told that nobody knows what became of it.
	excused bool
}

func newJudge(w *simulation) *judge {
	return &judge{
		w: w, handedOut: map[actor.ReminderID]bool{}, known: map[actor.ReminderID]*simReminder{},
		turns: map[actor.CommitID]*simTurn{}, runs: map[actor.ReminderID][]*simTurn{},
		deliveries: map[simDelivery]bool{},
	}
}

// fail notes a violation; j.mu is held.
func (j *judge) fail(format string, args ...any) {
	if text := fmt.Sprintf("after %v: ", time.Since(j.w.begun)) + fmt.Sprintf(format, args...); len(j.violations) < 6 {
		j.violations = append(j.violations, text)
		j.trace = append(j.trace, "WRONG "+text)
	}
}

func (j *judge) note(format string, args ...any) {
	if !*simTrace {
		return
	}
	line := fmt.Sprintf("%10.4f ", time.Since(j.w.begun).Seconds()) + fmt.Sprintf(format, args...)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.trace = append(j.trace, line)
}

// prepared notes that a process has named a reminder.
func (j *judge) prepared(id actor.ReminderID) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.handedOut[id] {
		j.fail("%v was handed out twice", id)
	}
	j.handedOut[id] = true
}

// leasesEndedEarly reports whether a lease may have ended before its time a while ago, since
// the database's clock was set forward. The caller has the lock.
func (j *judge) leasesEndedEarly() bool {
	return !j.w.forward.IsZero() && time.Since(j.w.forward) < 2*remindertest.MemberLease+2*simExecution
}

// begins notes that a turn begins, whose reminder was there as found says.
func (j *judge) begins(t *simTurn, found *actor.Reminder, now time.Time, lag time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if found.FireAt.After(now.Add(lag)) {
		j.fail("%v fires %v early", found.ID, found.FireAt.Sub(now))
	}
	early := j.leasesEndedEarly()
	for _, other := range j.runs[t.firing.Reminder] {
		if !other.excused && !early && !other.host.gone() && other.ctx.Err() == nil {
			j.fail("%v is delivered while it is under way: attempt %d of %v, version %d, beside that of version %d", t.firing.Reminder, t.firing.Attempt,
				t.firing.Due, t.firing.Step.Version, other.firing.Step.Version)
		}
	}
	j.runs[t.firing.Reminder] = append(j.runs[t.firing.Reminder], t)
}

// sent notes that a firing is on its way to the host that runs its turn: only the first time
// may it say that it is the first, unless database time went back, or a jump of it ended a
// lease before its time, so that two deliver for a while.
func (j *judge) sent(f *actor.Firing) {
	j.w.db.mu.Lock()
	back := j.w.backward > 0
	j.w.db.mu.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	back = back || j.leasesEndedEarly()
	which := simDelivery{f.Reminder, f.Step.Version}
	arrived, before := j.deliveries[which]
	if before && f.Fresh && !back {
		j.fail("version %d of %v is delivered again as if for the first time", f.Step.Version, f.Reminder)
	}
	j.deliveries[which] = arrived
}

// arrived notes that a firing has come to the host that runs its turn, and reports whether
// others of the same reminder have overtaken one that was sent as the first.
func (j *judge) arrived(f *actor.Firing) (overtaken bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	which := simDelivery{f.Reminder, f.Step.Version}
	overtaken = f.Fresh && j.deliveries[which]
	j.deliveries[which] = true
	return overtaken
}

// simDelivery is what is delivered of a reminder.
type simDelivery struct {
	id      actor.ReminderID
	version uint64
}

// ends notes that a turn is over.
func (j *judge) ends(t *simTurn) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var left []*simTurn
	for _, other := range j.runs[t.firing.Reminder] {
		if other != t {
			left = append(left, other)
		}
	}
	j.runs[t.firing.Reminder] = left
}

// excuse notes that whoever had a turn run does not know what became of it.
func (j *judge) excuse(t *simTurn) {
	j.mu.Lock()
	defer j.mu.Unlock()
	t.excused = true
}

// deleted notes that a delete was acknowledged, of which no reminder of these can fire any
// more.
func (j *judge) deleted(ids []actor.ReminderID) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, id := range ids {
		j.known[id].deleted = true
	}
}

// excess is how much later a reminder that is late by so much fires than is right; j.mu is
// held.
func (j *judge) excess(id actor.ReminderID, version uint64, late time.Duration) time.Duration {
	r := j.known[id]
	if r == nil {
		return late // never set: what a store without fences makes of a step
	}
	if r.spec.Message != nil { // one before it may be at another process
		late -= longestWait + simPunctual
	}
	switch version {
	case r.catchesUp: // it goes on at once, with times that are long past
		return 0
	case r.resumed:
		return late - simUnnoticed
	}
	return late
}

// named returns the reminders that were committed under a name, and are gone or as they
// were.
func (j *judge) named(n actor.ReminderName) (ids []actor.ReminderID) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for id, r := range j.known {
		if r.spec.Name == n.Name && r.spec.Key == n.Key {
			ids = append(ids, id)
		}
	}
	return ids
}

// applied judges a commit at the moment that the store applies it, with the store's lock.
func (j *judge) applied(c *actor.Commit, ops []store.ReminderOp) {
	m := j.w.db
	j.mu.Lock()
	defer j.mu.Unlock()
	turn := j.turns[c.ID]
	for i := range ops {
		op := &ops[i]
		there, found := m.reminders[op.ReminderName]
		if op.Step != nil {
			j.stepped(c, turn, op.Step, &there, m.now())
		}
		if op.Set != nil && op.IfAbsent && found {
			j.w.total.add("kept", 1)
			continue
		}
		if r := j.known[there.ID]; found && (op.Set != nil || op.Then == nil) && r != nil {
			r.version = 0
		}
		if op.Set == nil {
			continue
		}
		if found {
			j.w.total.add("overwritten", 1)
		}
		if j.known[op.Set.ID] != nil {
			j.fail("%v is set twice", op.Set.ID)
			continue
		}
		r := &simReminder{row: rowOf(&op.Set.Schedule), spec: op.Set.ReminderSpec, version: 1}
		j.known[op.Set.ID] = r
		first := r.spec.Schedule.At
		if r.spec.Schedule.Cron != "" {
			first = r.row.after(first.Add(-1))
		}
		if !op.Set.Due.Equal(first) || op.Set.FireAt.Before(first) {
			j.fail("%v is first due at %v, want %v", op.Set.ID, op.Set.Due, first)
		}
	}
}

// stepped judges a step of a reminder that is there.
func (j *judge) stepped(c *actor.Commit, turn *simTurn, s *actor.ReminderStep, there *actor.Reminder, now time.Time) {
	r := j.known[s.ID]
	switch {
	case r == nil:
		j.fail("%v steps, and was never set", s.ID)
		return
	case r.version != s.Version:
		j.fail("%v steps from version %d, and is at %d", s.ID, s.Version, r.version)
		return
	case r.deleted:
		j.fail("%v steps, and its delete was acknowledged", s.ID)
	}
	r.version++
	if s.Then == nil {
		r.version = 0
	}
	now = now.Add(j.w.backward)
	if there.Message != nil {
		j.steppedMessage(c, turn, s, there, now)
		return
	}
	if s.Then != nil && s.Then.Due.Equal(there.Due) {
		switch {
		case turn != nil:
			j.fail("a turn of %v leaves it at %v", s.ID, there.Due)
		case s.Then.Paused != there.Paused:
			j.w.total.add("paused or resumed", 1)
			r.resumed = s.Version + 1
		case s.Then.Failures == there.Failures+1:
			j.w.total.add("failed, to be tried again", 1)
		default:
			j.fail("%v is stepped from %+v to %+v", s.ID, there.ReminderProgress, *s.Then)
		}
		return
	}
	// The occurrences from there.Due on, up to the next one, are accounted for by this.
	var last time.Time // of them
	var n int64
	if s.Then != nil {
		n = r.row.between(there.Due, s.Then.Due)
		if want := there.Left - min(there.Left, uint32(n)); s.Then.Left != want && s.Then.Failures == 0 {
			j.fail("%v has %d left after %d of %d", s.ID, s.Then.Left, n, there.Left)
		}
		if at := r.row.nth(there.Due, n); !at.Equal(s.Then.Due) {
			j.fail("%v goes on at %v, which is no occurrence; %v is", s.ID, s.Then.Due, at)
		}
		last = r.row.nth(there.Due, n-1)
	} else {
		n, last = r.rest(there)
	}
	if n < 1 || last.After(now) {
		j.fail("%v accounts for %d occurrences up to %v at %v", s.ID, n, last, now)
	}
	missed := r.spec.Missed
	limit := int64(missed.Limit)
	if limit == 0 {
		limit = actor.DefaultCatchUp
	}
	after := missed.After
	if after == 0 {
		after = actor.DefaultMissedAfter
	}
	if turn == nil {
		switch {
		case s.DeadLetter != nil:
			j.w.total.add("dead letter", 1)
		case r.spec.Failure.Kind == actor.FailureDrop && s.Then == nil, r.spec.Failure.Kind == actor.FailureDrop && s.Then.LastError != "":
			j.w.total.add("dropped", 1)
		case s.Then != nil && s.Then.Failures > 0: // a failed one, which stood for others
			j.w.total.add("failed, with others missed", 1)
		case missed.Kind == actor.MissedSkip && now.Sub(last) > after:
			j.w.total.add("skipped", 1)
		case j.ended(&r.spec.Schedule, last, now):
			j.w.total.add("past the end", 1)
		default:
			j.fail("%v goes past %d occurrences to %v without a turn: %+v", s.ID, n, last, missed)
		}
		return
	}
	f := &turn.firing
	r.fired++
	if s.Then != nil && s.Then.FireAt.Before(now) {
		r.catchesUp = s.Version + 1
	}
	if int64(f.Missed) != n-1 {
		j.fail("a firing of %v says %d missed, and goes past %d occurrences", s.ID, f.Missed, n)
	}
	switch missed.Kind {
	case actor.MissedCollapse:
		if n > 1 {
			j.w.total.add("collapsed", 1)
		}
		if !f.Due.Equal(there.Due) {
			j.fail("%v fires for %v, want %v", s.ID, f.Due, there.Due)
		}
	case actor.MissedSkip:
		if n > 1 {
			j.w.total.add("skipped and fired", 1)
		}
		if !f.Due.Equal(last) {
			j.fail("%v fires for %v, want %v", s.ID, f.Due, last)
		}
	case actor.MissedCatchUp:
		if !f.Due.Equal(last) {
			j.fail("%v fires for %v, want %v", s.ID, f.Due, last)
		}
		if n > 1 {
			j.w.total.add("more than is caught up with", 1)
			if end := r.row.nth(last, limit-1); end.After(now) {
				j.fail("%v passes %d over, though only from %v are due at %v; %d are caught up with", s.ID, n-1, last, now, limit)
			}
		} else if next := r.row.after(last); !next.IsZero() && !next.After(now) {
			j.w.total.add("caught up", 1)
		}
	}
	j.w.total.add("fired", 1)
}

// ended reports whether a schedule is over, and its occurrence at a time late.
func (j *judge) ended(s *actor.Schedule, at, now time.Time) bool {
	return !s.Until.IsZero() && now.After(s.Until) && now.Sub(at) > actor.DefaultMissedAfter
}

// rest are the occurrences from that of there on to the end of the row, and the last of
// them; 0: the row has no end.
func (r *simReminder) rest(there *actor.Reminder) (n int64, last time.Time) {
	if r.row == (simRow{}) {
		return 1, there.Due
	}
	if until := r.spec.Schedule.Until; !until.IsZero() {
		n = max(1, r.row.between(there.Due, until))
		if !r.row.nth(there.Due, n).After(until) {
			n++
		}
	}
	if there.Left > 0 && (n == 0 || n > int64(there.Left)) {
		n = int64(there.Left)
	}
	return n, r.row.nth(there.Due, n-1)
}

// nth is the nth occurrence after one.
func (r *simRow) nth(from time.Time, n int64) time.Time {
	if r.every > 0 {
		return from.Add(time.Duration(n) * r.every)
	}
	for ; n > 0 && !from.IsZero(); n-- {
		from = r.after(from)
	}
	return from
}
