package edge

import (
	"fmt"

	"github.com/greenroom-run/greenroom/internal/fair"
	"github.com/greenroom-run/greenroom/server/failure"
)

// Places bounds how many streams of one kind are open. Apps share them.
type Places struct {
	account *fair.Account
	remedy  string // what to do when there are too many
}

// NewPlaces returns places for streams, which the name of the bounds says.
func NewPlaces(b fair.Bounds, remedy string) Places { return Places{fair.NewAccount(b), remedy} }

// RetryLater is the remedy where there is no other.
const RetryLater = "try again when one has left"

// Enter takes a place for an app, which Leave gives back.
func (p *Places) Enter(app string) error {
	if full := p.account.Take(app, 1); full != nil {
		return &failure.Error{Kind: failure.KindStreamFull, Text: fmt.Sprintf("%v; %s", full, p.remedy)}
	}
	return nil
}

// Leave gives a place back.
func (p *Places) Leave(app string) { p.account.Give(app, 1) }

// Taken returns how many places are taken.
func (p *Places) Taken() int64 { return p.account.Used() }
