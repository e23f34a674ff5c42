package manifest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/greenroom-run/greenroom/abi"
)

// Bounds of a placement policy: SPEC.md section 3.
const (
	// DefaultPartitions is how many partitions a checkout type has that says nothing.
	DefaultPartitions = 32
	MaxPartitions     = 1024
	MaxStaticHosts    = 256
	// MaxRingHosts is how many hosts may share each range of a ring type.
	MaxRingHosts = 16
	// MaxPlacementLen bounds the text, in bytes.
	MaxPlacementLen = 4096
	// MaxHostNameLen is that of a DNS name.
	MaxHostNameLen = 253
)

// Placement is a placement policy with what it is given: SPEC.md section 3.
type Placement struct {
	Policy string // one of abi.PlacementAny, …
	// Hosts are the names of the hosts of a static type, in the order of its formula.
	Hosts []string
	// Partitions is how many a checkout type has.
	Partitions int
	// RingHosts is how many hosts share each range of a ring type: each of its actors is
	// at one of them, and the others may serve its read-only methods.
	RingHosts int
}

// placements names the policies as people write them.
const placements = "any, ring, ring:SERVERS, sticky, stateless, static:HOST,HOST,… or checkout:PARTITIONS"

// ParsePlacement reads a policy: its name, and behind a colon what it is given. The
// error is the rest of a sentence that begins with the text.
func ParsePlacement(text string) (Placement, error) {
	if len(text) > MaxPlacementLen {
		return Placement{}, fmt.Errorf("has %d bytes; at most %d are allowed", len(text), MaxPlacementLen)
	}
	policy, given, hasGiven := strings.Cut(text, ":")
	p := Placement{Policy: policy}
	switch policy {
	case abi.PlacementAny, abi.PlacementSticky, abi.PlacementStateless:
		if hasGiven {
			return Placement{}, fmt.Errorf("gives the policy %s something behind a colon; write %s alone", policy, policy)
		}
	case abi.PlacementRing:
		p.RingHosts = 1
		if hasGiven {
			n, err := strconv.Atoi(given)
			if err != nil || n < 1 || n > MaxRingHosts || strconv.Itoa(n) != given {
				return Placement{}, fmt.Errorf("has %q for how many servers share a range; give a number from 1 to %d, ring:2, or ring alone for one", shorten(given), MaxRingHosts)
			}
			p.RingHosts = n
		}
	case abi.PlacementStatic:
		p.Hosts = strings.Split(given, ",")
		return p, p.checkHosts()
	case abi.PlacementCheckout:
		p.Partitions = DefaultPartitions
		if hasGiven {
			n, err := strconv.Atoi(given)
			if err != nil || n < 1 || n > MaxPartitions || strconv.Itoa(n) != given {
				return Placement{}, fmt.Errorf("has the partitions %q; give a number from 1 to %d: checkout:%d", shorten(given), MaxPartitions, DefaultPartitions)
			}
			p.Partitions = n
		}
	default:
		return Placement{}, errors.New("is no placement policy; choose one of " + placements)
	}
	return p, nil
}

func (p Placement) checkHosts() error {
	if len(p.Hosts) > MaxStaticHosts {
		return fmt.Errorf("names %d hosts; at most %d are allowed", len(p.Hosts), MaxStaticHosts)
	}
	for i, name := range p.Hosts {
		switch {
		case name == "":
			return errors.New("has no name of a host in a place; write static:a,b,c with the --name of each server")
		case len(name) > MaxHostNameLen:
			return fmt.Errorf("names a host with %d bytes; at most %d are allowed", len(name), MaxHostNameLen)
		case strings.ContainsFunc(name, func(r rune) bool { return !nameRune(r) }):
			return fmt.Errorf("names the host %q; only A-Z a-z 0-9 . _ - are allowed in the --name of a server that a type names", shorten(name))
		case slices.Contains(p.Hosts[:i], name):
			return fmt.Errorf("names the host %q twice; give each one share", name)
		}
	}
	return nil
}

// String returns what [ParsePlacement] reads, the same text for the same policy.
func (p Placement) String() string {
	switch p.Policy {
	case abi.PlacementStatic:
		return p.Policy + ":" + strings.Join(p.Hosts, ",")
	case abi.PlacementCheckout:
		return p.Policy + ":" + strconv.Itoa(p.Partitions)
	case abi.PlacementRing:
		if p.RingHosts > 1 {
			return p.Policy + ":" + strconv.Itoa(p.RingHosts)
		}
	}
	return p.Policy
}
