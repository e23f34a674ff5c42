package actor

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// BucketSize is how many tokens a bucket has.
const BucketSize = 100_000

// BucketsOfLap is how many buckets there are in one lap of the 32-bit tokens. The few
// tokens behind the last whole bucket are never used.
const BucketsOfLap = (1 << 32) / BucketSize

// Prefix stands for an app in the IDs of its reminders: the apps of a store are numbered
// from 1, and the number is written in bijective base 26, A to Z, AA to ZZ and so on.
type Prefix uint32

// String returns the letters.
func (p Prefix) String() string {
	var buffer [7]byte // 26^7 is above 2^32
	i := len(buffer)
	for n := uint32(p); n > 0; n = (n - 1) / 26 {
		i--
		buffer[i] = 'A' + byte((n-1)%26)
	}
	return string(buffer[i:])
}

// ParsePrefix reads what [Prefix.String] wrote.
func ParsePrefix(s string) (Prefix, error) {
	n := uint64(0)
	for i := range len(s) {
		if s[i] < 'A' || s[i] > 'Z' {
			return 0, argument("reminder prefix", "has the character %q; it is made of A to Z", s[i:i+1])
		}
		if n = n*26 + uint64(s[i]-'A') + 1; n >= 1<<32 {
			return 0, argument("reminder prefix", "%q is too long", s)
		}
	}
	if n == 0 {
		return 0, argument("reminder prefix", "is empty; it is made of A to Z")
	}
	return Prefix(n), nil
}

// Vector tells the laps of an app's tokens apart: eight random lower-case letters.
type Vector [8]byte

// String returns the letters.
func (v Vector) String() string { return string(v[:]) }

// ParseVector reads what [Vector.String] wrote.
func ParseVector(s string) (Vector, error) {
	var v Vector
	if len(s) != len(v) {
		return v, argument("reminder vector", "has %d bytes; it is made of %d letters a to z", len(s), len(v))
	}
	for i := range len(s) {
		if s[i] < 'a' || s[i] > 'z' {
			return v, argument("reminder vector", "has the character %q; it is made of a to z", s[i:i+1])
		}
		v[i] = s[i]
	}
	return v, nil
}

// Bucket names a range of [BucketSize] tokens of an app: those of one lap from Index
// times that on.
type Bucket struct {
	Prefix Prefix
	Vector Vector
	Index  uint32 // below [BucketsOfLap]
}

// String returns prefix||vector||index, for people and logs.
func (b Bucket) String() string {
	return b.Prefix.String() + separator + b.Vector.String() + separator + strconv.FormatUint(uint64(b.Index), 10)
}

// First returns the bucket's first token.
func (b Bucket) First() uint32 { return b.Index * BucketSize }

// Token returns the reminder ID of the n-th token of the bucket, from 0.
func (b Bucket) Token(n uint32) ReminderID {
	return ReminderID{Prefix: b.Prefix, Vector: b.Vector, Token: b.First() + n}
}

// ReminderID names a reminder for ever. It is small and comparable.
type ReminderID struct {
	Prefix Prefix
	Token  uint32
	Vector Vector
}

// Bucket returns the bucket that the ID is of.
func (id ReminderID) Bucket() Bucket {
	return Bucket{Prefix: id.Prefix, Vector: id.Vector, Index: id.Token / BucketSize}
}

const reminderPrefix = "reminder" + separator

// String returns reminder||prefix||token||vector.
func (id ReminderID) String() string {
	return reminderPrefix + id.Prefix.String() + separator + strconv.FormatUint(uint64(id.Token), 10) + separator + id.Vector.String()
}

// ParseReminderID reads what [ReminderID.String] wrote.
func ParseReminderID(s string) (ReminderID, error) {
	parts := strings.Split(s, separator)
	if len(parts) != 4 || parts[0]+separator != reminderPrefix {
		return ReminderID{}, argument("reminder id", "is not of the form reminder||prefix||token||vector")
	}
	var id ReminderID
	var err error
	if id.Prefix, err = ParsePrefix(parts[1]); err != nil {
		return ReminderID{}, err
	}
	token, err := strconv.ParseUint(parts[2], 10, 32)
	if err != nil || strconv.FormatUint(token, 10) != parts[2] || token/BucketSize >= BucketsOfLap {
		return ReminderID{}, argument("reminder token", "%q is no number from 0 to %d", parts[2], BucketsOfLap*BucketSize-1)
	}
	id.Token = uint32(token)
	if id.Vector, err = ParseVector(parts[3]); err != nil {
		return ReminderID{}, err
	}
	return id, nil
}

// Validate reports an ID that [ReminderID.String] would not write readably.
func (id ReminderID) Validate() error {
	_, err := ParseReminderID(id.String())
	return err
}

// BucketRow is a bucket as the store holds it.
type BucketRow struct {
	Bucket Bucket
	App    string
	// Creator is the host that creates reminders from it; it alone ever does. Closed
	// once it never will again.
	Creator HostID
	Closed  bool
	// Owner is the scheduler instance that delivers its reminders; empty: none yet.
	Owner HostID
	// Epoch is one higher each time that it gets another owner.
	Epoch uint64
	// Used is how many of its tokens were handed out, at least: creators say so from
	// time to time.
	Used uint32
	// DeliveredTill is a time before which the owner found no reminder of it left to
	// deliver; zero: it has not said. Reading may begin there.
	DeliveredTill time.Time
	// Rate is how many deliveries of its reminders begin a second, averaged over about half
	// a minute, as its owner wrote it down last: it may be off by a quarter, or by 10 if
	// that is more.
	Rate uint32
	// CreatedAt and ClosedAt are database times, set by the store; zero while open.
	CreatedAt, ClosedAt time.Time
}

// String is for people and logs.
func (r BucketRow) String() string {
	return fmt.Sprintf("bucket %s of %s, creator %s, owner %s at %d", r.Bucket, r.App, r.Creator, r.Owner, r.Epoch)
}
