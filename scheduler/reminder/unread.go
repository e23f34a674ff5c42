package reminder

import (
	"slices"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/fair"
)

const (
	loadBatch  = 32                            // of each app that has others beside it, at once
	groupBytes = 64 * actor.MaxReminderPayload // about what a group has of payloads: 4 MiB
	usualSize  = 1 << 10                       // of a reminder of an app that none was read of, in bytes
)

// unread are reminders that are due and were not read yet, dealt by app: what one app has due at
// once, or what an app has no room for, delays no other. Of each only the ID is kept.
type unread struct {
	queue *fair.Queue[*unreadApp]
	apps  map[string]*unreadApp
	count int
}

// unreadApp is what is to be read of an app.
type unreadApp struct {
	entry    fair.Entry[*unreadApp] // of its turn
	queued   bool
	due      []Due
	again    []Due   // those before them that were read, and that there was no room for
	withRoom []scope // of what was set aside, those that there is room for again
	loads    bool    // a group with some of it is being read
	full     bool    // as many of its deliveries wait as may
	size     int     // bytes of one, on average
}

// group is what is read at once.
type group struct {
	due  []Due
	apps []*unreadApp
	// stillDeferred are scopes that some of it were set aside of, and others still are.
	stillDeferred []scope
}

func newUnread() unread {
	return unread{queue: fair.New[*unreadApp](fair.Config{Quantum: loadBatch * usualSize}), apps: map[string]*unreadApp{}}
}

func (u *unread) of(app string) *unreadApp {
	a := u.apps[app]
	if a == nil {
		a = &unreadApp{size: usualSize}
		a.entry = fair.Entry[*unreadApp]{App: app, Value: a}
		u.apps[app] = a
	}
	return a
}

// add has a reminder read that is due.
func (u *unread) add(app string, due Due) {
	a := u.of(app)
	a.due = append(a.due, due)
	u.count++
	u.enter(a)
}

// fill leaves what an app has unread until room is called for it, among it a reminder for which
// there was no room.
func (u *unread) fill(app string, id actor.ReminderID) {
	a := u.of(app)
	a.again = append(a.again, Due{ID: id})
	u.count++
	a.full = true
	u.leave(a)
}

// room has what there is room for again read.
func (u *unread) room(of scope) {
	a := u.of(of.app)
	if of == appScope(of.app) {
		a.full = false
	} else {
		a.withRoom = append(a.withRoom, of)
	}
	u.enter(a)
}

// enter has an app wait for its turn if something of it can be read, and forgets it if there is
// nothing.
func (u *unread) enter(a *unreadApp) {
	if a.loads {
		return
	}
	u.push(a)
	if !a.queued && !a.full {
		delete(u.apps, a.entry.App)
	}
}

func (u *unread) push(a *unreadApp) {
	if a.queued || len(a.withRoom) == 0 && (a.full || len(a.again)+len(a.due) == 0) {
		return
	}
	a.entry.Cost = int64(loadBatch * a.size)
	a.queued = true
	_ = u.queue.Push(&a.entry) // it has no bounds
}

func (u *unread) leave(a *unreadApp) {
	if a.queued {
		a.queued = false
		u.queue.Remove(&a.entry)
	}
}

// take returns what is read next: of each app in turn as much as there is room for. Nothing
// more is taken of its apps until read is called.
func (u *unread) take(p *deferred, d *dispatch) (g group) {
	for bytes := 0; len(g.due) < loadGroup && bytes < groupBytes; {
		e := u.queue.Next()
		if e == nil {
			break
		}
		a := e.Value
		a.queued = false
		n := min(loadBatch, loadGroup-len(g.due))
		var due []Due
		if len(a.withRoom) > 0 {
			of := a.withRoom[0]
			a.withRoom = a.withRoom[1:]
			taken, more := p.take(of, max(0, min(d.roomOf(of), n)))
			switch due = taken; {
			case more && len(due) == 0:
				d.watch(of)
			case more:
				g.stillDeferred = append(g.stillDeferred, of)
			}
		} else if room := d.roomOf(appScope(e.App)); room > 0 {
			due = a.next(min(n, room))
			u.count -= len(due)
		} else {
			a.full = true
			d.watch(appScope(e.App))
		}
		g.due = append(g.due, due...)
		bytes += len(due) * a.size
		if len(due) > 0 && !slices.Contains(g.apps, a) {
			g.apps = append(g.apps, a)
		}
		u.push(a)
		if !slices.Contains(g.apps, a) {
			u.enter(a)
		}
	}
	for _, a := range g.apps {
		u.leave(a)
		a.loads = true
	}
	return g
}

// next takes the first that are to be read, at most n.
func (a *unreadApp) next(n int) (due []Due) {
	for _, list := range []*[]Due{&a.again, &a.due} {
		most := min(n-len(due), len(*list))
		due = append(due, (*list)[:most]...)
		if *list = (*list)[most:]; len(*list) == 0 {
			*list = nil // and its memory
		}
	}
	return due
}

// read has the apps of a group go on.
func (u *unread) read(g group) {
	for _, a := range g.apps {
		a.loads = false
		u.enter(a)
	}
}

// sized notes how many bytes reminders of an app that were read have.
func (u *unread) sized(app string, bytes int) {
	if a := u.apps[app]; a != nil {
		a.size = max(1, (3*a.size+bytes)/4)
	}
}
