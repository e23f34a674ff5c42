package embedded

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
)

// flight is a batch that can be read and is not yet known to be durable.
type flight struct {
	rows marks
	done chan struct{} // closed when it is durable; never, if the store fails first
}

// marks is a set of keys that may take a key for a member that is none: a read
// then waits for a flight that it need not wait for, once in sixteen times or so
// with a group of the usual size. A map of the keys would cost more than deciding
// about their rows.
type marks [64]uint64

func (m *marks) at(hash uint64) (word *uint64, bit uint64) {
	return &m[hash>>6%uint64(len(m))], 1 << (hash % 64)
}

func (m *marks) add(hash uint64) {
	word, bit := m.at(hash)
	*word |= bit
}

func (m *marks) has(hash uint64) bool {
	word, bit := m.at(hash)
	return *word&bit != 0
}

// flights are the batches on their way to the disk.
type flights struct {
	seed   maphash.Seed
	latest atomic.Pointer[flight] // the one applied last, landed or not; nil: none yet

	mu     sync.Mutex
	flying []*flight // in the order in which they are applied; few
}

func (fs *flights) hash(key []byte) uint64 { return maphash.Bytes(fs.seed, key) }

// takeOff registers a batch. The writer alone calls it, before it applies the batch: a reader
// of the batch then finds the flight, or the flight has landed.
func (fs *flights) takeOff(rows *marks) *flight {
	f := &flight{rows: *rows, done: make(chan struct{})}
	fs.mu.Lock()
	fs.flying = append(fs.flying, f)
	fs.mu.Unlock()
	fs.latest.Store(f)
	return f
}

// land says that a flight is durable.
func (fs *flights) land(f *flight) {
	fs.mu.Lock()
	if at := slices.Index(fs.flying, f); at >= 0 {
		fs.flying = slices.Delete(fs.flying, at, at+1)
	}
	fs.mu.Unlock()
	close(f.done)
}

// over returns the latest flight that may be over a row, nil if what is stored is
// durable.
func (fs *flights) over(key []byte) *flight {
	hash := fs.hash(key)
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range slices.Backward(fs.flying) {
		if f.rows.has(hash) {
			return f
		}
	}
	return nil
}
