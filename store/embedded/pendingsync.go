package embedded

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
)

// pendingSync is that of a batch that can be read and is not yet known to be durable.
type pendingSync struct {
	rows marks
	done chan struct{} // closed when it is durable; never, if the store fails first
}

// marks is a set of keys, a Bloom filter: it may take a key for a member that is none, and then
// a read waits for a sync that it need not wait for. With the 256 rows of a large group that is
// one key in 70,000, since reads of 256 reminders are common too, and one app's large groups must
// not hold up what another one reads. A map of the keys would cost more than deciding about their
// rows.
type marks [256]uint64

const (
	marksOfKey = 4
	markBits   = 14 // of the hash: which of the 16,384 bits of marks
)

func (m *marks) add(hash uint64) {
	for range marksOfKey {
		m[hash>>6%uint64(len(m))] |= 1 << (hash % 64)
		hash >>= markBits
	}
}

func (m *marks) has(hash uint64) bool {
	for range marksOfKey {
		if m[hash>>6%uint64(len(m))]&(1<<(hash%64)) == 0 {
			return false
		}
		hash >>= markBits
	}
	return true
}

// pendingSyncs are those of the batches on their way to the disk.
type pendingSyncs struct {
	seed   maphash.Seed
	latest atomic.Pointer[pendingSync] // of the batch applied last, ended or not; nil: none yet

	mu      sync.Mutex
	pending []*pendingSync // in the order in which they are applied; few
}

func (ps *pendingSyncs) hash(key []byte) uint64 { return maphash.Bytes(ps.seed, key) }

// add registers a batch. The writer alone calls it, before it applies the batch: a reader of
// the batch then finds its sync, or the sync has ended.
func (ps *pendingSyncs) add(rows *marks) *pendingSync {
	f := &pendingSync{rows: *rows, done: make(chan struct{})}
	ps.mu.Lock()
	ps.pending = append(ps.pending, f)
	ps.mu.Unlock()
	ps.latest.Store(f)
	return f
}

// end notes that a batch is durable.
func (ps *pendingSyncs) end(f *pendingSync) {
	ps.mu.Lock()
	if at := slices.Index(ps.pending, f); at >= 0 {
		ps.pending = slices.Delete(ps.pending, at, at+1)
	}
	ps.mu.Unlock()
	close(f.done)
}

// covering returns the latest sync of a batch that may have written a row, nil if what is
// stored is durable.
func (ps *pendingSyncs) covering(key []byte) *pendingSync {
	hash := ps.hash(key)
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, f := range slices.Backward(ps.pending) {
		if f.rows.has(hash) {
			return f
		}
	}
	return nil
}
