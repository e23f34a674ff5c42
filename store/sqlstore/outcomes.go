package sqlstore

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// outcomes finds out what became of commits: it settles those whose answers were lost, and
// finds the reasons for which others were refused.
type outcomes struct {
	*db
	records *records
}

// settleTimeout bounds the driver's own try to settle what it lost. After it,
// settling is the caller's.
const settleTimeout = 5 * time.Second

// fenceUpdates moves the rows that a lost update could still match out of its
// reach; everything else of them stays.
const fenceUpdates = `UPDATE greenroom_actor AS a SET version = a.version + 1
FROM unnest($1::text[], $2::text[], $3::text[], $4::int8[]) AS c (app, type, id, read_version)
WHERE a.app = c.app AND a.type = c.type AND a.id = c.id AND a.version = c.read_version AND ` + soundRow

// readFences returns what settling compares.
const readFences = `SELECT c.n, a.version, a.commit_id, ` + soundRow + `
FROM unnest($1::text[], $2::text[], $3::text[], $4::int8[]) AS c (app, type, id, n)
JOIN greenroom_actor AS a ON a.app = c.app AND a.type = c.type AND a.id = c.id`

// Settle decides an ambiguous commit; see the contract in package store.
func (s *outcomes) Settle(ctx context.Context, c actor.Commit) error {
	if err := store.ValidateGroup([]actor.Commit{c})[0]; err != nil {
		return err
	}
	answers, err := s.settle(ctx, []*actor.Commit{&c})
	if err != nil {
		return err
	}
	return answers[0]
}

// settleLost gives the commits of a group whose outcome was lost their answers.
// Its context is not the caller's: nobody is helped by an answer that is
// ambiguous only because the caller was in a hurry.
func (s *outcomes) settleLost(ctx context.Context, group []*attempt, cause error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	answers, err := s.settle(ctx, commitsOf(group))
	if err != nil {
		s.log.WarnContext(ctx, "commit outcome lost and not settled", "commits", len(group), "cause", cause, "error", err)
		answer(group, ambiguous("commit", cause))
		return
	}
	applied := 0
	var never []*attempt
	for i, a := range group {
		switch a.err = answers[i]; {
		case a.err == nil:
			applied++
		case errors.Is(a.err, actor.ErrStateDamaged):
			a.err = ambiguous("commit", a.err)
		case errors.Is(a.err, actor.ErrStale):
			never = append(never, a)
		}
	}
	s.refusals(ctx, never)
	s.log.InfoContext(ctx, "commit outcome lost and settled", "commits", len(group), "applied", applied, "cause", cause)
}

// settle fences the commits out and reads their outcomes. An error means that nothing was
// decided. settle may be called again at any time.
func (s *outcomes) settle(ctx context.Context, commits []*actor.Commit) ([]error, error) {
	answers := make([]error, 0, len(commits))
	for len(commits) > 0 {
		n := min(len(commits), maxGroupRows)
		some, err := s.settleSome(ctx, commits[:n])
		if err != nil {
			return nil, err
		}
		answers, commits = append(answers, some...), commits[n:]
	}
	return answers, nil
}

func (s *outcomes) settleSome(ctx context.Context, commits []*actor.Commit) ([]error, error) {
	lost, err := s.lostCommits(ctx, commits)
	if err != nil {
		return nil, err
	}
	of := shareOfCommits(commits)
	if len(lost) > 0 {
		err := s.untilFree(ctx, of, "settle: fence out", func(ctx context.Context, conn *pgxpool.Conn) error {
			return sendUnit(ctx, conn.Conn(), fenceBatch(lost), func(int, [][]byte) error { return nil })
		})
		if err != nil {
			return nil, err
		}
	}

	var k keyColumns
	for _, c := range commits {
		k.addRows(c)
	}
	found := make([]store.FoundRow, len(k.ids))
	err = s.untilFree(ctx, of, "settle: read", func(ctx context.Context, conn *pgxpool.Conn) error {
		clear(found)
		var n, version int64
		var id uuid
		var sound bool
		return each(ctx, conn, []any{&n, &version, &id, &sound}, func() error {
			found[n] = store.FoundRow{Version: uint64(version), CommitID: actor.CommitID(id), Damaged: !sound}
			return nil
		}, readFences, k.apps, k.types, k.ids, k.places)
	})
	if err != nil {
		return nil, err
	}

	recorded, err := s.records.recordedBy(ctx, commits)
	if err != nil {
		return nil, err
	}

	answers := make([]error, len(commits))
	for i, c := range commits {
		n := rowsOf(c)
		evidence := store.Evidence{Recorded: recorded[c.ID], Rows: found[:n]}
		found = found[n:]
		switch evidence.Of(c) {
		case store.VerdictApplied:
		case store.VerdictNever:
			answers[i] = actor.ErrStale
		case store.VerdictDamaged: // not fenced out either, so nothing is decided
			answers[i] = &store.DamagedError{Rows: []store.DamagedRow{{
				Key: c.Anchor().Key, Version: addressable(int64(evidence.Rows[0].Version)), Detail: "its columns do not go together"}}}
		default:
			// Also if its anchor is at the version that was read: then somebody has
			// brought it there after it was fenced out.
			answers[i] = actor.ErrAmbiguous
		}
	}
	return answers, nil
}

// lostCommits are the commits without those whose records are there. Fencing out
// another one that wrote its row finds nothing to move on, as long as the row is
// there.
func (s *outcomes) lostCommits(ctx context.Context, commits []*actor.Commit) ([]*actor.Commit, error) {
	applied, err := s.records.recordedBy(ctx, commits)
	if err != nil || len(applied) == 0 {
		return commits, err
	}
	var lost []*actor.Commit
	for _, c := range commits {
		if !applied[c.ID] {
			lost = append(lost, c)
		}
	}
	return lost, nil
}

// fenceBatch makes the writes after which none of the commits can apply any more: it moves
// their anchors on. For an insert that is a tombstone in its place; from the ID of the
// tombstone settling knows that it found no row there. A commit without a row cannot be
// fenced out.
func fenceBatch(commits []*actor.Commit) *pgx.Batch {
	var updates fences
	var tombstones []*actor.Commit
	for _, c := range commits {
		switch anchor := c.Anchor(); {
		case rowsOf(c) == 0:
		case anchor.Version > 0:
			updates.add(c, anchor, moveVersion)
		default:
			// No delete: that would remove the actor's reminders, and the messages to it.
			tombstones = append(tombstones, &actor.Commit{ID: store.FenceID(c.ID), Rows: []actor.RowWrite{
				{Key: anchor.Key, NewVersion: actor.FirstVersion(), Bump: true}}})
		}
	}
	var b pgx.Batch
	if k := &updates.keys; len(k.ids) > 0 {
		b.Queue(fenceUpdates, k.apps, k.types, k.ids, updates.versions)
	}
	queueGroup(&b, tombstones, new(groupParts))
	return &b
}

// refusals says why commits that did not hold were refused: a key that is
// recorded goes before a firing that was taken, and that before a version that moved on.
func (s *outcomes) refusals(ctx context.Context, refused []*attempt) {
	var keyed recordColumns
	for _, a := range refused {
		a.err = actor.ErrStale
		keyed.add(a.commit)
	}
	s.refuseTaken(ctx, refused)
	if len(keyed.ids) == 0 {
		return
	}
	exist, err := s.records.takenBy(ctx, shareOfCommits(commitsOf(refused)), &keyed)
	var own map[actor.CommitID]bool
	if err == nil && len(exist) > 0 {
		own, err = s.records.recordedBy(ctx, commitsOf(refused))
	}
	for _, a := range refused {
		switch {
		case len(a.commit.Records) == 0:
		case err != nil:
			a.err = unavailable("commit: refused, and why cannot be read", err)
		case own[a.commit.ID]:
			a.err = nil // it was applied before
		case exist[a.commit.ID]:
			a.err = actor.ErrKeyExists
		}
	}
}

// refuseTaken answers the commits with a step that was taken.
func (s *outcomes) refuseTaken(ctx context.Context, refused []*attempt) {
	var taken map[actor.CommitID]bool
	commits := commitsOf(refused)
	err := s.readFor(ctx, shareOfCommits(commits), "find taken firings", func(ctx context.Context, conn *pgxpool.Conn) (err error) {
		taken, err = stepsTaken(ctx, conn, commits)
		return err
	})
	for _, a := range refused {
		switch {
		case len(a.commit.Reminders.Steps) == 0:
		case err != nil:
			a.err = unavailable("commit: refused, and why cannot be read", err)
		case taken[a.commit.ID]:
			a.err = actor.ErrFiringTaken
		}
	}
}
