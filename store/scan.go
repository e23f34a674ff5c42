package store

import (
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/greenroom-run/greenroom/actor"
)

// ActorScan selects rows to read with their states. The bounds of IDs are texts, not IDs: they
// may be of any length, and hold no zero byte.
type ActorScan struct {
	App, Type string
	After     string // exclusive; empty: from the first
	From      string // inclusive; empty: from the first
	Before    string // exclusive; empty: to the last
	Limit     int    // rows to examine, tombstones among them: 1 to [MaxExamined]
	// States reads states. Without it every row has the zero state.
	States bool
	// MaxBytes bounds the bytes of the states: the row that reaches it is the last.
	// 0: no bound.
	MaxBytes int64
	// Exclusions are of rows that the caller does not want. A store may leave such rows out,
	// or visit them all the same.
	Exclusions []Exclusion
	// AllowStale reads what is some seconds old where that spares the database work.
	AllowStale bool
}

// Validate refuses what no store scans: an [*actor.ArgumentError].
func (s ActorScan) Validate() error {
	if s.Limit < 1 || s.Limit > MaxExamined {
		return &actor.ArgumentError{Field: "limit", Problem: fmt.Sprintf("is %d; give 1 to %d", s.Limit, MaxExamined)}
	}
	if err := actor.ValidateName("app", s.App); err != nil {
		return err
	}
	return actor.ValidateName("actor type", s.Type)
}

// ActorInfo is a row as lists show it.
type ActorInfo struct {
	Key         actor.Key
	Version     uint64
	Generation  uint64
	StateSchema uint32
	StateSize   int64 // bytes as stored
	UpdatedAt   time.Time
	// Damaged marks a row that cannot be decoded; only Key and Version are
	// set, Version as in [DamagedRow].
	Damaged bool
}

// ScannedActor is a live row that a scan visits.
type ScannedActor struct {
	ActorInfo
	Life      uint64
	Spawned   bool
	MethodSet string
	State     actor.EncodedState
}

// Exclusion rules rows out by a member of their state. It holds only for a state of
// [actor.FormatJSON] in which each member of the path but the last is an object; of members
// of one name, the last counts. What it says of the member at the end of the path is Test.
type Exclusion struct {
	Path []string // names of members, from the state inwards: at least one, without zero bytes
	Test ExclusionTest
	// Low and High are the bounds of NumberBetween, both inclusive, as decimals of JSON; an
	// empty one is no bound.
	Low, High string
	// Text is that of StringIs and StringOtherThan, without zero bytes.
	Text string
}

// ExclusionTest is when an [Exclusion] rules a row out.
type ExclusionTest uint8

// The tests. None but Absent holds for a member that does not exist.
const (
	// NumberBetween: the member is a number whose exact value is within the bounds.
	NumberBetween ExclusionTest = iota + 1
	// StringIs: the member is a string of exactly these code points.
	StringIs
	// StringOtherThan: the member is a string of others.
	StringOtherThan
	// BoolTrue, BoolFalse: the member is true, or false.
	BoolTrue
	BoolFalse
	// Absent: the object that should have the member does not.
	Absent
)

// TextAfter returns the first text in byte order after all that begin with
// prefix, empty if there is none.
func TextAfter(prefix string) string {
	const lastBefore, firstAfter = 0xD7FF, 0xE000 // between them are surrogates, which no text has
	for prefix != "" {
		r, n := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-n]
		switch {
		case r == lastBefore:
			return prefix + string(rune(firstAfter))
		case r < utf8.MaxRune:
			return prefix + string(r+1)
		}
	}
	return ""
}
