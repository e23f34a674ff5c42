package confine

import (
	"fmt"
	"sync/atomic"

	"github.com/greenroom-run/greenroom/actor"
)

// PageSize is that of a guest's memory.
const PageSize = 64 << 10

// Account counts the instances of an engine and the memory that they hold. All
// methods may be called concurrently.
type Account struct {
	// Max is the most instances. Set before use.
	Max int64

	instances atomic.Int64
	bytes     atomic.Int64
}

// Open counts one more instance. Its error wraps [actor.ErrOverloaded].
func (a *Account) Open() error {
	if a.instances.Add(1) > a.Max {
		a.instances.Add(-1)
		return fmt.Errorf("%d instances are open, the most that this host is set to: %w", a.Max, actor.ErrOverloaded)
	}
	return nil
}

// Close counts one less, which had so many bytes.
func (a *Account) Close(bytes uint64) {
	a.bytes.Add(-int64(bytes))
	a.instances.Add(-1)
}

// Resize says that an instance, which had so many bytes, now holds others.
func (a *Account) Resize(before, now uint64) { a.bytes.Add(int64(now) - int64(before)) }

// Instances is how many are open.
func (a *Account) Instances() int64 { return a.instances.Load() }

// Bytes is what they hold.
func (a *Account) Bytes() int64 { return a.bytes.Load() }
