package actor

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	fastrand "math/rand/v2"
	"time"
)

// NewCommitID returns a fresh random commit ID.
func NewCommitID() CommitID {
	// Unique is all that it must be: a system call for each turn is not worth more.
	var id CommitID
	binary.LittleEndian.PutUint64(id[:], fastrand.Uint64())
	binary.LittleEndian.PutUint64(id[8:], fastrand.Uint64())
	return id
}

// String returns id in hexadecimal.
func (id CommitID) String() string { return hex.EncodeToString(id[:]) }

// FirstVersion returns the version at which a new row starts: 62 bits, the seconds since 1970 before
// 29 random bits and a one. A row has fewer turns in a second than 2^30, and its tombstone is swept an
// hour after its end. So a later row of the same key starts above all versions of the earlier one: a
// writer that remembers the earlier row never meets its version again, and the events of the new row
// come behind those that are kept of the earlier one. If the clock was set back by more than that hour,
// the order of those events is lost, and nothing else. FirstVersion is never 0 and leaves room to count on.
func FirstVersion() uint64 {
	var b [4]byte
	rand.Read(b[:])
	seconds := uint64(uint32(time.Now().Unix())) //nolint:gosec // until 2106
	return seconds<<30 | uint64(binary.LittleEndian.Uint32(b[:])>>2) | 1
}

// CommitID identifies one attempt to commit; random, never used twice.
type CommitID [16]byte
