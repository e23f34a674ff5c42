package fair

import (
	"fmt"
	"sync"
)

// Bounds are the limits of an [Account]. The zero value has none.
type Bounds struct {
	// Name says what is counted, in the plural, for errors: "bytes of uploads".
	Name string
	// Total bounds what all apps have together; zero means no bound.
	Total int64
	// PerApp bounds what one app has; zero means no bound but Total.
	PerApp int64
	// Always is what each app may have whatever others have, even beyond Total.
	Always int64
}

// factor is how many times what is free an app may have.
const factor = 7

// Account shares an amount between apps. All methods may be called concurrently.
type Account struct {
	bounds Bounds

	mu   sync.Mutex
	used int64
	apps map[string]int64 // those that have something
}

// NewAccount returns an account of which nothing is taken.
func NewAccount(b Bounds) *Account { return &Account{bounds: b, apps: make(map[string]int64)} }

// FullError refuses more to an app.
type FullError struct {
	App string
	// Has is what the app has, and Used what all apps have.
	Has, Used int64
	Bounds    Bounds
}

// Error implements error.
func (e *FullError) Error() string {
	if e.Bounds.PerApp > 0 && (e.Bounds.Total == 0 || e.Bounds.PerApp < e.Bounds.Total) {
		return fmt.Sprintf("app %s has %d %s of at most %d", e.App, e.Has, e.Bounds.Name, e.Bounds.PerApp)
	}
	return fmt.Sprintf("app %s has %d %s, all apps together %d of at most %d, and other apps are left a part", e.App, e.Has, e.Bounds.Name, e.Used, e.Bounds.Total)
}

// Take counts n more for an app, or returns a [*FullError] and counts nothing.
func (a *Account) Take(app string, n int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	has := a.apps[app]
	if !a.fits(has, n) {
		return &FullError{App: app, Has: has, Used: a.used, Bounds: a.bounds}
	}
	a.add(app, has+n, n)
	return nil
}

// Add counts n more for an app whatever the bounds are: it is there already.
func (a *Account) Add(app string, n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.add(app, a.apps[app]+n, n)
}

// Give counts n less for an app, which has them.
func (a *Account) Give(app string, n int64) { a.Add(app, -n) }

// Fits reports whether Take would count n more for an app.
func (a *Account) Fits(app string, n int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.fits(a.apps[app], n)
}

// Used returns what all apps have together.
func (a *Account) Used() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.used
}

// Has returns what an app has.
func (a *Account) Has(app string) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.apps[app]
}

func (a *Account) fits(has, n int64) bool {
	b, will := &a.bounds, has+n
	if will <= b.Always {
		return true
	}
	if b.PerApp > 0 && will > b.PerApp {
		return false
	}
	if b.Total == 0 {
		return true
	}
	free := b.Total - a.used - n
	// One more than is free: of a few places, an app may have all.
	return free >= 0 && (has == 0 || (will-1)/factor <= free)
}

func (a *Account) add(app string, will, n int64) {
	a.used += n
	if will == 0 {
		delete(a.apps, app)
		return
	}
	a.apps[app] = will
}
