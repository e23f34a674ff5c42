package host

// CallMemory returns how many bytes count for Config.CallMemory now.
func (h *Host) CallMemory() int64 { return h.memory.Total() }

// StateMemory returns how many bytes count for Config.StateMemory now.
func (h *Host) StateMemory() int64 { return h.table.states.Load() }

// QueueDepth returns how many invocations wait in mailboxes now. It looks at
// every activation, a shard at a time: for metrics, not for decisions.
func (h *Host) QueueDepth() int {
	depth := 0
	h.table.each(func(a *activation) { depth += a.Calls.Len() })
	return depth
}
