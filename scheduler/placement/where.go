package placement

// Where says where a call of an actor goes. One of its fields is set.
type Where struct {
	// Here: this host holds the actor.
	Here bool
	// Host is the one to send the call to, which may know better.
	Host HostID
	// Wait: nobody is known to hold the actor now. Ask again when it is closed.
	Wait <-chan struct{}
	// Away is the name of the host that alone may hold the actor, and is not there: the
	// call fails, since nobody knows when it comes.
	Away string
	// Lost: this host has tried in vain for long to renew its lease, so that others may
	// hold what it held, and it cannot know who. The call fails here; elsewhere it may not.
	Lost bool
}
