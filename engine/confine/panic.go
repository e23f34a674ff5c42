package confine

import "fmt"

// PanicError is a bug of ours or of the runtime, which must not end a host that
// serves others.
type PanicError struct {
	What  string // what panicked
	Value any
	Stack []byte // of the goroutine
}

func (e *PanicError) Error() string { return fmt.Sprintf("%s panicked: %v", e.What, e.Value) }
