package placement

import (
	"slices"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/abi/manifest"
)

// Exclusive reports whether the actors of a policy have one place each.
func Exclusive(policy string) bool {
	return policy != abi.PlacementAny && policy != abi.PlacementStateless
}

// Assigned reports whether the leader assigns the ranges of a policy to hosts: of every
// exclusive policy but checkout, and that of types that are placed with a group.
func Assigned(policy string) bool {
	return Exclusive(policy) && !IsCheckout(policy) && !IsTogether(policy)
}

// RangesOnly reports whether hosts hold assigned ranges under a policy, and nothing else. When
// a type changes from one such policy to another, only the ranges that move are handed over.
func RangesOnly(policy string) bool {
	return Assigned(policy) && policy != "" && policy != abi.PlacementSticky
}

// ParsePolicy returns a policy with what it is given. What cannot be read, which only a
// newer version can have checked, is a ring. A type that is placed with a group has no policy
// of its own.
func ParsePolicy(policy string) manifest.Placement {
	if IsTogether(policy) {
		return manifest.Placement{Policy: together}
	}
	p, err := manifest.ParsePlacement(policy)
	if err != nil {
		return manifest.Placement{Policy: abi.PlacementRing}
	}
	return p
}

// StaticHosts returns the names of the hosts of a static policy, in order; none of
// another one.
func StaticHosts(policy string) []string { return slices.Clone(ParsePolicy(policy).Hosts) }

// RingHosts returns how many hosts share each range of a policy's ring.
func RingHosts(policy string) int { return max(1, ParsePolicy(policy).RingHosts) }

// IsRing reports whether a policy is ring, of any number of hosts.
func IsRing(policy string) bool { return ParsePolicy(policy).Policy == abi.PlacementRing }

// IsCheckout reports whether a policy is checkout, of any number of partitions.
func IsCheckout(policy string) bool { return ParsePolicy(policy).Policy == abi.PlacementCheckout }
