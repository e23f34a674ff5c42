package host

// CallMemory returns how many bytes count for Config.CallMemory now.
func (h *Host) CallMemory() int64 { return h.memory.used.Load() }

// StateMemory returns how many bytes count for Config.StateMemory now.
func (h *Host) StateMemory() int64 { return h.table.states.used.Load() }

// QueueDepth returns how many invocations wait in mailboxes now. It looks at
// every activation, a shard at a time: for metrics, not for decisions.
func (h *Host) QueueDepth() int {
	depth := 0
	for i := range h.table.shards {
		s := &h.table.shards[i]
		s.mu.Lock()
		for _, a := range s.actors {
			depth += a.mailbox.len + a.retries.len
		}
		s.mu.Unlock()
	}
	return depth
}
