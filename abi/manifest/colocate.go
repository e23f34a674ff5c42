package manifest

import (
	"cmp"
	"fmt"

	"github.com/greenroom-run/greenroom/abi"
)

// Bounds of a group that types are placed with: SPEC.md section 3.
const (
	MaxSeparatorLen = 16 // in bytes
	MaxKeyParts     = 16
)

// CheckGroups says what is wrong with the groups of some types of an app: those of one group
// have one placement, of one host for each actor.
func CheckGroups(types []abi.TypeSpec) error {
	first := map[string]abi.TypeSpec{}
	for _, t := range types {
		group := t.CoLocate.Group
		if group == "" {
			continue
		}
		policy := cmp.Or(t.Placement, abi.PlacementRing)
		if policy == abi.PlacementAny || policy == abi.PlacementStateless {
			return fmt.Errorf("%s is placed %s, so that its actors have no place to share with group %s; give it ring, sticky, static or checkout, or leave co_locate away", t.Name, policy, group)
		}
		if other, more := first[group]; more {
			if was := cmp.Or(other.Placement, abi.PlacementRing); was != policy {
				return fmt.Errorf("%s and %s are both of group %s, and are placed %s and %s; deploy them with the same one", other.Name, t.Name, group, was, policy)
			}
			continue
		}
		first[group] = t
	}
	return nil
}
