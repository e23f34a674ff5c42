//go:build !race

package meter

const RaceEnabled = false
