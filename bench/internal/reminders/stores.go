package reminders

import (
	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/inhost"
)

// The names of the stores in checks and tables.
const (
	embeddedStore = "embedded"
	postgresStore = "PostgreSQL"
)

// both are checks on each store.
func both(checks ...bar.Check) []bar.Check {
	var all []bar.Check
	for _, name := range []string{embeddedStore, postgresStore} {
		for _, c := range checks {
			c.Name = check(name, c.Name)
			all = append(all, c)
		}
	}
	return all
}

func check(store, name string) string { return store + ", " + name }

const (
	actors = 10_000
	// ballast brings the counter's encoded state to 200 bytes.
	ballast = 200 - 43
	// many is the number of calls outstanding that keeps every part busy.
	many = 1024
)

// database is a store that is fresh, and whose process can be watched.
type database struct {
	name  string
	dir   string // or
	url   string
	watch map[string]int
}

// onBoth runs f on each store, a fresh one each time, run by run.
func onBoth(b *bar.B, f func(run int, db database)) {
	b.Each(func(run int) { once(b, func(db database) { f(run, db) }) })
}

// once runs f on each store.
func once(b *bar.B, f func(db database)) {
	b.Scope(func() { f(database{name: embeddedStore, dir: b.Folder()}) })
	url, pid := b.Postgres()
	f(database{name: postgresStore, url: url, watch: map[string]int{postgresStore: pid}})
}

// spec is a plan of calls of a method on a store.
func spec(b *bar.B, db database, method string) inhost.Spec {
	return inhost.Spec{
		Dir: db.dir, StoreURL: db.url, Wasm: b.BuildOnce("bench/reminderguest"), StateBytes: ballast, Method: method, Payload: "1",
		Plan: b.Plan(many, actors, db.watch),
	}
}
