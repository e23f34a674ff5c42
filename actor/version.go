package actor

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	fastrand "math/rand/v2"
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

// FirstVersion returns the random 62-bit version at which a new row starts: so
// that a writer that remembers an earlier row of the same key, swept since,
// never meets its version again. It is never 0 and leaves room to count on.
func FirstVersion() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])>>2 | 1
}
