package placement

import (
	"strconv"
	"strings"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
)

// together begins the policies of types that are placed with a group.
const together = "together"

// groupMark begins the name of a group where types have theirs. No actor type has such a name.
const groupMark = "@"

// Together says how the actors of a type are placed with those of the other types of a group:
// all actors of one group key are at one place, that of the actor [Together.Place].
type Together struct {
	// Type is the name of the group where types have theirs: [GroupName].
	Type string
	// Separator and Parts say which part of an ID is the group key; without a separator it is
	// the whole ID.
	Separator string
	Parts     int
}

// TogetherOf returns how a type is placed that declares a group.
func TogetherOf(c abi.CoLocate) Together {
	return Together{Type: GroupName(c.Group), Separator: c.Separator, Parts: c.Parts}
}

// Policy returns the policy of types that are placed so.
func (g Together) Policy() string {
	if g.Separator == "" {
		return together + ":" + g.Group()
	}
	return together + ":" + g.Group() + ":" + strconv.Itoa(g.Parts) + ":" + g.Separator
}

// ParseTogether reads a policy; false for one that gives a type a table of its own.
func ParseTogether(policy string) (Together, bool) {
	rest, is := strings.CutPrefix(policy, together+":")
	if !is {
		return Together{}, false
	}
	group, rest, some := strings.Cut(rest, ":")
	g := Together{Type: GroupName(group)}
	if parts, separator, both := strings.Cut(rest, ":"); some && both {
		n, err := strconv.Atoi(parts)
		if err == nil && n > 0 && separator != "" {
			g.Separator, g.Parts = separator, n
		}
	}
	return g, true
}

// IsTogether reports whether a policy places a type with a group.
func IsTogether(policy string) bool { return strings.HasPrefix(policy, together+":") }

// GroupName returns the name under which a group has a table, as types have.
func GroupName(group string) string { return groupMark + group }

// GroupOf returns the group of such a name.
func GroupOf(name string) string { return strings.TrimPrefix(name, groupMark) }

// IsGroupName reports whether the name of a table is that of a group, not of an actor type.
func IsGroupName(name string) bool { return strings.HasPrefix(name, groupMark) }

// Group returns the name of the group.
func (g Together) Group() string { return GroupOf(g.Type) }

// Place returns the actor at whose point an actor of the type is: one of the group's own table,
// whose ID is the group key. No such actor exists.
func (g Together) Place(key actor.Key) actor.Key {
	return actor.Key{App: key.App, Type: g.Type, ID: g.Key(key.ID)}
}

// Key returns the group key of an ID: its first Parts parts, with the separators between them.
// The whole ID is the key if it has no more parts than these, or if they are empty.
func (g Together) Key(id string) string {
	if g.Separator == "" {
		return id
	}
	at := 0
	for range g.Parts {
		i := strings.Index(id[at:], g.Separator)
		if i < 0 {
			return id
		}
		at += i + len(g.Separator)
	}
	if key := id[:at-len(g.Separator)]; key != "" {
		return key
	}
	return id
}
