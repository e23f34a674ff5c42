package egress

import (
	"fmt"
)

// refusal is why a request has no answer.
type refusal struct{ code, message string }

func (r *refusal) Error() string { return r.message }

func refuse(code, format string, args ...any) error {
	return &refusal{code, fmt.Sprintf(format, args...)}
}
