package fair

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
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
	// Most bounds the sum of what apps have under Always; zero means no bound. Beyond Most, an
	// app may have what Total leaves. Most is for apps whose names callers can invent: all apps
	// together then have at most Total and Most.
	Most int64
}

// factor: an app may have this many times the amount that is free.
const factor = 7

// Leaves reports whether an app that has so much may take n more; free is what is free afterwards.
// An app that has nothing may take all of a small amount.
func Leaves(has, n, free int64) bool { return has == 0 || (has+n-1)/factor <= free }

// Account shares an amount between apps. An amount that belongs to no app may have a name that
// begins with a slash, since no app's name does: "/requests of other hosts". All methods may be
// called concurrently.
type Account struct {
	bounds Bounds

	mu   sync.Mutex
	used atomic.Int64 // changes under mu alone
	// charged is used without the amounts that Add and Count added beyond the bounds: other
	// apps do not pay for these.
	charged int64
	// always is the sum of what apps have under Bounds.Always.
	always int64
	apps   map[string]int64 // those that have something
}

// NewAccount returns an account from which no app has taken anything.
func NewAccount(b Bounds) *Account { return &Account{bounds: b, apps: make(map[string]int64)} }

// FullError is a refusal to give an app more.
type FullError struct {
	App string
	// Has is what the app has, and Used what all apps have.
	Has, Used int64
	Bounds    Bounds
	// PerApp reports whether Bounds.PerApp was exceeded.
	PerApp bool
}

// Error implements error.
func (e *FullError) Error() string {
	who := "app " + e.App + " has"
	if other, ok := strings.CutPrefix(e.App, "/"); ok {
		who = other + " have"
	} else if e.App == "" {
		who = "callers of all apps have"
	}
	if e.PerApp {
		return fmt.Sprintf("%s %d %s of at most %d", who, e.Has, e.Bounds.Name, e.Bounds.PerApp)
	}
	most := e.Bounds.Total
	if e.Has < e.Bounds.Always {
		most = max(most, e.Bounds.Most)
	}
	return fmt.Sprintf("%s %d %s, all apps together %d of at most %d, and other apps are left a part", who, e.Has, e.Bounds.Name, e.Used, most)
}

// Take counts n more for an app, or returns a [*FullError] and counts nothing.
func (a *Account) Take(app string, n int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.check(app, n); err != nil {
		return err
	}
	a.add(app, n)
	return nil
}

// Count is Take, but counts n also if it returns an error.
func (a *Account) Count(app string, n int64) error {
	err := a.Take(app, n)
	if err != nil {
		a.Add(app, n)
	}
	return err
}

// Add counts n more for an app whatever the bounds are, since the app has it already.
func (a *Account) Add(app string, n int64) {
	if n == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.add(app, n)
}

// Give counts n less for an app, which must have n.
func (a *Account) Give(app string, n int64) { a.Add(app, -n) }

// Check returns what Take would return, and counts nothing.
func (a *Account) Check(app string, n int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.check(app, n)
}

// Over returns a [*FullError] if an app has more than it can take, or all apps together have
// more than Total and the app has more than it may always have.
func (a *Account) Over(app string) error {
	if a.used.Load() <= a.most() { // no app can have too much then
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	has := a.apps[app]
	if a.bounds.Total > 0 && has > a.bounds.Always && (has > a.most() || a.charged > a.bounds.Total) {
		return &FullError{App: app, Has: has, Used: a.used.Load(), Bounds: a.bounds}
	}
	return nil
}

// Used returns what all apps have together.
func (a *Account) Used() int64 { return a.used.Load() }

// Has returns what an app has.
func (a *Account) Has(app string) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.apps[app]
}

func (a *Account) check(app string, n int64) error {
	has := a.apps[app]
	if !a.fits(has, n) {
		return &FullError{App: app, Has: has, Used: a.used.Load(), Bounds: a.bounds, PerApp: a.bounds.PerApp > 0 && has+n > a.bounds.PerApp}
	}
	return nil
}

func (a *Account) fits(has, n int64) bool {
	b, will := &a.bounds, has+n
	if n <= 0 {
		return true
	}
	if will <= b.Always && (b.Most == 0 || a.always+n <= b.Most) {
		return true
	}
	if b.PerApp > 0 && will > b.PerApp {
		return false
	}
	if b.Total == 0 {
		return true
	}
	free := b.Total - a.charged - n
	return free >= 0 && will <= a.most() && Leaves(has, n, free)
}

func (a *Account) add(app string, n int64) {
	has := a.apps[app]
	will := has + n
	a.used.Add(n)
	a.charged += a.charge(will) - a.charge(has)
	a.always += min(will, a.bounds.Always) - min(has, a.bounds.Always)
	if will == 0 {
		delete(a.apps, app)
		return
	}
	a.apps[app] = will
}

// charge returns how much of n, which an app has, counts against other apps.
func (a *Account) charge(n int64) int64 {
	if a.bounds.Total == 0 {
		return n
	}
	return min(n, a.most())
}

// most returns what an app may have if no other app has anything.
func (a *Account) most() int64 { return a.bounds.Total - a.bounds.Total/(factor+1) }
