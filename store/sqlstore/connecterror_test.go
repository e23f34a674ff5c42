package sqlstore

import (
	"errors"
	"testing"
)

// TestConnectErrorOnce: what pgx says of each attempt is said once if it is the same.
func TestConnectErrorOnce(t *testing.T) {
	cause := errors.New("failed to connect to `user=x`:\n\tdb:1: refused\n\tdb:1: refused\n\tdb:2: refused")
	err := distinctLines{cause}
	if got := err.Error(); got != "failed to connect to `user=x`: db:1: refused db:2: refused" || !errors.Is(err, cause) {
		t.Errorf("got %q", got)
	}
}
