package host

import "github.com/greenroom-run/greenroom/host/activation"

// CallMemory returns how many bytes count for Config.CallMemory now.
func (h *Host) CallMemory() int64 { return h.memory.Total() }

// StateMemory returns how many bytes count for Config.StateMemory now.
func (h *Host) StateMemory() int64 { return h.table.States.Load() }

// QueueDepth returns how many invocations wait in mailboxes now. It looks at
// every activation, a shard at a time: for metrics, not for decisions.
func (h *Host) QueueDepth() int {
	depth := 0
	h.table.Each(func(a *activation.Activation) { depth += a.Calls.Len() })
	return depth
}
