package actor

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// MaxServiceLen is the longest name of a service, in bytes.
const MaxServiceLen = 256

// Service is a name of an app that stands for an actor.
type Service struct {
	Name      string
	Actor     Key
	ClaimedAt time.Time // database time
}

// ServiceQuery selects services of an app, in byte order of their names.
type ServiceQuery struct {
	App    string
	Prefix string // of names; empty: all
	After  string // exclusive; empty: from the first
	Limit  int    // 1 to 1000
}

// ServiceChange is what a commit does to a service: the actor stands for it from then on, or no
// more. A commit that claims a service which another actor stands for is refused with
// [ErrServiceTaken]. To release one that the actor does not stand for does nothing.
type ServiceChange struct {
	Name    string
	Actor   Key
	Release bool
}

// ValidateService checks the name of a service: 1 to 256 bytes of UTF-8 without control
// characters.
func ValidateService(name string) error {
	const field = "service"
	switch {
	case name == "":
		return &ArgumentError{Field: field, Problem: "is empty; give 1 to 256 bytes of UTF-8"}
	case len(name) > MaxServiceLen:
		return &ArgumentError{Field: field, Problem: fmt.Sprintf("has %d bytes; at most %d are allowed", len(name), MaxServiceLen)}
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return &ArgumentError{Field: field, Problem: "is not UTF-8, or has control characters"}
	}
	return nil
}
