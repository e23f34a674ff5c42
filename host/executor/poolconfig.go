package executor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
)

// The pools that every server has. Guests name the first two in their manifests.
const (
	PoolUser  = abi.PoolUser  // turns, unless their type is elsewhere
	PoolBatch = abi.PoolBatch // turns of slow types
	// PoolSystem has the turns that the host itself asks for: migrations of states for readers.
	PoolSystem = "system"
	// PoolInterconnect has the turns that actors of other hosts call: those actors wait, and are
	// held meanwhile.
	PoolInterconnect = "interconnect"
)

// PoolConfig is one pool of turns.
type PoolConfig struct {
	Name string
	// Concurrency bounds the turns of the pool that have a slot at the same time. Defaults to all
	// slots, and to all but one, if there are several, for PoolBatch.
	Concurrency int
	// Weight is the pool's share of the processors beside the other pools while turns of several
	// wait. Defaults to 1 for PoolBatch, and to 8 for all others.
	Weight int
}

const (
	// MaxPools is how many pools a configuration has at most.
	MaxPools = 32
	// MaxWeight is the highest weight.
	MaxWeight = 1000

	defaultWeight, batchWeight = 8, 1
)

// Pools returns the pools of a host with so many slots: those that every host has, as configured
// or with their defaults, and then the others of configured, in their order.
func Pools(slots int, configured []PoolConfig) ([]PoolConfig, error) {
	pools := []PoolConfig{{Name: PoolSystem}, {Name: PoolInterconnect}, {Name: PoolUser}, {Name: PoolBatch}}
	reserved, seen := len(pools), map[string]bool{}
	for _, cfg := range configured {
		switch {
		case actor.ValidateName("pool", cfg.Name) != nil:
			return nil, actor.ValidateName("pool", cfg.Name)
		case seen[cfg.Name]:
			return nil, fmt.Errorf("pool %s is configured twice; give all that it has at once", cfg.Name)
		case cfg.Concurrency < 0:
			return nil, fmt.Errorf("pool %s has the concurrency %d; give a positive number, or 0 for the default", cfg.Name, cfg.Concurrency)
		case cfg.Weight < 0 || cfg.Weight > MaxWeight:
			return nil, fmt.Errorf("pool %s has the weight %d; give 1 to %d, or 0 for the default", cfg.Name, cfg.Weight, MaxWeight)
		}
		seen[cfg.Name] = true
		if at := slices.IndexFunc(pools[:reserved], func(p PoolConfig) bool { return p.Name == cfg.Name }); at >= 0 {
			pools[at] = cfg
			continue
		}
		pools = append(pools, cfg)
	}
	if len(pools) > MaxPools {
		return nil, fmt.Errorf("%d pools are configured; at most %d are possible", len(pools), MaxPools)
	}
	for i := range pools {
		p := &pools[i]
		if p.Name == PoolBatch && p.Concurrency == 0 {
			p.Concurrency = max(1, slots-1)
		}
		if p.Weight == 0 {
			p.Weight = defaultWeight
			if p.Name == PoolBatch {
				p.Weight = batchWeight
			}
		}
	}
	return pools, nil
}

// UnknownPoolError is the name of a pool that a host does not have.
type UnknownPoolError struct {
	Name  string
	Known []string
}

func (e *UnknownPoolError) Error() string {
	return fmt.Sprintf("there is no pool %q; the pools are %s, and --pool of the server adds others", e.Name, strings.Join(e.Known, ", "))
}
