package store

import (
	"fmt"
	"strings"

	"github.com/greenroom-run/greenroom/actor"
)

// DamagedError says which of the rows asked for cannot be read. It matches
// actor.ErrStateDamaged. It is never empty.
type DamagedError struct{ Rows []DamagedRow }

// DamagedRow is a stored row whose bytes are not what was written.
type DamagedRow struct {
	Key actor.Key
	// Version fences a commit that deletes or replaces exactly this row as it
	// is now. It is the row's own version where that survived, otherwise a
	// number that stands for the damaged bytes. 0: the row cannot be addressed
	// at all, and only a backup helps.
	Version uint64
	// Detail says what is wrong, for logs.
	Detail string
}

func (e *DamagedError) Error() string {
	var b strings.Builder
	for i, r := range e.Rows {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "stored row of %s is damaged: %s", r.Key, r.Detail)
	}
	return b.String()
}

// Unwrap returns actor.ErrStateDamaged.
func (e *DamagedError) Unwrap() error { return actor.ErrStateDamaged }

// VersionOf returns the version that fences the damaged row of key, and whether
// that row is among the damaged ones.
func (e *DamagedError) VersionOf(key actor.Key) (version uint64, ok bool) {
	for _, r := range e.Rows {
		if r.Key == key {
			return r.Version, true
		}
	}
	return 0, false
}
