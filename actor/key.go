package actor

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxNameLen is the longest app, type or method name, in bytes.
	MaxNameLen = 64
	// MaxIDLen is the longest actor ID, in bytes.
	MaxIDLen = 512
	// DefaultApp is the app of a caller that names none.
	DefaultApp = "default"

	separator   = "||"
	stateSuffix = "state"
)

// Key names one actor. It is comparable and usable as a map key.
type Key struct {
	App  string // [A-Za-z0-9._-]{1,64}
	Type string // [A-Za-z0-9._-]{1,64}
	ID   string // 1 to 512 bytes of UTF-8 without control characters
}

// Validate reports the first part of k that breaks the grammar, as an
// [*ArgumentError] that names the part and the remedy.
func (k Key) Validate() error {
	if err := ValidateName("app", k.App); err != nil {
		return err
	}
	if err := ValidateName("actor type", k.Type); err != nil {
		return err
	}
	return ValidateID(k.ID)
}

// The first bytes of anonymous IDs. Both are control characters, which [ValidateID] refuses: no
// caller from outside, no stored row and no durable effect can name an anonymous actor.
const (
	anonymousOwn     = '\x01'
	anonymousSharing = '\x02'
)

// AnonymousID returns the ID of a volatile child of the family with a name, which has no dot, from
// a text that no other child of the family has. sharing means that it shares its parent's mailbox.
func AnonymousID(family, unique string, sharing bool) string {
	mark := anonymousOwn
	if sharing {
		mark = anonymousSharing
	}
	return string(mark) + family + "." + unique
}

// IsAnonymous reports whether k names a volatile child: an actor without a row, which is known by
// its parent's activation alone. Its ID is none that [Key.Validate] accepts.
func (k Key) IsAnonymous() bool {
	return k.ID != "" && (k.ID[0] == anonymousOwn || k.ID[0] == anonymousSharing)
}

// SharesMailbox reports whether k names a volatile child whose turns have their places in its
// parent's mailbox.
func (k Key) SharesMailbox() bool { return k.ID != "" && k.ID[0] == anonymousSharing }

// Family returns the name of the family of a volatile child; empty if k names none.
func (k Key) Family() string {
	if !k.IsAnonymous() {
		return ""
	}
	family, _, _ := strings.Cut(k.ID[1:], ".")
	return family
}

// String returns app||type||id, for people and logs. It is unambiguous, since
// neither an app nor a type can contain a '|'; see [ParseKey].
func (k Key) String() string { return k.App + separator + k.Type + separator + k.ID }

// StorageKey returns app||type||id||state, the name under which an actor's
// state is stored by key-value stores.
func (k Key) StorageKey() string { return k.String() + separator + stateSuffix }

// ParseKey reads what [Key.String] wrote, and validates it.
func ParseKey(s string) (Key, error) {
	app, rest, ok := strings.Cut(s, separator)
	typ, id, ok2 := strings.Cut(rest, separator)
	if !ok || !ok2 {
		return Key{}, &ArgumentError{Field: "actor key", Problem: "is not of the form app||type||id"}
	}
	k := Key{App: app, Type: typ, ID: id}
	return k, k.Validate()
}

// ValidateName checks an app, actor type or method name against
// [A-Za-z0-9._-]{1,64}; field is what the error calls it.
func ValidateName(field, name string) error {
	if name == "" {
		return &ArgumentError{Field: field, Problem: "is empty; give 1 to 64 of the characters A-Z a-z 0-9 . _ -"}
	}
	if len(name) > MaxNameLen {
		return &ArgumentError{Field: field, Problem: fmt.Sprintf("has %d bytes; at most %d are allowed", len(name), MaxNameLen)}
	}
	for i := range len(name) {
		if !nameByte(name[i]) {
			return &ArgumentError{Field: field, Problem: fmt.Sprintf("has the character %q at byte %d; only A-Z a-z 0-9 . _ - are allowed", name[i:i+1], i)}
		}
	}
	return nil
}

func nameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
}

// ValidateID checks an actor ID: 1 to 512 bytes of UTF-8 without control
// characters. Slashes, spaces, "||" and emoji are all allowed.
func ValidateID(id string) error {
	if id == "" {
		return &ArgumentError{Field: "actor id", Problem: "is empty; give 1 to 512 bytes of UTF-8"}
	}
	if len(id) > MaxIDLen {
		return &ArgumentError{Field: "actor id", Problem: fmt.Sprintf("has %d bytes; at most %d are allowed", len(id), MaxIDLen)}
	}
	if !utf8.ValidString(id) {
		return &ArgumentError{Field: "actor id", Problem: "is not valid UTF-8"}
	}
	for i, r := range id {
		if unicode.IsControl(r) {
			return &ArgumentError{Field: "actor id", Problem: fmt.Sprintf("has the control character %U at byte %d; remove it", r, i)}
		}
	}
	return nil
}

// shown is a text of a caller's in an error, shortened.
func shown(text string) string { return text[:min(len(text), MaxNameLen)] }
