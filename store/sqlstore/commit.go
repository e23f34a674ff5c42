package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// attempt is one commit on its way to an answer.
type attempt struct {
	commit *actor.Commit
	err    error // the answer, once decided
}

func compareKeys(a, b actor.Key) int {
	if a.App != b.App {
		return cmp.Compare(a.App, b.App)
	}
	if a.Type != b.Type {
		return cmp.Compare(a.Type, b.Type)
	}
	return cmp.Compare(a.ID, b.ID)
}

// Commit writes the commits in groups; see the package comment. It returns when
// every one has its answer. The context ends waiting for a connection or for a
// locked row, never a write under way.
func (s *Store) Commit(ctx context.Context, commits []actor.Commit) []error {
	errs := store.ValidateGroup(commits)
	attempts := make([]attempt, len(commits))
	sorted := make([]*attempt, 0, len(commits))
	ids := make(map[actor.CommitID]struct{}, len(commits))
	for i := range commits {
		attempts[i].commit = &commits[i]
		if errs[i] != nil {
			continue
		}
		// An ID tells whose row was written, so it cannot be there twice.
		if _, twice := ids[commits[i].ID]; twice {
			errs[i] = &actor.ArgumentError{Field: store.CommitName(&commits[i]),
				Problem: "has the ID of another commit of its group; take actor.NewCommitID for each"}
			continue
		}
		ids[commits[i].ID] = struct{}{}
		sorted = append(sorted, &attempts[i])
	}
	// In one order everywhere, so that groups wait for each other's rows in line
	// and not in a circle.
	slices.SortFunc(sorted, func(a, b *attempt) int { return compareKeys(a.commit.Anchor().Key, b.commit.Anchor().Key) })
	for _, part := range disjoint(sorted) {
		for _, group := range splitGroup(part) {
			if s.decide(ctx, group) {
				s.commitAround(ctx, group)
			}
		}
	}
	for i := range attempts {
		if errs[i] == nil {
			errs[i] = attempts[i].err
		}
	}
	return errs
}

// decide writes a group and gives each commit its answer. It returns true and
// gives none if a row of the group is locked.
func (s *Store) decide(ctx context.Context, group []*attempt) (locked bool) {
	reconnected := false
	for tries := 0; ; {
		if err := ctx.Err(); err != nil {
			answer(group, err)
			return false
		}
		held, err := s.sendGroup(ctx, commitsOf(group))
		if err == nil {
			var refused []*attempt
			for _, a := range group {
				if _, ok := held[a.commit.ID]; !ok {
					refused = append(refused, a)
				}
			}
			s.refusals(ctx, refused)
			return false
		}
		switch s.dialect.judge(err) {
		case conflict:
			tries++
			if tries == maxAttempts {
				answer(group, unavailable(fmt.Sprintf("commit: gave up after %d serialization failures", tries), err))
				return false
			}
			s.countRetry(err)
			// At SERIALIZABLE on PostgreSQL, large groups of new actors fail each
			// other by sharing index pages; smaller ones get through.
			if tries >= 4 && len(group) > 1 {
				return s.decideHalves(ctx, group)
			}
			var full error
			if group, full = s.makeRoom(ctx, group, err); len(group) == 0 {
				return false
			}
			if err := errors.Join(full, pause(ctx, tries)); err != nil {
				answer(group, err)
				return false
			}
		case unsent:
			// A pool may hand out a connection that died while idle.
			if reconnected || ctx.Err() != nil {
				answer(group, asStoreError(ctx, "commit", unavailable("send", err)))
				return false
			}
			reconnected = true
		case blocked:
			return true
		case unable:
			answer(group, unavailable("commit", err))
			return false
		case refused:
			// The server found fault with the data of one commit; its neighbours
			// are not to suffer.
			if len(group) > 1 {
				return s.decideHalves(ctx, group)
			}
			answer(group, fmt.Errorf("commit: %w", err))
			return false
		case unknown:
			s.settleLost(ctx, group, err)
			return false
		}
	}
}

// decideHalves decides each half of a group on its own, around locked rows.
func (s *Store) decideHalves(ctx context.Context, group []*attempt) bool {
	for _, half := range [][]*attempt{group[:len(group)/2], group[len(group)/2:]} {
		if s.decide(ctx, half) {
			s.commitAround(ctx, half)
		}
	}
	return false
}

// commitAround decides a group that has some rows that others lock. The commits of free rows
// go at once, however slow the database is. The commits of locked rows go as these come free,
// each on its own, for as long as LockWait.
func (s *Store) commitAround(ctx context.Context, group []*attempt) {
	wait, cancel := context.WithTimeout(ctx, s.cfg.LockWait)
	defer cancel()
	for tried := false; len(group) > 0; tried = true {
		if tried {
			s.orphans.blocked()
		}
		if tried && wait.Err() != nil {
			if err := ctx.Err(); err != nil {
				answer(group, err)
			} else {
				answer(group, fmt.Errorf("commit: %w: the row stayed locked for %v", actor.ErrUnavailable, s.cfg.LockWait))
			}
			return
		}
		free, stuck, err := s.probe(ctx, group)
		if err != nil {
			answer(group, asStoreError(ctx, "commit: find the locked rows", err))
			return
		}
		left := s.bisect(ctx, free)
		if len(stuck) > 0 {
			// One waits in the row's queue; asking only when it happens to be
			// free could go on for ever.
			left = append(left, s.bisect(wait, stuck[:1])...)
			left = append(left, stuck[1:]...)
		}
		group = left
	}
}

// bisect decides a group by halves until only single locked rows are left, and
// returns those. The probe cannot see the locked rows of inserts, which are
// rows that another transaction has inserted and not yet committed.
func (s *Store) bisect(ctx context.Context, group []*attempt) []*attempt {
	switch {
	case len(group) == 0 || ctx.Err() != nil:
		return group
	case !s.decide(ctx, group):
		// A wait that ended is not this commit's answer yet: commitAround, which
		// knows whose context it was, gives it.
		return undone(ctx, group)
	case len(group) == 1:
		return group
	}
	half := len(group) / 2
	return append(s.bisect(ctx, group[:half:half]), s.bisect(ctx, group[half:])...)
}

// undone returns the attempts that ended with ctx's own error, reset.
func undone(ctx context.Context, group []*attempt) []*attempt {
	var left []*attempt
	for _, a := range group {
		if a.err != nil && ctx.Err() != nil && errors.Is(a.err, ctx.Err()) {
			a.err = nil
			left = append(left, a)
		}
	}
	return left
}

// probeRows returns the places of the keys whose rows could be locked.
const probeRows = `SELECT c.n FROM unnest($1::text[], $2::text[], $3::text[], $4::int8[]) AS c (app, type, id, n)
JOIN greenroom_actor AS a ON a.app = c.app AND a.type = c.type AND a.id = c.id
FOR UPDATE OF a SKIP LOCKED`

// probeStatement is probeRows for a database. CockroachDB does not count a scan that skips
// locked rows among those of whole tables, so this one is forbidden by name.
func (d dialect) probeStatement() string {
	if d == cockroach {
		return strings.Replace(probeRows, "JOIN", "INNER LOOKUP JOIN", 1)
	}
	return probeRows
}

// probe tells the commits whose rows are locked by others now from the rest.
// Inserts count as free.
func (s *Store) probe(ctx context.Context, group []*attempt) (free, stuck []*attempt, err error) {
	var k keyColumns
	for _, a := range group {
		k.addRows(a.commit)
	}
	lockable := make(map[int64]bool)
	err = s.read(ctx, "probe", func(ctx context.Context) error {
		clear(lockable)
		rows, err := s.commits.Query(ctx, s.dialect.probeStatement(), k.apps, k.types, k.ids, k.places)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var n int64
			if err := rows.Scan(&n); err != nil {
				return err
			}
			lockable[n] = true
		}
		return rows.Err()
	})
	place := int64(0)
	for _, a := range group {
		open := true // all of its rows
		for i := range a.commit.Rows {
			open = open && (a.commit.Rows[i].ReadVersion == 0 || lockable[place])
			place++
		}
		for _, f := range a.commit.Fences {
			open = open && (f.Version == 0 || lockable[place])
			place++
		}
		if open {
			free = append(free, a)
		} else {
			stuck = append(stuck, a)
		}
	}
	return free, stuck, err
}

func commitsOf(group []*attempt) []*actor.Commit {
	commits := make([]*actor.Commit, len(group))
	for i, a := range group {
		commits[i] = a.commit
	}
	return commits
}

func answer(group []*attempt, err error) {
	for _, a := range group {
		a.err = err
	}
}
