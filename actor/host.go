package actor

import "time"

// HostID names one incarnation of a host process: it is random, and a process that
// starts again is another host.
type HostID string

// Host is a process that takes part in a cluster, as the others see it.
type Host struct {
	ID HostID
	// Name is what people call it, the same for all incarnations; need not be unique.
	Name string
	// Cluster is the name of the cluster that it means to join.
	Cluster string
	// Address is where other hosts reach it, host:port.
	Address string
	// Roles are what it does: "host" runs actors, "scheduler" may lead.
	Roles []string
	// Version is the binary's, for people; MinProtocol and MaxProtocol are what it
	// speaks between hosts.
	Version                  string
	MinProtocol, MaxProtocol int
	// Sticky is how many sticky actors it owned when its row was renewed last.
	Sticky int
	// StartedAt and ExpiresAt are database times, set by the store.
	StartedAt, ExpiresAt time.Time
}

// Lease is the exclusive use of a name for a time.
type Lease struct {
	Name   string
	Holder HostID
	// Epoch counts how often the lease was taken: what an earlier holder does can be
	// told from what this one does.
	Epoch uint64
	// ExpiresAt is database time.
	ExpiresAt time.Time
}
