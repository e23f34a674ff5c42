package routing

import "github.com/greenroom-run/greenroom/internal/fair"

// usage counts calls and the bytes of their payloads. Apps share each account. Its methods may be
// called concurrently.
type usage struct{ calls, bytes *fair.Account }

// newAccount returns an account of total. Each app may always take a 64th of it. Callers may invent
// names of apps, so these shares are bounded: together they add at most total once more.
func newAccount(name string, total int64) *fair.Account {
	return fair.NewAccount(fair.Bounds{Name: name, Total: total, Always: total / 64, Most: total})
}

// take counts a call of an app with so many bytes, or returns the bound that it exceeds. A call
// larger than the bound fits if it is the only one.
func (u *usage) take(app string, bytes int64) error {
	if full := u.calls.Take(app, 1); full != nil {
		return full
	}
	full := u.bytes.Take(app, bytes)
	if full != nil && u.bytes.Used() > 0 {
		u.calls.Give(app, 1)
		return full
	}
	if full != nil {
		u.bytes.Add(app, bytes)
	}
	return nil
}

// give undoes take.
func (u *usage) give(app string, bytes int64) {
	u.calls.Give(app, 1)
	u.bytes.Give(app, bytes)
}

// count returns how many calls there are, and their bytes.
func (u *usage) count() (calls int, bytes int64) { return int(u.calls.Used()), u.bytes.Used() }
