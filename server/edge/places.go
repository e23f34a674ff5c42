package edge

import (
	"fmt"
	"sync/atomic"

	"github.com/greenroom-run/greenroom/server/failure"
)

// Places bounds how many streams of one kind are open.
type Places struct {
	Limit  int64
	What   string // which streams, for the error
	Remedy string // what to do when there are too many
	Taken  atomic.Int64
}

// RetryLater is the remedy where there is no other.
const RetryLater = "try again when one has left"

// Enter takes a place, which leave gives back.
func (p *Places) Enter() error {
	if p.Taken.Add(1) > p.Limit {
		p.Taken.Add(-1)
		return &failure.Error{Kind: failure.KindStreamFull, Text: fmt.Sprintf("the server has %d %s; %s", p.Limit, p.What, p.Remedy)}
	}
	return nil
}

func (p *Places) Leave() { p.Taken.Add(-1) }
