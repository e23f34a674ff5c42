// Package leaktest lets goroutines end before a test process looks for those that
// were left running.
package leaktest

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines may take to end after the tests: far more than they need, even
// on a busy machine.
const patience = time.Minute

// Patient is m for [goleak.VerifyTestMain], which by itself waits for less than half
// a second. It gets the same options, but for the cleanup.
func Patient(m *testing.M, options ...goleak.Option) goleak.TestingM {
	return &patient{m, options}
}

type patient struct {
	m       *testing.M
	options []goleak.Option
}

// Run runs the tests, and returns when nothing is left running or patience is over.
func (p *patient) Run() int {
	code := p.m.Run()
	if code != 0 {
		return code
	}
	await(p.options)
	return code
}

// None is [goleak.VerifyNone] with the same patience.
func None(tb testing.TB, options ...goleak.Option) {
	tb.Helper()
	await(options)
	goleak.VerifyNone(tb, options...)
}

func await(options []goleak.Option) {
	for end := time.Now().Add(patience); goleak.Find(options...) != nil && time.Now().Before(end); {
	}
}
