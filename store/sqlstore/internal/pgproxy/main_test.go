package pgproxy_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/greenroom-run/greenroom/internal/leaktest"
)

func TestMain(m *testing.M) {
	// The server of the test process is not waited for: it ends with it.
	server := goleak.IgnoreAnyFunction("github.com/greenroom-run/greenroom/internal/pgtest.(*Server).startOnce.func1")
	goleak.VerifyTestMain(leaktest.Patient(m, server), server)
}
