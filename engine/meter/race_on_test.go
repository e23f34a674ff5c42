//go:build race

package meter

// RaceEnabled tells that the tests run under the race detector, which takes ten times as
// long.
const RaceEnabled = true
