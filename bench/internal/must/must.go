// Package must ends a measurement at its first error, as Fatal ends a test: after it nothing is
// left to measure. The error reaches [Catch], on the goroutine that it happened on; functions
// that other goroutines call return their errors.
package must

import "errors"

// failure is a panic on the way to [Catch].
type failure struct{ err error }

// Check ends the surrounding [Catch] with err, unless err is nil.
func Check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Get returns v, or ends the surrounding [Catch] with err.
func Get[V any](v V, err error) V {
	Check(err)
	return v
}

// Get2 returns v and w, or ends the surrounding [Catch] with err.
func Get2[V, W any](v V, w W, err error) (V, W) {
	Check(err)
	return v, w
}

// Close is for defer: it calls f, also after an error, and fails with the errors of both.
func Close(f func() error) {
	err := failed(recover())
	Check(errors.Join(err, f()))
}

// Catch calls f, and returns the error that it ended with, if any.
func Catch(f func()) (err error) {
	defer func() { err = failed(recover()) }()
	f()
	return nil
}

// failed returns the error of a panic of this package's, and goes on with any other.
func failed(panicked any) error {
	f, ok := panicked.(failure)
	if panicked != nil && !ok {
		panic(panicked)
	}
	return f.err
}
