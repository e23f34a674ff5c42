//go:build race

package reminder

// raceEnabled tells that the tests run under the race detector, which takes ten times as
// long.
const raceEnabled = true
