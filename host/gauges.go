package host

// QueueDepth returns how many invocations wait in mailboxes now. It looks at
// every activation, a shard at a time: for metrics, not for decisions.
func (h *Host) QueueDepth() int {
	depth := 0
	for i := range h.table.shards {
		s := &h.table.shards[i]
		s.mu.Lock()
		for _, a := range s.actors {
			depth += a.mailbox.len + a.again.len
		}
		s.mu.Unlock()
	}
	return depth
}
