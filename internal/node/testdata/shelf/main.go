// Command shelf is a guest whose state is a map of structs.
package main

import (
	"time"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
)

// Shelf is the state.
type Shelf struct {
	Items map[string]Item `json:"items"`
	Since time.Time       `json:"since,omitzero"`
}

// Item is one entry.
type Item struct {
	Name     string `json:"name"`
	Quantity int    `json:"quantity,omitzero"`
}

// Put adds an item.
func (s *Shelf) Put(_ *actor.Context, in Item) (int, error) {
	if s.Items == nil {
		s.Items = map[string]Item{}
	}
	s.Items[in.Name] = in
	return len(s.Items), nil
}

// View answers everything.
func (s *Shelf) View(_ *actor.Context, _ actor.None) (Shelf, error) { return *s, nil }

// Empty changes the struct although it is read-only.
func (s *Shelf) Empty(_ *actor.Context, _ actor.None) (int, error) {
	clear(s.Items)
	return len(s.Items), nil
}

// Note is a type with one number.
type Note struct {
	N int `json:"n"`
}

// Get answers the number.
func (n *Note) Get(_ *actor.Context, _ actor.None) (Note, error) { return *n, nil }

func init() {
	actor.Register("Shelf",
		actor.Method("Put", (*Shelf).Put),
		actor.ReadOnly("View", (*Shelf).View),
		actor.ReadOnly("Empty", (*Shelf).Empty),
	)
	actor.Register("Note", actor.ReadOnly("Get", (*Note).Get))
}

func main() {}
