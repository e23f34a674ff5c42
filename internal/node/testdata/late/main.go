// Command late is a guest that registers a type in a turn, which is too late.
package main

import "github.com/greenroom-run/greenroom/guest-sdk/go/actor"

// Late registers types when it is asked to.
type Late struct{}

// Add registers a type.
func (*Late) Add(_ *actor.Context, name string) (actor.None, error) {
	actor.Register(name, actor.Method("Add", (*Late).Add))
	return actor.None{}, nil
}

func init() { actor.Register("Late", actor.Method("Add", (*Late).Add)) }

func main() {}
