// Package storetest is the executable form of the contract in package store.
// Every guarantee written there is a named subtest here, and every driver runs
// all of them:
//
//   - [Run]: what a store does while it is open.
//   - [RunReopen]: what is still there after Close and after a crash.
//   - [RunDamage]: what happens to damaged rows and modules, for drivers whose
//     data a test can damage.
//   - [RunLap]: what happens to tokens when their range is spent.
//   - [RunCopy] and [UnfinishedCopy]: copies of a store into another one, whole and cut off.
//   - [RunModel] and [RunReopenModel]: random operations, compared with a model
//     in memory.
//
// The tests of one Run share a store and have an app of their own each, so that
// they would notice apps that are not kept apart.
package storetest

import (
	"fmt"
	"testing"

	"github.com/greenroom-run/greenroom/store"
)

// Run checks a store against the contract. open opens an empty store and
// arranges that it is closed when the test ends; it is called twice.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	t.Helper()
	t.Run("Open", func(t *testing.T) {
		s := open(t)
		apps := 0
		for _, suite := range []suite{
			fences, versions, tombstones, lives, services, groups, sets, records, loads, lists, scans, sweeps, settles,
			lockedTurns, contexts, concurrency, modules, storedModules, deployments, settings, hosts, leases,
			reminders, messages, cursors, buckets, events, health,
		} {
			t.Run(suite.name, func(t *testing.T) {
				for _, c := range suite.cases {
					apps++
					app := fmt.Sprintf("app-%d", apps)
					t.Run(c.name, func(t *testing.T) {
						c.run(newFixture(t, s, app))
					})
				}
			})
		}
	})
	t.Run("Closed", func(t *testing.T) { closed(t, open(t)) })
}
