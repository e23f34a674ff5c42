package storetest

import (
	"testing"

	"github.com/greenroom-run/greenroom/store"
)

// suite is a part of the contract.
type suite struct {
	name  string
	cases []testCase
}

type testCase struct {
	name string
	run  func(f *fixture)
}

// fixture is what one test works with.
type fixture struct {
	*base
	rowFixture
	recordFixture
	reminderFixture
	moduleFixture
	clusterFixture
	settingFixture
	eventFixture
}

func newFixture(t *testing.T, s store.Store, app string) *fixture {
	b := &base{t, s, app}
	return &fixture{b, rowFixture{b}, recordFixture{b}, reminderFixture{b}, moduleFixture{b}, clusterFixture{b}, settingFixture{b}, eventFixture{b}}
}
