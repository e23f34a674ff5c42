package pipeline

import (
	"cmp"
	"fmt"
	"time"
)

// Config bounds a pipeline. The zero value of a field means its default.
type Config struct {
	// Workers is how many groups of commits may be at the store at once, and how
	// many of loads. Defaults to 4, which keeps PostgreSQL and one node of CockroachDB
	// busy; a cluster takes more, and the embedded store less: [Disk].
	Workers int
	// CallersCommit lets a caller that waits for its own commit anyway bring it to
	// the store, if a worker is free, instead of a goroutine of the pipeline. That
	// saves two changes of goroutine, which an idle machine feels; but a caller
	// whose context ends then waits for as long as the store takes. It is for
	// stores on a disk of this machine. Defaults to false.
	CallersCommit bool
	// GroupRows is the most commits or loads in a group. Defaults to 256.
	GroupRows int
	// GroupBytes is the most bytes of commits in a group, and of states that a
	// group of loads reads; a larger one goes alone. Defaults to 4 MiB, a quarter of the largest message that
	// CockroachDB takes.
	GroupBytes int64
	// QueueRows is the most commits, and the most loads, that wait for a worker.
	// Defaults to 16,384.
	QueueRows int
	// QueueBytes is the most bytes of commits that wait for a worker; an empty
	// queue takes any one. Defaults to 64 MiB.
	QueueBytes int64
	// StallAfter is for how long the store may answer none of the workers before
	// what waits for one, and what comes then, is refused. Defaults to 3 s.
	StallAfter time.Duration
}

// Defaults of [Config].
const (
	DefaultWorkers    = 4
	DefaultGroupRows  = 256
	DefaultGroupBytes = 4 << 20
	DefaultQueueRows  = 16_384
	DefaultQueueBytes = 64 << 20
	DefaultStallAfter = 3 * time.Second
)

// Disk returns the configuration for a store on a disk of this machine, which has one
// log: a second group beside the first only makes both smaller. See bench/README.md,
// "Workers".
func Disk() Config { return Config{CallersCommit: true, Workers: 1} }

// WithDefaults returns a copy of c whose zero fields have their defaults.
func (c Config) WithDefaults() Config {
	c.Workers = cmp.Or(c.Workers, DefaultWorkers)
	c.GroupRows = cmp.Or(c.GroupRows, DefaultGroupRows)
	c.GroupBytes = cmp.Or(c.GroupBytes, DefaultGroupBytes)
	c.QueueRows = cmp.Or(c.QueueRows, DefaultQueueRows)
	c.QueueBytes = cmp.Or(c.QueueBytes, DefaultQueueBytes)
	c.StallAfter = cmp.Or(c.StallAfter, DefaultStallAfter)
	return c
}

// Validate names the first field that cannot work.
func (c Config) Validate() error {
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"Workers", int64(c.Workers)},
		{"GroupRows", int64(c.GroupRows)},
		{"GroupBytes", c.GroupBytes},
		{"QueueRows", int64(c.QueueRows)},
		{"QueueBytes", c.QueueBytes},
		{"StallAfter", int64(c.StallAfter)},
	} {
		if f.value < 0 {
			return fmt.Errorf("%s is %d; give a positive value, or 0 for the default", f.name, f.value)
		}
	}
	return nil
}
