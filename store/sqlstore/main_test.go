package sqlstore

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// The server of the test process is not waited for: it ends with it.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/greenroom-run/greenroom/internal/pgtest.(*Server).startOnce.func1"))
}
