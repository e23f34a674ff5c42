package wasm

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/tetratelabs/wazero/experimental"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/engine/confine"
)

const (
	// arenaBytes is how much address space is reserved at a time.
	arenaBytes = 16 << 30
	// maxMapped bounds the memories that are mapped from an image's file, two
	// mappings each: beyond it they are copied. It leaves most of the 65,530
	// mappings that Linux grants a process to others.
	maxMapped = 8_000
	// copiedBytes is up to where writing all of a memory anew is cheaper than
	// having the kernel drop it and fault it in again, if the kernel does not tell
	// what of it is there.
	copiedBytes = 256 << 10
)

// memoryPool hands out guest memories and counts them. A mapping each would run
// into the operating system's limit on mappings, so that they are slots of a few
// large reservations: address space costs nothing until it is touched.
type memoryPool struct {
	confine.Account // of what guests hold, as last counted

	mapped atomic.Int64
	pages  *pagemap

	mu     sync.Mutex
	slots  map[uint64][][]byte // free ones by their size; all of them read as zero
	arenas [][]byte
}

// guestMemory is the linear memory of one instance. Address space up to its
// limit is its own, so that growing neither moves nor copies, and costs what the
// guest touches. One goroutine uses it, as wazero does.
type guestMemory struct {
	pool    *memoryPool
	account engine.Memory
	limit   uint64        // bytes
	size    uint64        // what the guest can touch
	counted atomic.Uint64 // bytes, at least what the instance holds
	heap    uint64        // bytes that the instance takes of Go's heap
	data    []byte        // limit bytes; nil once freed
	image   *image        // what it is mapped from; nil for a slot
	pinned  bool          // Free leaves it alone

	// refused is the size in bytes of a growth that the limit refused, for
	// telling why a guest trapped afterwards; short says that it was the account
	// that refused one. Cleared at each turn.
	refused uint64
	short   bool

	// While a turn runs, all that it can touch is counted. Between turns, and while
	// it waits for the host, anybody may have the kernel say what is touched.
	counting sync.Mutex // held while the guest may run
	running  bool       // and its goroutine holds counting

	freed atomic.Bool // the engine's Close may meet the instance's
}

var _ experimental.LinearMemory = (*guestMemory)(nil)

// reserve makes a memory of at most limit bytes; limit is a multiple of the
// page size. With an image it is mapped from that, if the image has a file. The
// account has what the instance starts with: heap bytes of Go's, and size of memory.
// Errors wrap [actor.ErrOverloaded].
func (p *memoryPool) reserve(account engine.Memory, heap, size, limit uint64, img *image) (*guestMemory, error) {
	if err := p.Open(); err != nil {
		return nil, err
	}
	m := &guestMemory{pool: p, account: account, heap: heap, limit: limit}
	if !m.take(size) {
		p.Close(0)
		return nil, m.errShort()
	}
	var err error
	if img != nil && img.file != nil {
		if p.mapped.Add(1) <= maxMapped {
			m.image = img
			m.data, err = img.file.mapPrivate(limit)
		} else {
			p.mapped.Add(-1)
		}
	}
	if m.image == nil {
		m.data, err = p.allocate(limit)
	}
	if err != nil {
		m.count(0)
		p.Close(0)
		if m.image != nil {
			p.mapped.Add(-1)
		}
		return nil, fmt.Errorf("reserve %d bytes of guest memory: %w: %w", limit, err, actor.ErrOverloaded)
	}
	return m, nil
}

// allocate returns a slot of zeros.
func (p *memoryPool) allocate(size uint64) ([]byte, error) {
	if size == 0 {
		return []byte{}, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.slots[size]) == 0 {
		n := max(1, arenaBytes/size)
		arena, err := confine.Map(n * size)
		for err != nil && n > 1 { // little address space: ask for less of it
			n /= 4
			arena, err = confine.Map(max(1, n) * size)
		}
		if err != nil {
			return nil, err
		}
		if p.slots == nil {
			p.slots = map[uint64][][]byte{}
		}
		p.arenas = append(p.arenas, arena)
		for at := uint64(len(arena)); at > 0; at -= size { // the first slot is given out first
			p.slots[size] = append(p.slots[size], arena[at-size:at:at])
		}
	}
	free := p.slots[size]
	slot := free[len(free)-1]
	p.slots[size] = free[:len(free)-1]
	return slot, nil
}

// release takes a slot back.
func (p *memoryPool) release(slot []byte, touched uint64) {
	if len(slot) == 0 {
		return
	}
	if err := dropMemory(slot[:touched]); err != nil {
		clear(slot[:touched])
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slots[uint64(len(slot))] = append(p.slots[uint64(len(slot))], slot)
}

// unmap gives the address space back. No memory may be in use.
func (p *memoryPool) unmap() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	for _, a := range p.arenas {
		err = errors.Join(err, confine.Unmap(a))
	}
	p.arenas, p.slots = nil, nil
	p.pages.close()
	return err
}

// Allocate implements [experimental.MemoryAllocator]: the instance's one memory
// is this. The limit may be below the maximum that the module declares.
func (m *guestMemory) Allocate(_, _ uint64) experimental.LinearMemory { return m }

func (m *guestMemory) Reallocate(size uint64) []byte {
	if size > m.limit || m.data == nil {
		m.refused = size
		return nil
	}
	if !m.take(size) {
		m.short = true
		return nil
	}
	m.size = size
	return m.data[:size]
}

// Free implements [experimental.LinearMemory]. It is safe twice.
func (m *guestMemory) Free() {
	if m.pinned || m.freed.Swap(true) {
		return
	}
	if !m.running { // wazero frees the memory of a guest that it cannot start
		m.counting.Lock()
		defer m.counting.Unlock()
	}
	if m.image != nil {
		_ = confine.Unmap(m.data) // fails only for a slice that was not mapped
		m.pool.mapped.Add(-1)
	} else {
		m.pool.release(m.data, m.size)
	}
	m.data = nil
	m.count(0)
	m.pool.Close(0)
}

// wipe makes the memory as it was reserved, and empty.
func (m *guestMemory) wipe() {
	m.drop()
	m.size = 0
}

// What an instance takes of Go's heap, about: in any case, and for each element that
// its tables have, or can come to have.
const (
	instanceBytes = 3 << 10
	elementBytes  = 8
)

// begin readies the account for a turn, which can touch all of the memory. After an
// error, which wraps [actor.ErrOverloaded], the turn cannot run.
func (m *guestMemory) begin() error {
	m.counting.Lock()
	m.running = true
	if m.take(m.size) {
		return nil
	}
	m.end()
	return m.errShort()
}

// end ends what begin began.
func (m *guestMemory) end() {
	m.running = false
	m.counting.Unlock()
}

// idle runs a part of a turn in which the host waits and nothing touches the memory.
func (m *guestMemory) idle(wait func()) error {
	func() {
		m.end()
		defer func() {
			m.counting.Lock()
			m.running = true
		}()
		wait()
	}()
	if !m.take(m.size) {
		return m.errShort()
	}
	return nil
}

func (m *guestMemory) errShort() error {
	return fmt.Errorf("%w: guests use all of the memory that they may have", actor.ErrOverloaded)
}

// take counts a memory of size bytes, assuming that the guest touches all of it.
func (m *guestMemory) take(size uint64) bool {
	want, counted := size+m.heap, m.counted.Load()
	if want <= counted {
		return true
	}
	if !m.account.Take(int64(want - counted)) {
		return false
	}
	m.pool.Resize(counted, want)
	m.counted.Store(want)
	return true
}

// count says what the instance holds, at most what is counted.
func (m *guestMemory) count(bytes uint64) {
	counted := m.counted.Load()
	if bytes >= counted {
		return
	}
	m.counted.Store(bytes)
	m.pool.Resize(counted, bytes)
	m.account.Give(int64(counted - bytes))
}

// settle counts the pages that the guest has of its own. It reports false, having done
// nothing, while a turn runs. Where the system does not tell, all that was counted
// stays.
func (m *guestMemory) settle() bool {
	if !m.counting.TryLock() {
		return false
	}
	defer m.counting.Unlock()
	if m.data == nil {
		return true // closed
	}
	if bytes, ok := m.pool.pages.private(m.data[:m.size]); ok {
		m.count(bytes + m.heap)
	}
	return true
}

// drop makes what the guest has what it was reserved as: the content of the
// image that it is mapped from, or zeros.
func (m *guestMemory) drop() {
	if err := dropMemory(m.data[:m.size]); err != nil {
		clear(m.data[:m.size])
	}
}

// load gives the memory, as large as the image and fresh, the image's content.
func (m *guestMemory) load(img *image) {
	if m.image == nil {
		img.write(m.data)
	}
}

// restore gives the memory, as large as the image, the image's content whatever
// it has now. Where the kernel tells which pages the guest has, those are written:
// a few, of a memory that is mostly untouched.
func (m *guestMemory) restore(img *image) {
	switch {
	case m.pool.pages.undo(m.data[:m.size], img):
	case m.image != nil || m.size > copiedBytes:
		m.drop()
		m.load(img)
	default:
		img.overwrite(m.data, 0, m.size)
	}
}
