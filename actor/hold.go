package actor

// Hold says whether a host may run an actor that has one place in a cluster.
type Hold uint8

const (
	// NotHeld means that another host may hold the actor. It is neither run here nor answered
	// from memory; see [ErrNotOwner].
	NotHeld Hold = iota
	// Held means that no other host begins a turn of it, but a commit that an earlier one sent
	// may still land. What is answered without a commit is confirmed by the store until
	// a commit of this host has moved the version on.
	Held
	// HeldClean means that all that earlier hosts sent is settled as well.
	HeldClean
)
