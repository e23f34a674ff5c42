package reminder

import (
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/fair"
)

// memoryUse counts the reminders that are in the wheel, unread or deferred. Apps share the memory;
// whatever its app has, each bucket may have a page.
type memoryUse struct {
	apps    *fair.Account
	buckets map[actor.Bucket]*bucketUse // those that have something in memory
	space   chan struct{}               // of capacity 1: there is space for what was left out
}

type bucketUse struct {
	app   string
	count int
}

// fits reports whether n more reminders of a bucket may be taken into memory.
func (m *memoryUse) fits(b actor.Bucket, n int64) bool {
	use := m.buckets[b]
	return use == nil || use.count < pageSize || m.apps.Check(use.app, n) == nil
}

// add counts a reminder of a bucket of an app.
func (m *memoryUse) add(b actor.Bucket, app string) {
	use := m.buckets[b]
	if use == nil {
		use = &bucketUse{app: app}
		m.buckets[b] = use
	}
	use.count++
	m.apps.Add(use.app, 1)
}

// remove counts a reminder off.
func (m *memoryUse) remove(id actor.ReminderID) {
	use := m.buckets[id.Bucket()]
	use.count--
	m.apps.Give(use.app, 1)
	if use.count == 0 {
		delete(m.buckets, id.Bucket())
	}
}

// announceSpace rouses the owner, which reads what was left out.
func (m *memoryUse) announceSpace() {
	select {
	case m.space <- struct{}{}:
	default:
	}
}
