package main

import (
	"math"
	"slices"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/node"
	"github.com/greenroom-run/greenroom/scheduler/placement"
)

// clusterFlags are those that say something only of a server that shares its database.
var clusterFlags = []string{
	"cluster-name", "name", "advertise", "advertise-api", "cluster-listen", "roles", "lease",
	"cluster-key-file", "cluster-cert", "cluster-cert-key", "cluster-ca", "max-owned", "owner-cache", "weight",
}

func registerCluster(flags *pflag.FlagSet, f *node.ClusterConfig) {
	flags.StringVar(&f.Name, "cluster-name", node.DefaultCluster, "`name` of the cluster that the servers of one database form (GREENROOM_CLUSTER_NAME)")
	flags.StringVar(&f.HostName, "name", "", "`name` of this server, for people (GREENROOM_NAME; default: the machine's)")
	flags.StringVar(&f.Advertise, "advertise", "", "`HOST:PORT` at which the other servers reach this one (GREENROOM_ADVERTISE; default: where it listens, or the address of this machine that leads to the database)")
	flags.StringVar(&f.AdvertiseAPI, "advertise-api", "", "`HOST:PORT` at which clients reach this server, as replies name it (GREENROOM_ADVERTISE_API; default without TLS: as --advertise, with the port of --listen; with TLS: none)")
	flags.StringVar(&f.Listen, "cluster-listen", "", "`HOST:PORT` to listen on for the other servers alone (default: --listen)")
	flags.StringSliceVar(&f.Roles, "roles", nil, "`roles` of this server: host runs actors, scheduler may lead (default both)")
	flags.DurationVar(&f.Lease, "lease", 0, "how long the actors of a server that crashed wait; the same on all servers (default 3s)")
	flags.StringVar(&f.KeyFile, "cluster-key-file", "", "`file` with the secret of the cluster, the same on all servers: 32 random bytes or more (GREENROOM_CLUSTER_KEY_FILE; not needed on loopback)")
	flags.StringVar(&f.Files.Cert, "cluster-cert", "", "`file` with the certificate that this server shows to the others, instead of --cluster-key-file")
	flags.StringVar(&f.Files.Key, "cluster-cert-key", "", "`file` with its private key")
	flags.StringVar(&f.Files.CA, "cluster-ca", "", "`file` with the authorities of all servers' certificates")
	flags.BoolVar(&f.Sticky, "sticky", false, "make types placed ring sticky: those of --sticky-types, or all; a single server holds all actors anyway")
	flags.StringSliceVar(&f.StickyTypes, "sticky-types", nil, "the `types` that --sticky is for (default all)")
	flags.Float64Var(&f.Weight, "weight", 0, "share of new sticky actors that this server gets, a `number` where 1 is the mean (default by its processors and --max-memory)")
	flags.IntVar(&f.OwnerCache, "owner-cache", 0, "largest `number` of owners of sticky actors that this server remembers, some 300 B each (default 262144)")
	flags.IntVar(&f.MaxOwned, "max-owned", 0, "largest `number` of sticky actors that this server owns (default 1000000)")
}

// clusterConfig returns how the server takes part in a cluster; nil without a database.
func clusterConfig(c *cli, flags *pflag.FlagSet, f serveFlags) (*node.ClusterConfig, error) {
	if len(f.cluster.StickyTypes) > 0 && !f.cluster.Sticky {
		return nil, usagef("--sticky-types needs --sticky")
	}
	if f.store == "" {
		for _, name := range clusterFlags {
			if flags.Changed(name) {
				return nil, usagef("--%s is for servers that share a database; give its URL with --store", name)
			}
		}
		return nil, nil //nolint:nilnil // alone
	}
	cfg := f.cluster
	c.fromEnv(flags, "cluster-name", "GREENROOM_CLUSTER_NAME", &cfg.Name)
	c.fromEnv(flags, "name", "GREENROOM_NAME", &cfg.HostName)
	c.fromEnv(flags, "advertise", "GREENROOM_ADVERTISE", &cfg.Advertise)
	c.fromEnv(flags, "advertise-api", "GREENROOM_ADVERTISE_API", &cfg.AdvertiseAPI)
	c.fromEnv(flags, "cluster-key-file", "GREENROOM_CLUSTER_KEY_FILE", &cfg.KeyFile)
	// What a server of an earlier version speaks: for tests of upgrades, and no flag.
	if v := c.getenv("GREENROOM_CLUSTER_PROTOCOL"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil {
			return nil, usagef("GREENROOM_CLUSTER_PROTOCOL is %q; give a number, or leave it unset", v)
		}
		cfg.MaxProtocol = n
	}
	files := []string{cfg.Files.Cert, cfg.Files.Key, cfg.Files.CA}
	given := slices.ContainsFunc(files, func(s string) bool { return s != "" })
	switch {
	case given && slices.Contains(files, ""):
		return nil, usagef("--cluster-cert, --cluster-cert-key and --cluster-ca go together; give all three")
	case given && cfg.KeyFile != "":
		return nil, usagef("--cluster-key-file and --cluster-cert both say how servers prove that they belong together; give one of them")
	}
	if err := actor.ValidateName("--cluster-name", cfg.Name); err != nil {
		return nil, usagef("%v", err)
	}
	if math.IsNaN(cfg.Weight) || cfg.Weight < 0 || cfg.Weight > placement.MaxGivenWeight {
		return nil, usagef("--weight is %v; give a number up to %d, or 0 to have it measured", cfg.Weight, placement.MaxGivenWeight)
	}
	for _, r := range cfg.Roles {
		if r != "host" && r != "scheduler" {
			return nil, usagef("--roles has %q; give host, scheduler or both", r)
		}
	}
	return &cfg, nil
}
