package server

import (
	"fmt"

	"github.com/greenroom-run/greenroom/internal/fair"
	"github.com/greenroom-run/greenroom/server/failure"
)

// places bounds how many streams of one kind are open. Apps share them.
type places struct {
	account *fair.Account
	remedy  string // what to do when there are too many
}

// newPlaces returns places for streams, which the name of the bounds says.
func newPlaces(b fair.Bounds, remedy string) places { return places{fair.NewAccount(b), remedy} }

// retryLater is the remedy where there is no other.
const retryLater = "try again when one has left"

// enter takes a place for an app, which leave gives back.
func (p *places) enter(app string) error {
	if full := p.account.Take(app, 1); full != nil {
		return &failure.Error{Kind: failure.KindStreamFull, Text: fmt.Sprintf("%v; %s", full, p.remedy)}
	}
	return nil
}

func (p *places) leave(app string) { p.account.Give(app, 1) }
