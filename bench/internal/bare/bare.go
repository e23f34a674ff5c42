// Package bare holds the baselines: what the databases do for a program that
// uses them directly, without Greenroom. Each is a role, and so has a process of
// its own.
package bare

import (
	"crypto/rand"
	"strconv"
)

// recordBytes is what the stores write for a recorded call with a short reply.
const recordBytes = 75

func id(target int) string { return "c" + strconv.Itoa(target) }

func commitID() (id [16]byte) {
	_, _ = rand.Read(id[:]) // it never fails
	return id
}
