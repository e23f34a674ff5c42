package host

// CallMemory returns how many bytes count for Config.CallMemory now.
func (h *Host) CallMemory() int64 { return h.memory.Used() + h.memory.common.used.Load() }

// CheckCall returns the error of a call of an app whose payload has so many bytes, if they do not fit
// into Config.CallMemory now; of an empty app, if they would fit for no app.
func (h *Host) CheckCall(app string, bytes int64) error { return h.memory.check(app, callCost+bytes) }

// StateMemory returns how many bytes count for Config.StateMemory now.
func (h *Host) StateMemory() int64 { return h.table.states.used.Load() }

// QueueDepth returns how many invocations wait in mailboxes now. It looks at
// every activation, a shard at a time: for metrics, not for decisions.
func (h *Host) QueueDepth() int {
	depth := 0
	h.table.each(func(a *activation) { depth += a.calls.Len() })
	return depth
}
