package reminder

import (
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// waitingReminder is one that is due, and that nobody executes.
type waitingReminder struct {
	id actor.ReminderID
	at time.Time // its FireAt
}

// waitingHeap has the reminder that is due for the longest time first.
type waitingHeap []waitingReminder

func (h waitingHeap) Len() int           { return len(h) }
func (h waitingHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h waitingHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements [heap.Interface].
func (h *waitingHeap) Push(x any) { *h = append(*h, x.(waitingReminder)) } //nolint:forcetypeassert // of park

func (h *waitingHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
