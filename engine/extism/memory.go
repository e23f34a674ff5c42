package extism

import (
	"fmt"

	"github.com/tetratelabs/wazero/experimental"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/engine/confine"
)

// memories are those of one instance: the kernel's and the plug-in's, under one
// limit. Each reserves address space up to the limit once, so that growing
// neither moves nor copies, and costs what is touched. One goroutine uses it.
type memories struct {
	account *confine.Account
	memory  engine.Memory // of the app
	limit   uint64        // bytes, of both together
	size    uint64        // of both together
	// refused is the size in bytes that both would have had after a growth that
	// the limit refused, for telling why a plug-in trapped afterwards.
	refused uint64
	short   bool // the app's memory refused one
	parts   [2]linearMemory
	taken   int
	closed  bool
}

// linearMemory is one of them.
type linearMemory struct {
	all  *memories
	size uint64
	data []byte // reserved
}

var _ experimental.LinearMemory = (*linearMemory)(nil)

// reserve makes the memories of an instance. Errors wrap [actor.ErrOverloaded].
func reserve(account *confine.Account, memory engine.Memory, limit uint64) (*memories, error) {
	if err := account.Open(); err != nil {
		return nil, err
	}
	m := &memories{account: account, memory: memory, limit: limit}
	for n := range m.parts {
		data, err := confine.Map(limit)
		if err != nil {
			m.release()
			return nil, fmt.Errorf("reserve %d bytes of guest memory: %w: %w", limit, err, actor.ErrOverloaded)
		}
		m.parts[n] = linearMemory{all: m, data: data}
	}
	return m, nil
}

// Allocate implements [experimental.MemoryAllocator]. It is called for the
// kernel first, then for the plug-in if that has a memory.
func (m *memories) Allocate(_, _ uint64) experimental.LinearMemory {
	if m.taken == len(m.parts) {
		return &linearMemory{all: m} // a module has one memory at most: nothing to give
	}
	m.taken++
	return &m.parts[m.taken-1]
}

func (l *linearMemory) Reallocate(size uint64) []byte {
	m := l.all
	total := m.size - l.size + size
	if total > m.limit || size > uint64(len(l.data)) {
		m.refused = max(m.refused, total)
		return nil
	}
	if size > l.size && !m.memory.Take(int64(size-l.size)) { // it never shrinks
		m.short = true
		return nil
	}
	m.account.Resize(l.size, size)
	l.size, m.size = size, total
	return l.data[:size]
}

// errShort is a plug-in whose app has no more memory.
func errShort(what string) error {
	return fmt.Errorf("%s: %w: guests use all of the memory that they may have", what, actor.ErrOverloaded)
}

// Free implements [experimental.LinearMemory]. It does nothing: wazero calls it
// as soon as a module is closed, and the SDK may still look at the memory of one
// that the end of a context has closed. [memories.release] frees.
func (l *linearMemory) Free() {}

// release unmaps both. It is safe twice; the instance's code must not run.
func (m *memories) release() {
	if m.closed {
		return
	}
	m.closed = true
	for n := range m.parts {
		_ = confine.Unmap(m.parts[n].data) // fails only for what Map did not give
		m.parts[n].data = nil
	}
	m.account.Close(m.size)
	m.memory.Give(int64(m.size))
	m.size = 0
}
