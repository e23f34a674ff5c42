package reminder

import "github.com/greenroom-run/greenroom/actor"

// lot is what too many deliveries wait of: an actor, with an empty ID a type, or with an empty
// type as well an app.
type lot struct{ app, typ, id string }

func appLot(app string) lot { return lot{app, "", ""} }

func typeLot(key actor.Key) lot  { return lot{key.App, key.Type, ""} }
func actorLot(key actor.Key) lot { return lot{key.App, key.Type, key.ID} }

// parked are reminders that are due and were read, and of whose type or actor as many
// deliveries waited as may. They are read again once at most half as many wait: a backlog is
// read twice, however long it takes, but one that waits for its actor and then for its type is
// read each time. What comes due meanwhile goes first if there is room. Of each only the ID is
// kept.
type parked struct {
	lots  map[lot][]actor.ReminderID // in the order of their times
	count int
}

func newParked() parked { return parked{lots: map[lot][]actor.ReminderID{}} }

func (p *parked) add(of lot, id actor.ReminderID) {
	p.lots[of] = append(p.lots[of], id)
	p.count++
}

// take returns the first of a lot, at most n, and whether there are others.
func (p *parked) take(of lot, n int) (due []Due, more bool) {
	ids := p.lots[of]
	n = min(n, len(ids))
	for _, id := range ids[:n] {
		due = append(due, Due{ID: id})
	}
	p.count -= n
	if n == len(ids) {
		delete(p.lots, of)
		return due, false
	}
	p.lots[of] = ids[n:]
	return due, true
}
