package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// commits writes commits in groups.
type commits struct {
	*db
	outcomes *outcomes
	order    order
	parts    sync.Pool // of *groupParts
}

// Commit writes the commits in groups; see the package comment. It returns when
// every one has its answer. The context ends waiting for a connection or for a
// locked row, never a write under way.
func (s *commits) Commit(ctx context.Context, commits []actor.Commit) []error {
	errs := store.ValidateGroup(commits)
	attempts := make([]attempt, len(commits))
	sorted := make([]*attempt, 0, len(commits))
	ids := make(map[actor.CommitID]struct{}, len(commits))
	var alone []*attempt
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
		if len(commits[i].Services) > 0 {
			alone = append(alone, &attempts[i])
			continue
		}
		sorted = append(sorted, &attempts[i])
	}
	// In one order everywhere, so that groups wait for each other's rows in line
	// and not in a circle.
	slices.SortFunc(sorted, func(a, b *attempt) int { return compareKeys(a.commit.Anchor().Key, b.commit.Anchor().Key) })
	sorted = s.order.sift(ctx, sorted, s.outcomes.refusals)
	for _, part := range disjoint(sorted) {
		for _, group := range splitGroup(part) {
			if s.decide(ctx, group) {
				s.commitAround(ctx, group)
			}
		}
	}
	for _, a := range alone {
		s.commitAlone(ctx, a)
	}
	for i := range attempts {
		if errs[i] != nil {
			continue
		}
		if errs[i] = attempts[i].err; errs[i] == nil {
			s.order.known.Applied(&commits[i])
		}
	}
	return errs
}

// decide writes a group and gives each commit its answer. It returns true and
// gives none if a row of the group is locked.
func (s *commits) decide(ctx context.Context, group []*attempt) (locked bool) {
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
			s.outcomes.refusals(ctx, refused)
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
			s.outcomes.settleLost(ctx, group, err)
			return false
		}
	}
}

// decideHalves decides each half of a group on its own, around locked rows.
func (s *commits) decideHalves(ctx context.Context, group []*attempt) bool {
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
func (s *commits) commitAround(ctx context.Context, group []*attempt) {
	wait, cancel := context.WithTimeout(ctx, s.cfg.LockWait)
	defer cancel()
	for tried := false; len(group) > 0; tried = true {
		if tried {
			s.sessions.blocked()
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
		undecided := s.bisect(ctx, free)
		if len(stuck) > 0 {
			// One waits in the row's queue; asking only when it happens to be
			// free could go on for ever.
			undecided = append(undecided, s.bisect(wait, stuck[:1])...)
			undecided = append(undecided, stuck[1:]...)
		}
		group = undecided
	}
}

// bisect decides a group by halves until only single locked rows are left, and
// returns those. The probe cannot see the locked rows of inserts, which are
// rows that another transaction has inserted and not yet committed.
func (s *commits) bisect(ctx context.Context, group []*attempt) []*attempt {
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
	var undecided []*attempt
	for _, a := range group {
		if a.err != nil && ctx.Err() != nil && errors.Is(a.err, ctx.Err()) {
			a.err = nil
			undecided = append(undecided, a)
		}
	}
	return undecided
}

// probeRows returns the places of the keys whose rows could be locked.
const probeRows = `SELECT c.n FROM unnest($1::text[], $2::text[], $3::text[], $4::int8[]) AS c (app, type, id, n)
JOIN greenroom_actor AS a ON a.app = c.app AND a.type = c.type AND a.id = c.id
FOR UPDATE OF a SKIP LOCKED`

// probeStatement is probeRows for a database. CockroachDB does not count a scan that skips
// locked rows among those of whole tables, so this one is forbidden by name.
func probeStatement(d dialect) string {
	if d == cockroach {
		return strings.Replace(probeRows, "JOIN", "INNER LOOKUP JOIN", 1)
	}
	return probeRows
}

// probe tells the commits whose rows are locked by others now from the rest.
// Inserts count as free.
func (s *commits) probe(ctx context.Context, group []*attempt) (free, stuck []*attempt, err error) {
	var k keyColumns
	for _, a := range group {
		k.addRows(a.commit)
	}
	lockable := make(map[int64]bool)
	err = s.read(ctx, "probe", func(ctx context.Context) error {
		clear(lockable)
		var n int64
		return each(ctx, s.pools.commits, []any{&n}, func() error {
			lockable[n] = true
			return nil
		}, probeStatement(s.dialect), k.apps, k.types, k.ids, k.places)
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

// sendGroup writes a group in one batch up to one Sync, which both databases run
// as one implicit transaction, and returns the IDs of the commits that held. Only
// a nil error means that they are durable: the server may fail the transaction
// after the last result, at Sync.
//
// The caller's context is for getting a connection. After that, the group runs
// to its end: giving up half-way would save nothing, and would leave every
// outcome to be settled.
func (s *commits) sendGroup(ctx context.Context, commits []*actor.Commit) (idSet, error) {
	conn, err := s.pools.commits.Acquire(ctx)
	if err != nil {
		return nil, &notSentError{err}
	}
	defer conn.Release()
	// Twice the server's own limit, so that the server is the one to give up,
	// and says that it did; this one is for a server that says nothing.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*s.cfg.StatementTimeout)
	defer cancel()

	var b pgx.Batch
	parts, ok := s.parts.Get().(*groupParts)
	if !ok {
		parts = newGroupParts(s.dialect)
	}
	defer func() {
		parts.reset()
		s.parts.Put(parts)
	}()
	queries := queueGroup(&b, commits, parts)
	held := make(idSet, len(commits))
	err = sendUnit(ctx, conn.Conn(), &b, func(statement int, values [][]byte) error {
		if statement < queries {
			return held.add(values[0])
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return held, nil
}

// idSet is a set of commits.
type idSet map[actor.CommitID]struct{}

// add adds an ID as a statement returns it.
func (s idSet) add(id []byte) error {
	if len(id) != len(actor.CommitID{}) {
		return fmt.Errorf("a commit ID came back in %d bytes", len(id))
	}
	s[actor.CommitID(id)] = struct{}{}
	return nil
}

// makeRoom removes expired records of the calls that a group records, if the
// group failed for one, and returns what is left to be decided: a commit whose
// own records are in its way was applied before, and that is its answer.
func (s *commits) makeRoom(ctx context.Context, group []*attempt, cause error) ([]*attempt, error) {
	var server *pgconn.PgError
	if !errors.As(cause, &server) || !isRecordInPlace(server) {
		return group, nil
	}
	var k recordColumns
	for _, a := range group {
		k.add(a.commit)
	}
	if _, err := s.execFor(ctx, shareOfCommits(commitsOf(group)), "remove expired records", removeExpired, k.ids); err != nil {
		return group, err
	}
	own, err := s.outcomes.records.recordedBy(ctx, commitsOf(group))
	if err != nil || len(own) == 0 {
		return group, err
	}
	var undecided []*attempt
	for _, a := range group {
		if !own[a.commit.ID] {
			undecided = append(undecided, a)
		}
	}
	return undecided, nil
}

// errNotHeld ends the transaction of a commit that is refused.
var errNotHeld = errors.New("the commit does not hold")

// commitAlone decides a commit that changes services: in a transaction of its own, since a service
// that is taken must refuse this commit and no other. Such commits are rare.
func (s *commits) commitAlone(ctx context.Context, a *attempt) {
	conn, err := s.pools.commits.Acquire(ctx)
	if err != nil {
		a.err = asStoreError(ctx, "commit", unavailable("send", err))
		return
	}
	err = s.transact(ctx, conn, 2*s.cfg.StatementTimeout, func(tx pgx.Tx) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*s.cfg.StatementTimeout)
		defer cancel()
		if err := changeServices(ctx, tx, a.commit); err != nil {
			return err
		}
		if len(a.commit.Records) > 0 { // as in a locked turn
			k := recordColumns{dialect: s.dialect}
			k.add(a.commit)
			if _, err := tx.Exec(ctx, removeExpired, k.ids); err != nil {
				return fmt.Errorf("make room for the keys of the commit: %w", err)
			}
		}
		var b pgx.Batch
		deciding := queueGroup(&b, []*actor.Commit{a.commit}, newGroupParts(s.dialect))
		results, held := tx.SendBatch(ctx, &b), false
		for i := range b.Len() {
			rows, err := results.Query()
			if err != nil {
				return errors.Join(fmt.Errorf("commit: %w", err), results.Close())
			}
			for rows.Next() {
				held = held || i < deciding && string(rows.RawValues()[0]) == string(a.commit.ID[:])
			}
			rows.Close()
			if err := rows.Err(); err != nil {
				return errors.Join(fmt.Errorf("commit: %w", err), results.Close())
			}
		}
		if err := results.Close(); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		if !held {
			return &finalError{errNotHeld}
		}
		return nil
	})
	conn.Release()
	var final *finalError
	var lost *lostCommitError
	switch {
	case err == nil:
	case errors.As(err, &final) && errors.Is(final.cause, errNotHeld):
		s.outcomes.refusals(ctx, []*attempt{a})
	case errors.As(err, &final):
		a.err = final.cause
	case errors.As(err, &lost):
		s.outcomes.settleLost(ctx, []*attempt{a}, lost.cause)
	default:
		a.err = asStoreError(ctx, "commit", err)
	}
}
