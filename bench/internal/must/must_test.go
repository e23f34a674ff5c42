package must_test

import (
	"errors"
	"testing"

	"github.com/greenroom-run/greenroom/bench/internal/must"
)

func TestCatch(t *testing.T) {
	errA, errB := errors.New("a"), errors.New("b")
	if err := must.Catch(func() { must.Check(nil) }); err != nil {
		t.Error(err)
	}
	err := must.Catch(func() {
		defer must.Close(func() error { return errB })
		must.Get(1, errA)
		t.Error("it went on")
	})
	if !errors.Is(err, errA) || !errors.Is(err, errB) {
		t.Errorf("got %v, want both errors", err)
	}
	defer func() {
		if recover() != "another" {
			t.Error("a panic of others was caught")
		}
	}()
	_ = must.Catch(func() { panic("another") })
}
