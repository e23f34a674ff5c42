package stream

import "sync"

// dispatcher is the part of a stream that hands its tasks to the host. Its fields are
// guarded by the stream's mu.
type dispatcher struct {
	workers   sync.WaitGroup // added to while the stream is not closed
	idle      int            // workers that wait for taskReady
	maxIdle   int            // as many as can run at once and one on its way: their stacks have grown
	waking    bool           // one was woken or started and has not looked at what is pending yet
	taskReady sync.Cond      // a task is pending, or the stream is closed
}

// wake makes a worker look at what is pending. Its caller holds mu.
func (st *stream) wake() {
	if st.waking || st.tasks.pending == nil {
		return // the one on its way will wake the next
	}
	st.waking = true
	if st.idle > 0 {
		st.taskReady.Signal()
		return
	}
	st.workers.Go(st.work)
}

// work hands tasks to the host until the stream is closed, or enough others wait.
func (st *stream) work() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.waking = false
	for {
		for st.tasks.pending == nil {
			if st.closed || st.idle == st.maxIdle {
				return
			}
			st.idle++
			st.taskReady.Wait()
			st.idle--
			st.waking = false
		}
		t := st.tasks.pop()
		if t.stage != taskPending {
			continue // it was ended while it waited
		}
		t.stage = taskStarting
		st.wake() // the host may block
		st.mu.Unlock()
		begun := t.begin()
		st.mu.Lock()
		if t.stage == taskDone {
			continue // its answer came while it began
		}
		t.stage, t.begun = taskBegun, begun
		if t.context.ended() { // while it began
			st.mu.Unlock()
			begun.GiveUp()
			st.mu.Lock()
		}
	}
}
