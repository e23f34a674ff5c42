package host

// CallsInCommon and CallsOf return what is taken of Config.CallMemory, by whoever came first and by
// an app.
func (h *Host) CallsInCommon() int64     { return h.memory.Total() - h.memory.Used() }
func (h *Host) CallsOf(app string) int64 { return h.memory.Has(app) }
