// Package activation keeps the actors that are in a host's memory. It finds, makes and evicts them,
// shares their states with the commits under way, and decides which actors this host may run and
// which answers their states support. It starts no goroutine and runs no turn: packages worker and
// lane do, under the locks of the shards.
//
//	Table       finds activations, makes them and evicts them
//	Ownership   decides which activations may exist, and what they may answer
//	Shard       the activations that share a lock, and the calls that run on them
//	Activation  the presence of one actor in memory
//	Chain       a turn and the turns that it calls, of several activations
//	Batch       what one commit has of the turns of its activations
//
// The data of the last four is in shard.go, since each of them names the others; their methods are in
// files named after them.
//
// # Who runs an actor
//
//   - [Ownership.Admits] decides for every call whether this host may run it, under the lock
//     under which the call gets its place. An activation that is in the table and does not
//     leave is held: [Cluster] is asked only where there is no such activation.
//   - [Table.Activate] makes every activation. [Table.Remove] ends an activation that has no
//     work, after the turns that it was given. Handing an actor over lets its activation
//     reach that point.
//   - [Ownership.CurrentSince] decides whether an answer needs the store. Package residency
//     has what was in memory, and what is known to be newer.
//
// # What is current
//
// What a host has in memory is surely current only at the moment of a commit or of a
// read. Where no other process writes to the store, it stays current permanently; where
// this host holds the actor, for as long as the host's lease lasts. Otherwise an answer
// that no commit proves is given only on a state that was current after some moment. For
// reads and for a turn that changed nothing, this moment is [actor.MaxReadAge] before the
// call began. For a failure, for the news that there is no actor and for what leaves the
// host, the moment is the beginning of the call. If the host does not know yet whether
// the state was current then, it asks the store for the row's version, together with
// those of other actors.
//
// The lease is checked after the fact: what was in memory, or was read, before the lease
// was found to last was there before anybody else was given the actor. So nothing builds
// on what a host learns after it has lost an actor, and would write over.
package activation
