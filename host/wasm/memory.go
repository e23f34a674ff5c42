package wasm

import (
	"fmt"
	"sync/atomic"

	"github.com/tetratelabs/wazero/experimental"

	"github.com/greenroom-run/greenroom/actor"
)

const pageSize = 64 << 10

// memoryPool hands out guest memories and counts them. One memory is one
// mapping of the operating system, whose number is limited.
type memoryPool struct {
	max   int64
	count atomic.Int64
	bytes atomic.Int64 // what guests hold now
}

// guestMemory is the linear memory of one instance. It reserves address space
// up to its limit once, so that growing neither moves nor copies, and costs
// what the guest touches. One goroutine uses it, as wazero does.
type guestMemory struct {
	pool  *memoryPool
	limit uint64 // bytes
	size  uint64
	data  []byte // reserved; nil once freed

	// refused is the size in bytes of a growth that the limit refused, for
	// telling why a guest trapped afterwards. Cleared at each turn.
	refused uint64

	freed atomic.Bool // the engine's Close may meet the instance's
}

var _ experimental.LinearMemory = (*guestMemory)(nil)

// reserve makes a memory of at most limit bytes; limit is a multiple of the
// page size. Errors wrap [actor.ErrOverloaded].
func (p *memoryPool) reserve(limit uint64) (*guestMemory, error) {
	if p.count.Add(1) > p.max {
		p.count.Add(-1)
		return nil, fmt.Errorf("%d guest instances are open, the most that this host is set to: %w", p.max, actor.ErrOverloaded)
	}
	data, err := mapMemory(limit)
	if err != nil {
		p.count.Add(-1)
		return nil, fmt.Errorf("reserve %d bytes of guest memory: %w: %w", limit, err, actor.ErrOverloaded)
	}
	return &guestMemory{pool: p, limit: limit, data: data}, nil
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
	m.pool.bytes.Add(int64(size) - int64(m.size))
	m.size = size
	return m.data[:size]
}

// Free implements [experimental.LinearMemory]. It is safe twice.
func (m *guestMemory) Free() {
	if m.freed.Swap(true) {
		return
	}
	unmapMemory(m.data)
	m.data = nil
	m.pool.bytes.Add(-int64(m.size))
	m.pool.count.Add(-1)
}
