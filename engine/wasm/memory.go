package wasm

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/tetratelabs/wazero/experimental"

	"github.com/greenroom-run/greenroom/actor"
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
	limit   uint64 // bytes
	size    uint64
	counted uint64 // bytes, by the last count
	heap    uint64 // bytes that the instance takes of Go's heap
	data    []byte // limit bytes; nil once freed
	image   *image // what it is mapped from; nil for a slot
	pinned  bool   // Free leaves it alone

	// refused is the size in bytes of a growth that the limit refused, for
	// telling why a guest trapped afterwards. Cleared at each turn.
	refused uint64

	freed atomic.Bool // the engine's Close may meet the instance's
}

var _ experimental.LinearMemory = (*guestMemory)(nil)

// reserve makes a memory of at most limit bytes; limit is a multiple of the
// page size. With an image it is mapped from that, if the image has a file.
// Errors wrap [actor.ErrOverloaded].
func (p *memoryPool) reserve(limit uint64, img *image) (*guestMemory, error) {
	if err := p.Open(); err != nil {
		return nil, err
	}
	m := &guestMemory{pool: p, limit: limit}
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

// Reallocate implements [experimental.LinearMemory].
func (m *guestMemory) Reallocate(size uint64) []byte {
	if size > m.limit || m.data == nil {
		m.refused = size
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
	if m.image != nil {
		_ = confine.Unmap(m.data) // fails only for a slice that was not mapped
		m.pool.mapped.Add(-1)
	} else {
		m.pool.release(m.data, m.size)
	}
	m.data = nil
	m.pool.Close(m.counted)
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

// count brings what is counted up to date: the pages that the guest has of its
// own, or, where the system does not tell, all that the guest could touch.
func (m *guestMemory) count() {
	if m.data == nil {
		return // closed with its engine
	}
	bytes, ok := m.pool.pages.private(m.data[:m.size])
	if !ok {
		bytes = m.size
	}
	bytes += m.heap
	m.pool.Resize(m.counted, bytes)
	m.counted = bytes
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
