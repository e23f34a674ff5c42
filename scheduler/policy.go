package scheduler

import (
	"slices"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/abi/manifest"
)

// stickyPolicy is the policy of sticky types.
const stickyPolicy = abi.PlacementSticky

// held reports whether the actors of a policy have one place each.
func held(policy string) bool {
	return policy != abi.PlacementAny && policy != abi.PlacementStateless
}

// tabled reports whether the leader gives the hosts of a policy what they hold: it does
// for all that are held but checkout.
func tabled(policy string) bool { return held(policy) && !isCheckout(policy) }

// byRanges reports whether the hosts of a policy hold ranges that the leader gives them,
// and nothing else: from one such policy to another, only what moves is handed over.
func byRanges(policy string) bool {
	return tabled(policy) && policy != "" && policy != stickyPolicy
}

// parsed returns a policy with what it is given. What cannot be read, which only a
// newer version can have checked, is a ring.
func parsed(policy string) manifest.Placement {
	p, err := manifest.ParsePlacement(policy)
	if err != nil {
		return manifest.Placement{Policy: abi.PlacementRing}
	}
	return p
}

// staticHosts returns the names of the hosts of a static policy, in order; none of
// another one.
func staticHosts(policy string) []string { return slices.Clone(parsed(policy).Hosts) }

// ringHosts returns how many hosts share each range of a policy's ring.
func ringHosts(policy string) int { return max(1, parsed(policy).RingHosts) }

// isRing reports whether a policy is ring, of any number of hosts.
func isRing(policy string) bool { return parsed(policy).Policy == abi.PlacementRing }
