package node

import "time"

// WithPoll returns the configuration of a node that looks for deployments of others so
// often.
func (c Config) WithPoll(every time.Duration) Config {
	c.pollInterval = every
	return c
}

// WithWall returns the configuration of a node in a cluster whose wall clock is another.
func (c Config) WithWall(clock func(time.Time) time.Duration) Config {
	c.wall = clock
	return c
}

// DatabaseAddresses is databaseAddresses.
func DatabaseAddresses(storeURL string) []string { return databaseAddresses(storeURL) }
