package rpc

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/greenroom-run/greenroom/internal/leaktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }
