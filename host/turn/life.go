package turn

import (
	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
)

// Life is what turns of a chain have done to the life of one actor.
type Life struct {
	// MethodSet is the set of methods that the actor accepts from now on; nil: as before.
	MethodSet *string
	// PassedAway means that the actor's life is over. Nothing follows in the chain.
	PassedAway bool
	// Created and Activated mean that these hooks have run.
	Created, Activated bool
	// Spawned are the rows of the actors that the turns have spawned.
	Spawned []actor.RowWrite
	// Services are claimed and released, none of them twice.
	Services []actor.ServiceChange
}

// Changes reports whether the actor's row is to be written for it.
func (l *Life) Changes() bool {
	return l.MethodSet != nil || l.PassedAway || l.Created || len(l.Spawned)+len(l.Services) > 0
}

// Spawner names the actors that turns spawn.
type Spawner interface {
	// Spawn returns the row of a new actor of a type: the same one when the turn is run
	// again. problem says why there is none, for people, with a code of [abi.Code].
	Spawn(typ string) (row actor.RowWrite, code abi.Code, problem string)
	// SpawnChild is Spawn of a volatile child of the turn's actor. made is how many children the turn has
	// made before.
	SpawnChild(typ string, sharing bool, made int) (row actor.RowWrite, code abi.Code, problem string)
	// Related reports whether an actor is of the same family as the turn's: its parent or a child, or
	// another child of its parent. One of the two is a volatile child.
	Related(to actor.Key) bool
}
