package node

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/server"
)

// Config says how to build a node. Exactly one of DataDir and StoreURL chooses
// the store.
type Config struct {
	// DataDir is the folder of the embedded store, made if missing. Only one
	// process at a time can use it.
	DataDir string
	// StoreURL is a CockroachDB or PostgreSQL URL, "postgres://…".
	StoreURL string
	// CacheDir keeps compiled modules. It may be deleted at any time.
	// Defaults to DataDir/cache, or with StoreURL to no cache on disk.
	CacheDir string

	// Server is the API: where it listens, who may call. Its Host, Modules,
	// Actors, Ready and Metrics fields are filled in by the node.
	Server server.Config

	// Limits are the host's limits for every app and type; zero fields mean the
	// defaults of package host.
	Limits host.Limits
	// TypeLimits replace Limits for one app and actor type each; fields left
	// zero fall back to Limits.
	TypeLimits map[host.TypeName]host.Limits
	// IdleTimeout is how long an activation stays in memory unused.
	// Defaults to the host's own.
	IdleTimeout time.Duration
	// MaxActivations bounds the activations in memory. Defaults to the host's own.
	MaxActivations int

	// GuestLog is called for each line that a guest logs, beside Logger, by
	// many goroutines. It must not block. Optional.
	GuestLog func(host.GuestLog)

	// Logger defaults to slog.Default.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.CacheDir == "" && c.DataDir != "" {
		c.CacheDir = filepath.Join(c.DataDir, "cache")
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.DataDir == "" && c.StoreURL == "":
		return errors.New("node: no store: give a data folder for the embedded store or a database URL")
	case c.DataDir != "" && c.StoreURL != "":
		return fmt.Errorf("node: both a data folder (%s) and a database URL: give one of them", c.DataDir)
	}
	return nil
}
