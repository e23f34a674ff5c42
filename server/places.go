package server

import (
	"fmt"
	"sync/atomic"

	"github.com/greenroom-run/greenroom/server/failure"
)

// places bounds how many streams of one kind are open.
type places struct {
	limit  int64
	what   string // which streams, for the error
	remedy string // what to do when there are too many
	taken  atomic.Int64
}

// retryLater is the remedy where there is no other.
const retryLater = "try again when one has left"

// enter takes a place, which leave gives back.
func (p *places) enter() error {
	if p.taken.Add(1) > p.limit {
		p.taken.Add(-1)
		return &failure.Error{Kind: failure.KindStreamFull, Text: fmt.Sprintf("the server has %d %s; %s", p.limit, p.what, p.remedy)}
	}
	return nil
}

func (p *places) leave() { p.taken.Add(-1) }
