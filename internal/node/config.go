package node

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/server"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/store/sqlstore"
)

// Config says how to build a node. Exactly one of DataDir and StoreURL chooses
// the store.
type Config struct {
	// DataDir is the folder of the embedded store, made if missing. Only one
	// process at a time can use it.
	DataDir string
	// StoreURL is a CockroachDB or PostgreSQL URL, "postgres://…".
	StoreURL string
	// CacheDir keeps compiled modules. It may be deleted at any time. Defaults to
	// DataDir/cache; with StoreURL, to no cache on disk.
	CacheDir string
	// CacheBytes bounds the folder, ProgramMemory what compiled modules take in
	// memory, of guests and of plug-ins each. Default to 1 GiB and 256 MiB.
	CacheBytes    int64
	ProgramMemory int64
	// MaxStoredModules bounds the modules that an app stores, in bytes. Defaults to 1 GiB.
	MaxStoredModules int64
	// Compilers bounds the processes that compile modules, CompileMemory and
	// CompileTime what each of them may take. Default to 1, 512 MiB and 45 s.
	Compilers     int
	CompileMemory int64
	CompileTime   time.Duration
	// StartTime bounds the start function and _initialize of a guest's instance. Defaults to 5 s.
	StartTime time.Duration

	// Server is the API: where it listens and who may call. The node fills in
	// Host, Modules, Actors, Check, Metrics, Gauges and Logger.
	Server server.Config

	// Limits bound every actor type, Overrides those of an app or of one type,
	// as in [host.Config].
	Limits    host.Limits
	Overrides map[host.Scope]host.Limits
	// SecretsKeyFile has the keys that secrets are encrypted with: package settings.
	// Defaults to DataDir/secrets.key, which is made if it is missing; with
	// StoreURL, to none: no secret can be set.
	SecretsKeyFile string

	// PrivateFiles hold secrets, like tokens: a start warns if other users can read
	// or write them.
	PrivateFiles []string

	// ReadyWhenPrepared says that the node is ready only once the modules that are
	// deployed are compiled. Defaults to being ready before.
	ReadyWhenPrepared bool
	// MaxActivations, StateMemory, CallMemory, GuestMemory and GuestMemoryPerApp bound
	// what is in memory, as in [host.Config]. CallMemory is also what the Server's
	// MaxStreamsBytes and MaxRequestsBytes default to.
	MaxActivations int
	StateMemory    int64
	CallMemory     int64
	GuestMemory    int64

	GuestMemoryPerApp int64
	// RunningTurns bounds the guests that run at the same time ([host.Config], Slots). Defaults
	// to GOMAXPROCS.
	RunningTurns int

	// Pools are the pools of turns, as in [host.Config].
	Pools []host.PoolConfig

	// GuestLog is called for each line that a guest logs, by many goroutines; it
	// must not block. Defaults to writing them to Logger.
	GuestLog func(host.GuestLog)
	// TurnEnd, if it is not nil, is called at the end of each call, by many
	// goroutines; it must be quick.
	TurnEnd func(host.TurnEnd)

	// Cluster makes the node one of those that share the database of StoreURL. Nil: it
	// runs every actor itself, as is right where no other process uses the store.
	Cluster *ClusterConfig
	// Version is the binary's, for people who look at a cluster.
	Version string

	pollInterval time.Duration // as modules.Config has it; tests set it
	// wall is the scheduler's wall clock; nil: the machine's.
	wall func(time.Time) time.Duration

	// Logger defaults to [slog.Default].
	Logger *slog.Logger
}

// WithDefaults returns a copy with the defaults filled in.
func (c Config) WithDefaults() Config {
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.CallMemory > 0 {
		// What is on its way in or out comes to as much again, each.
		c.Server.MaxRequestsBytes = cmp.Or(c.Server.MaxRequestsBytes, c.CallMemory)
		c.Server.MaxStreamsBytes = cmp.Or(c.Server.MaxStreamsBytes, c.CallMemory)
	}
	if c.Server.MaxConnections == 0 {
		c.Server.MaxConnections = connectionsOf(fileLimit())
	}
	if c.CacheDir == "" && c.DataDir != "" {
		c.CacheDir = filepath.Join(c.DataDir, "cache")
	}
	return c
}

// keptFiles are kept from connections of clients: for the store, which keeps up to 1,000 files
// open, uploads, compilers, other servers and what guests connect to.
const keptFiles = 2048

// connectionsOf is how many connections clients may have where so many files may be open; a
// limit of 0 is not known.
func connectionsOf(files uint64) int {
	if files == 0 {
		return edge.DefaultMaxConnections
	}
	return int(min(files-min(files/2, keptFiles), edge.DefaultMaxConnections))
}

// secretsKeyFile is where the keys of secrets are; empty for nowhere.
func (c Config) secretsKeyFile() string {
	if c.SecretsKeyFile == "" && c.DataDir != "" {
		return filepath.Join(c.DataDir, "secrets.key")
	}
	return c.SecretsKeyFile
}

func (c Config) validate() error {
	switch {
	case c.DataDir == "" && c.StoreURL == "":
		return errors.New("node config: no store; give DataDir for the embedded one or StoreURL for a database")
	case c.DataDir != "" && c.StoreURL != "":
		return fmt.Errorf("node config: both DataDir (%s) and StoreURL are given; give one of them", c.DataDir)
	case c.DataDir != "" && c.Cluster != nil:
		return errors.New("node config: the embedded store is for one process alone; give StoreURL to form a cluster")
	}
	return nil
}

// lockedTurns is how many turns of types placed `any` run at once. Each has a place in the host,
// which holds an instance, and a connection of the store. Turns without a connection would only
// keep instances from others. One app may have 16.
const lockedTurns = 18

// databaseConfig returns the store's settings that must agree with the host's.
func (c Config) databaseConfig() sqlstore.Config {
	// The database ends a turn's transaction only after the host should have.
	longest := max(c.Limits.TurnDeadline, host.DefaultLimits().TurnDeadline)
	for _, l := range c.Overrides {
		longest = max(longest, l.TurnDeadline)
	}
	return sqlstore.Config{
		URL: c.StoreURL, Logger: c.Logger, TurnConns: lockedTurns,
		TurnTimeout: min(max(longest+turnGrace, defaultTurnTimeout), sqlstore.MaxTimeout),
	}
}

const (
	turnGrace          = 5 * time.Second
	defaultTurnTimeout = 30 * time.Second
)
