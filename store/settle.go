package store

import "github.com/greenroom-run/greenroom/actor"

// Evidence is what a driver found when it was asked to settle a commit.
type Evidence struct {
	// Recorded: a record of the commit has its ID.
	Recorded bool
	// Rows are those that the commit writes, and behind them those that it fences;
	// the zero FoundRow for none.
	Rows []FoundRow
}

// FoundRow is a row as it was found.
type FoundRow struct {
	Version  uint64
	CommitID actor.CommitID
	Damaged  bool
}

// Verdict is what evidence says of a commit.
type Verdict uint8

// The verdicts.
const (
	// VerdictUnknown: nobody can tell.
	VerdictUnknown Verdict = iota
	// VerdictApplied: it was applied.
	VerdictApplied
	// VerdictNever: it was not, and never will be.
	VerdictNever
	// VerdictFence: it was not, and never will be once the row of its anchor has been moved on,
	// or, if the anchor has no row, a tombstone with [FenceID] is in its place.
	VerdictFence
	// VerdictDamaged: the row of its anchor is damaged, so that it cannot be moved on.
	VerdictDamaged
)

// Of applies the table in the package comment, for drivers. Since a commit is all
// or none, any row that it wrote proves all of it, and any row that it should have
// written and did not proves that it did nothing; that it never will takes one row
// out of its reach, which is always its anchor's.
func (e Evidence) Of(c *actor.Commit) Verdict {
	if e.Recorded {
		return VerdictApplied
	}
	for _, r := range e.Rows[:len(c.Rows)] {
		if r.Version != 0 && !r.Damaged && r.CommitID == c.ID {
			return VerdictApplied
		}
	}
	if len(e.Rows) == 0 {
		return VerdictUnknown // there is nothing that could be moved on
	}
	if len(c.Rows)+len(c.Records) == 0 {
		return VerdictUnknown // reminders alone prove nothing: others may have changed them since
	}
	switch anchor := e.Rows[0]; {
	case anchor.Damaged:
		return VerdictDamaged
	case anchor.Version == c.Anchor().Version:
		return VerdictFence
	case anchor.CommitID == FenceID(c.ID), len(c.Rows) == 0:
		return VerdictNever
	}
	// The anchor's row has moved on, so the commit cannot apply any more. Did it?
	for i, found := range e.Rows[:len(c.Rows)] {
		r := &c.Rows[i]
		if !found.Damaged && (found.Version == r.ReadVersion && found.Version != 0 || overtaken(r.ReadVersion, r.NewVersion, found.Version)) {
			return VerdictNever
		}
	}
	return VerdictUnknown
}

// overtaken reports whether another writer took the place of an update: it would
// have left its new version and its own ID, and versions only go up. Of an insert
// nothing can be said: two rows that start in the same second do so in any order.
func overtaken(read, written, found uint64) bool {
	return read > 0 && read < found && found <= written
}
