package manifest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/greenroom-run/greenroom/abi"
)

// Bounds of a group that types are placed with: SPEC.md section 3.
const (
	MaxSeparatorLen = 16 // in bytes
	MaxKeyParts     = 16
)

// coLocate reads how a type is placed with others.
func (p *parser) coLocate(at string, raw json.RawMessage) abi.CoLocate {
	var c abi.CoLocate
	obj := p.object(at, raw, "group", "separator", "parts")
	if raw, ok := p.required(obj, "group"); ok {
		c.Group = p.name(at+".group", raw)
	}
	separator, divides := obj.get("separator")
	if divides {
		var ok bool
		c.Separator, ok = p.text(at+".separator", separator)
		if ok && (c.Separator == "" || len(c.Separator) > MaxSeparatorLen || !utf8.ValidString(c.Separator) || strings.ContainsFunc(c.Separator, unicode.IsControl)) {
			p.fault(CodeBadValue, "%s.separator: has %d bytes; give 1 to %d without control characters, or leave it away for the whole ID", at, len(c.Separator), MaxSeparatorLen)
		}
		c.Parts = 1
	}
	if raw, ok := obj.get("parts"); ok {
		n, ok := p.integer(at+".parts", raw, 1, MaxKeyParts)
		if c.Parts = int(n); ok && !divides {
			p.fault(CodeBadValue, "%s.parts: is %d, and there is no separator; give the text between the parts of an ID", at, n)
		}
	}
	return c
}

// checkGroups finds types of one group with different placements.
func (p *parser) checkGroups(types []abi.TypeSpec) {
	if err := CheckGroups(types); err != nil {
		p.fault(CodeBadValue, "types: %v", err)
	}
}

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
