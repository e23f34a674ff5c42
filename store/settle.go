package store

import "github.com/greenroom-run/greenroom/actor"

// Evidence is what a driver found when it was asked to settle a commit.
type Evidence struct {
	// Recorded: a record of the commit has its ID.
	Recorded bool
	// Rows are as [actor.Commit.Rows] has them; the zero FoundRow for none.
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
	// VerdictFence: it was not, and will not be once its own row has been moved on,
	// or, if there is none, has a tombstone with [FenceID] in its place.
	VerdictFence
	// VerdictDamaged: its own row is damaged, so that it cannot be moved on.
	VerdictDamaged
)

// Of applies the table in the package comment, for drivers. Since a commit is all
// or none, any row that it wrote proves all of it, and any row that it should have
// written and did not proves that it did nothing; that it never will takes one row
// out of its reach, which is always its own.
func (e Evidence) Of(c *actor.Commit) Verdict {
	if e.Recorded {
		return VerdictApplied
	}
	own := e.Rows[0]
	for i, r := range e.Rows {
		if written := i == 0 || !c.Others[i-1].ReadOnly(); written && r.Version != 0 && !r.Damaged && r.CommitID == c.ID {
			return VerdictApplied
		}
	}
	switch {
	case own.Damaged:
		return VerdictDamaged
	case own.Version == c.ReadVersion:
		return VerdictFence
	case own.CommitID == FenceID(c.ID), c.RecordsOnly():
		return VerdictNever
	}
	// Its own row has moved on, so it cannot apply any more. Did it?
	if overtaken(c.ReadVersion, c.NewVersion, own.Version) {
		return VerdictNever
	}
	for i := range c.Others {
		r, found := &c.Others[i], e.Rows[i+1]
		if !r.ReadOnly() && !found.Damaged && (found.Version == r.ReadVersion && found.Version != 0 || overtaken(r.ReadVersion, r.NewVersion, found.Version)) {
			return VerdictNever
		}
	}
	return VerdictUnknown
}

// overtaken reports whether another writer took the place of an update: it would
// have left its new version and its own ID, and versions only go up. Of an insert
// nothing can be said: versions of new rows are random.
func overtaken(read, written, found uint64) bool {
	return read > 0 && read < found && found <= written
}
