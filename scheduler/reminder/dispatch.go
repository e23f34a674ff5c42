package reminder

import (
	"context"
	"slices"
	"sync"

	"github.com/greenroom-run/greenroom/actor"
)

// Of each type so many deliveries wait at most, and of each actor.
const (
	waitingOfType  = 1024
	waitingOfActor = 16
)

// dispatch bounds the deliveries under way: of each actor, type and app and in all, so
// that one that is slow delays none but its own.
//
// Workers begin them, one after the other, and wait for none: as long as there are others
// to begin, there is a worker that has just been woken for them beside those that are busy.
// So one whose actor's turn runs where it was begun, however long, holds up no other.
type dispatch struct {
	cfg    *Config
	ctx    context.Context // of deliveries; ends with the service
	cancel context.CancelFunc
	begin  func(*delivery) // see [deliveries.begin]

	mu sync.Mutex
	// current is the context of the deliveries that begin now.
	current   context.Context
	interrupt context.CancelFunc
	idle      *sync.Cond
	closed    bool
	woken     bool // a worker was woken, and has not begun anything yet
	running   int
	waiting   int
	apps      map[string]int
	actors    map[actor.Key]*load
	types     map[typeName]*typeQueue
	turn      []*typeQueue // those with something that waits, in turn
	// watched are lots that were full: once half of what may wait of one does, it is among
	// those with room, and roused is called.
	watched map[lot]struct{}
	room    []lot
	roused  func()
}

type typeName struct{ app, typ string }

// load is how many deliveries of an actor run and wait.
type load struct{ running, waiting int }

type typeQueue struct {
	name    typeName
	running int
	waiting []*delivery
	inTurn  bool
}

func newDispatch(cfg *Config, roused func()) *dispatch {
	d := &dispatch{
		cfg: cfg, apps: map[string]int{}, actors: map[actor.Key]*load{}, types: map[typeName]*typeQueue{},
		watched: map[lot]struct{}{}, roused: roused,
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.current, d.interrupt = context.WithCancel(d.ctx)
	d.idle = sync.NewCond(&d.mu)
	return d
}

// add has a delivery wait for its turn. If as many do as may it returns what they are of,
// and watches that; otherwise the zero lot.
func (d *dispatch) add(x *delivery) (full lot) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := x.reminder.Key
	name := typeName{key.App, key.Type}
	q := d.types[name]
	if q == nil {
		q = &typeQueue{name: name}
		d.types[name] = q
	}
	l := d.actors[key]
	if l == nil {
		l = &load{}
		d.actors[key] = l
	}
	switch {
	case l.waiting >= waitingOfActor:
		full = actorLot(key)
	case len(q.waiting) >= waitingOfType || d.closed: // nothing begins any more
		full = typeLot(key)
	}
	if full != (lot{}) {
		d.watched[full] = struct{}{}
		d.tidy(key, l, q)
		return full
	}
	l.waiting++
	d.waiting++
	q.waiting = append(q.waiting, x)
	d.enter(q)
	return lot{}
}

// roomOf returns how many more deliveries of a lot may wait; d.mu is held.
func (d *dispatch) roomOf(of lot) int {
	if of.id != "" {
		l := d.actors[actor.Key{App: of.app, Type: of.typ, ID: of.id}]
		if l == nil {
			return waitingOfActor
		}
		return waitingOfActor - l.waiting
	}
	q := d.types[typeName{of.app, of.typ}]
	if q == nil {
		return waitingOfType
	}
	return waitingOfType - len(q.waiting)
}

// look gives nextRoom the lots of an actor and of its type that are watched and have room
// again; d.mu is held.
func (d *dispatch) look(key actor.Key) {
	if len(d.watched) == 0 {
		return
	}
	d.lookAt(actorLot(key))
	d.lookAt(typeLot(key))
}

func (d *dispatch) lookAt(of lot) {
	if _, watched := d.watched[of]; !watched {
		return
	}
	most := waitingOfType
	if of.id != "" {
		most = waitingOfActor
	}
	if d.roomOf(of) >= most/2 {
		delete(d.watched, of)
		d.room = append(d.room, of)
		d.roused()
	}
}

// watch has nextRoom return a lot once there is room.
func (d *dispatch) watch(of lot) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.watched[of] = struct{}{}
	d.lookAt(of)
}

// nextRoom returns a lot that was watched, and how many more deliveries of it may wait by
// now; false if no watched lot has room.
func (d *dispatch) nextRoom() (of lot, room int, some bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.room) == 0 {
		return of, 0, false
	}
	of = d.room[0]
	d.room = d.room[1:]
	return of, d.roomOf(of), true
}

// drop forgets the deliveries of a bucket that wait, and returns their reminders.
func (d *dispatch) drop(b actor.Bucket) (dropped []actor.ReminderID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var gone []actor.Key
	for _, q := range d.types {
		q.waiting = slices.DeleteFunc(q.waiting, func(x *delivery) bool {
			if x.reminder.ID.Bucket() != b {
				return false
			}
			dropped = append(dropped, x.reminder.ID)
			gone = append(gone, x.reminder.Key)
			l := d.actors[x.reminder.Key]
			l.waiting--
			d.waiting--
			if l.running+l.waiting == 0 {
				delete(d.actors, x.reminder.Key)
			}
			return true
		})
		if q.running+len(q.waiting) == 0 {
			delete(d.types, q.name)
		}
	}
	for _, key := range gone {
		d.look(key)
	}
	return dropped
}

func (d *dispatch) enter(q *typeQueue) {
	if !q.inTurn && len(q.waiting) > 0 {
		q.inTurn = true
		d.turn = append(d.turn, q)
	}
}

func (d *dispatch) tidy(key actor.Key, l *load, q *typeQueue) {
	if l.running+l.waiting == 0 {
		delete(d.actors, key)
	}
	if q.running+len(q.waiting) == 0 {
		delete(d.types, q.name)
	}
}

// pump has a worker begin what may begin.
func (d *dispatch) pump() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wake()
}

// wake wakes a worker if there is anything to begin and none was woken for it; d.mu is held.
func (d *dispatch) wake() {
	if d.woken || d.next() == nil {
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

// next returns the first type in turn that may begin a delivery, and puts it before all
// others; nil if no type may. d.mu is held.
func (d *dispatch) next() *typeQueue {
	if d.running >= d.cfg.MaxRunning || d.closed {
		return nil
	}
	for range d.turn {
		q := d.turn[0]
		if len(q.waiting) == 0 { // what waited was dropped
			q.inTurn = false
			d.turn = d.turn[1:]
			continue
		}
		if d.firstOf(q) >= 0 {
			return q
		}
		d.turn = append(d.turn[1:], q)
	}
	return nil
}

// firstOf returns the place of the first delivery of a type that may begin; -1 if none may.
func (d *dispatch) firstOf(q *typeQueue) int {
	if q.running >= d.cfg.MaxOfType || d.apps[q.name.app] >= d.cfg.MaxOfApp {
		return -1
	}
	return slices.IndexFunc(q.waiting, func(x *delivery) bool { return d.actors[x.reminder.Key].running < d.cfg.MaxOfActor })
}

// take takes the first delivery of the type whose turn it is, and counts it as running; nil
// if none may begin. d.mu is held.
func (d *dispatch) take() *delivery {
	q := d.next()
	if q == nil {
		return nil
	}
	d.turn = d.turn[1:]
	x := q.remove(d.firstOf(q))
	if q.inTurn = len(q.waiting) > 0; q.inTurn {
		d.turn = append(d.turn, q)
	}
	l := d.actors[x.reminder.Key]
	l.waiting--
	l.running++
	q.running++
	d.apps[q.name.app]++
	d.waiting--
	d.running++
	d.look(x.reminder.Key)
	return x
}

// remove takes the delivery at a place out of those that wait.
func (q *typeQueue) remove(at int) *delivery {
	x := q.waiting[at]
	if at > 0 {
		q.waiting = slices.Delete(q.waiting, at, at+1)
		return x
	}
	q.waiting[0] = nil
	q.waiting = q.waiting[1:]
	return x
}

// end gives the place of a delivery to another.
func (d *dispatch) end(x *delivery) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := x.reminder.Key
	q, l := d.types[typeName{key.App, key.Type}], d.actors[key]
	l.running--
	q.running--
	if d.apps[key.App]--; d.apps[key.App] == 0 {
		delete(d.apps, key.App)
	}
	d.running--
	d.tidy(key, l, q)
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
	for d.running > 0 {
		d.idle.Wait()
	}
}

func (d *dispatch) counts() (running, waiting int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.running, d.waiting
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
