//go:build !race

package reminder

const raceEnabled = false
