package actor

import (
	"fmt"
	"unicode"
)

// ArgumentError is a request that can never succeed as it is.
type ArgumentError struct {
	Field   string // what is wrong, in the user's words: "actor id"
	Problem string // what about it, and the remedy: "is empty; give …"
}

func (e *ArgumentError) Error() string { return e.Field + " " + e.Problem }

func argument(field, problem string, args ...any) error {
	return &ArgumentError{Field: field, Problem: fmt.Sprintf(problem, args...)}
}

// refuseControls refuses control characters, which PostgreSQL does not store (zero bytes) or
// which break the lines and headers that a text is written into.
func refuseControls(field, text string) error {
	for i, r := range text {
		if unicode.IsControl(r) {
			return argument(field, "has the control character %U at byte %d; remove it", r, i)
		}
	}
	return nil
}
