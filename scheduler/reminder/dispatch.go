package reminder

import (
	"context"
	"slices"
	"sync"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/fair"
)

// Of each app, type and actor so many deliveries wait at most, and of an app and a type with so
// many bytes of payloads. An app whose payloads are large leaves a part for others.
const (
	waitingOfApp   = 16 * waitingOfType
	waitingOfType  = 1024
	waitingOfActor = 16

	waitingBytes       = 4 * waitingBytesOfApp
	waitingBytesOfApp  = 4 * waitingBytesOfType
	waitingBytesOfType = 256 * actor.MaxReminderPayload
)

// dispatch deals the places of deliveries to apps and, inside an app, to types, and bounds those
// of each actor, type and app, so that one that is slow delays none but its own.
//
// Workers begin them, one after the other, and wait for none: as long as there are others
// to begin, there is a worker that has just been woken for them beside those that are busy.
// So one whose actor's turn runs where it was begun, however long, holds up no other.
type dispatch struct {
	places
	cfg   *Config
	begin func(*delivery) // see [deliveries.begin]

	mu     sync.Mutex
	woken  bool                     // a worker was woken, and has not begun anything yet
	queue  *fair.Queue[*delivery]   // those whose actor has a place for them
	bytes  *fair.Account            // payloads that wait
	apps   map[string]int           // how many wait, with steps that wait for their commit
	types  map[typeName]*load       // what waits
	actors map[actor.Key]*actorLoad // that have something under way
	all    map[*delivery]struct{}   // those that wait
	rooms
}

// places is what the deliveries under way share.
type places struct {
	ctx    context.Context // of deliveries; ends with the service
	cancel context.CancelFunc
	// current is the context of the deliveries that begin now.
	current   context.Context
	interrupt context.CancelFunc
	idle      *sync.Cond
	closed    bool
}

// rooms are the scopes that were full, and those that have room again.
type rooms struct {
	watched map[scope]struct{}
	short   map[string]struct{} // apps among them, for which those that wait of others leave no bytes, too
	room    []scope
	roused  func() // called when a scope has room again
}

type typeName struct{ app, typ string }

// load is how many deliveries of a type wait, with how many bytes.
type load struct{ waiting, bytes int }

// actorLoad is the deliveries of an actor: those that have a place of it, which run or are in
// the queue, and those that wait for one.
type actorLoad struct {
	placed, waiting int
	behind          []*delivery
}

func newDispatch(cfg *Config, roused func()) *dispatch {
	d := &dispatch{
		cfg: cfg, apps: map[string]int{}, types: map[typeName]*load{}, actors: map[actor.Key]*actorLoad{}, all: map[*delivery]struct{}{},
		queue: fair.New[*delivery](fair.Config{
			Running:        fair.Bounds{Name: "deliveries", Total: int64(cfg.MaxRunning), PerApp: int64(cfg.MaxOfApp)},
			RunningPerType: int64(cfg.MaxOfType),
		}),
		bytes: fair.NewAccount(fair.Bounds{
			Name: "bytes of payloads that wait", Total: waitingBytes, PerApp: waitingBytesOfApp, Always: actor.MaxReminderPayload, Most: waitingBytesOfApp,
		}),
		rooms: rooms{watched: map[scope]struct{}{}, short: map[string]struct{}{}, roused: roused},
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.current, d.interrupt = context.WithCancel(d.ctx)
	d.idle = sync.NewCond(&d.mu)
	return d
}

// add has a delivery wait for its turn. If as many do as may it returns what they are of,
// and watches that; otherwise the zero scope.
func (d *dispatch) add(x *delivery) (full scope) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key, bytes := x.reminder.Key, len(x.reminder.Payload.Data)
	name := typeName{key.App, key.Type}
	t, l := d.types[name], d.actors[key]
	if t == nil {
		t = &load{}
	}
	if l == nil {
		l = &actorLoad{}
	}
	switch {
	case l.waiting >= waitingOfActor:
		full = actorScope(key)
	case t.waiting >= waitingOfType, t.waiting > 0 && t.bytes+bytes > waitingBytesOfType, d.closed: // nothing begins any more
		full = typeScope(key)
	case d.apps[key.App] >= waitingOfApp, d.bytes.Take(key.App, int64(bytes)) != nil:
		full = appScope(key.App)
	}
	if full != (scope{}) {
		d.watched[full] = struct{}{}
		return full
	}
	d.types[name], d.actors[key] = t, l
	x.entry = fair.Entry[*delivery]{App: key.App, Type: key.Type, Value: x}
	d.count(x, 1)
	d.place(l, x)
	return scope{}
}

// count counts a delivery among those that wait, or off with by -1.
func (d *dispatch) count(x *delivery, by int) {
	key, bytes := x.reminder.Key, len(x.reminder.Payload.Data)
	name := typeName{key.App, key.Type}
	t := d.types[name]
	t.waiting += by
	t.bytes += by * bytes
	d.actors[key].waiting += by
	d.countOf(key.App, by)
	if by > 0 {
		d.all[x] = struct{}{}
		return
	}
	delete(d.all, x)
	d.bytes.Give(key.App, int64(bytes))
	if t.waiting == 0 {
		delete(d.types, name)
	}
}

// countSteps counts steps of an app that wait for their commit among what waits of the app, or
// off with a negative number.
func (d *dispatch) countSteps(app string, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.countOf(app, n)
	if n < 0 {
		d.noticeRoomIn(appScope(app))
	}
}

// countOf counts what waits of an app; d.mu is held.
func (d *dispatch) countOf(app string, n int) {
	if d.apps[app] += n; d.apps[app] == 0 {
		delete(d.apps, app)
	}
}

// place puts a delivery into the queue if its actor has a place for it, or behind the others of
// the actor.
func (d *dispatch) place(l *actorLoad, x *delivery) {
	if l.placed >= d.cfg.MaxOfActor {
		l.behind = append(l.behind, x)
		return
	}
	l.placed++
	_ = d.queue.Push(&x.entry) // it has no bounds of what waits
}

// unplace gives the place of an actor's delivery to its next one.
func (d *dispatch) unplace(key actor.Key) {
	l := d.actors[key]
	l.placed--
	if len(l.behind) > 0 {
		x := l.behind[0]
		l.behind = l.behind[1:]
		d.place(l, x)
	}
	if l.placed+l.waiting == 0 {
		delete(d.actors, key)
	}
}

// roomOf returns how many more deliveries of a scope may wait.
func (d *dispatch) roomOf(of scope) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, room := d.roomIn(of)
	return room
}

// roomIn returns how many deliveries of a scope may wait at most, and how many more; of large ones
// at least one more. d.mu is held.
func (d *dispatch) roomIn(of scope) (most, room int) {
	switch {
	case of.id != "":
		if l := d.actors[actor.Key{App: of.app, Type: of.typ, ID: of.id}]; l != nil {
			return waitingOfActor, waitingOfActor - l.waiting
		}
		return waitingOfActor, waitingOfActor
	case of.typ != "":
		t := d.types[typeName{of.app, of.typ}]
		if t == nil {
			return waitingOfType, waitingOfType
		}
		return waitingOfType, min(waitingOfType-t.waiting, byBytes(t.bytes, waitingBytesOfType, waitingOfType))
	case d.bytes.Check(of.app, actor.MaxReminderPayload) != nil: // something of it waits
		return waitingOfApp, 0
	default:
		return waitingOfApp, min(waitingOfApp-d.apps[of.app], byBytes(int(d.bytes.Has(of.app)), waitingBytesOfApp, waitingOfApp))
	}
}

// byBytes returns the part of most that is left where so many bytes are used of all.
func byBytes(used, all, most int) int { return max(0, all-used) * most / all }

// noticeRoom gives nextRoom the scopes that are watched and have room again since a delivery to an actor
// waits no more: those of the actor, its type and its app, and apps that its bytes were short for.
// d.mu is held.
func (d *dispatch) noticeRoom(key actor.Key) {
	if len(d.watched) == 0 {
		return
	}
	d.noticeRoomIn(actorScope(key))
	d.noticeRoomIn(typeScope(key))
	d.noticeRoomIn(appScope(key.App))
	for app := range d.short {
		d.noticeRoomIn(appScope(app))
	}
}

func (d *dispatch) noticeRoomIn(of scope) {
	if _, watched := d.watched[of]; !watched || d.closed {
		return
	}
	if most, room := d.roomIn(of); room < most/2 {
		if of == appScope(of.app) {
			d.short[of.app] = struct{}{}
		}
		return
	}
	delete(d.watched, of)
	if of == appScope(of.app) {
		delete(d.short, of.app)
	}
	d.room = append(d.room, of)
	d.roused()
}

// watch has nextRoom return a scope once there is room.
func (d *dispatch) watch(of scope) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.watched[of] = struct{}{}
	d.noticeRoomIn(of)
}

// nextRoom returns a scope that was watched and has room; false if there is none.
func (d *dispatch) nextRoom() (of scope, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.room) == 0 {
		return of, false
	}
	of = d.room[0]
	d.room = d.room[1:]
	return of, true
}

// drop forgets the deliveries of a bucket that wait, and returns their reminders.
func (d *dispatch) drop(b actor.Bucket) (dropped []actor.ReminderID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for x := range d.all {
		if x.reminder.ID.Bucket() != b {
			continue
		}
		key := x.reminder.Key
		l := d.actors[key]
		dropped = append(dropped, x.reminder.ID)
		d.count(x, -1)
		if at := slices.Index(l.behind, x); at >= 0 {
			l.behind = slices.Delete(l.behind, at, at+1)
		} else {
			d.queue.Remove(&x.entry)
			d.unplace(key)
		}
		d.noticeRoom(key)
	}
	d.wake() // others of their actors have places now
	return dropped
}

// pump has a worker begin what may begin.
func (d *dispatch) pump() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wake()
}

// wake wakes a worker if there may be anything to begin and none was woken for it; d.mu is held.
func (d *dispatch) wake() {
	if d.woken || d.closed || d.queue.Len() == 0 || d.queue.Running() >= d.cfg.MaxRunning {
		return
	}
	d.woken = true
	go d.work()
}

// work begins what may begin.
func (d *dispatch) work() {
	d.mu.Lock()
	d.woken = false
	for x := d.take(); x != nil; x = d.take() {
		d.wake()
		d.mu.Unlock()
		d.begin(x)
		d.mu.Lock()
	}
	d.mu.Unlock()
}

// take takes the delivery whose turn it is, which runs from now on; nil if none may. d.mu is held.
func (d *dispatch) take() *delivery {
	if d.closed {
		return nil
	}
	e := d.queue.Next()
	if e == nil {
		return nil
	}
	d.count(e.Value, -1)
	d.noticeRoom(e.Value.reminder.Key)
	return e.Value
}

// end gives the place of a delivery to another.
func (d *dispatch) end(x *delivery) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queue.Remove(&x.entry)
	d.unplace(x.reminder.Key)
	d.wake()
	d.idle.Broadcast()
}

// close begins nothing any more.
func (d *dispatch) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
}

// wait returns when nothing is under way.
func (d *dispatch) wait() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.queue.Running() > 0 {
		d.idle.Wait()
	}
}

func (d *dispatch) counts() (running, waiting int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.queue.Running(), len(d.all)
}

// runs returns the context of deliveries that begin now.
func (d *dispatch) runs() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.current
}

// lapse ends the deliveries that are under way. Later ones are not concerned.
func (d *dispatch) lapse() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.interrupt()
	d.current, d.interrupt = context.WithCancel(d.ctx)
}
