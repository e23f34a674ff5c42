package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// order refuses commits with ordered steps before which there are earlier messages.
//
// It looks before the commit is sent, in a statement of its own. That decides for ever:
// messages of one sender to one receiver are set in the order of their names, and whoever
// names one has read it, or has set it. So there is none before it later that was not there
// when order looked.
type order struct {
	*db
	known *store.Order
}

// earlierMessage reads one range of messages. Each range is a statement, since CockroachDB has
// no plan that reads several by their bounds; they go together.
const earlierMessage = `SELECT r.name FROM greenroom_reminder AS r
	WHERE r.app = $1 AND r.type = $2 AND r.id = $3 AND r.name >= $4 AND r.name < $5 LIMIT 1`

// orderedRange is a range of one of several commits.
type orderedRange struct {
	store.OrderRange
	commit int
}

// rangesOf returns the ranges in which commits may have no message.
func (s *order) rangesOf(n int, commit func(int) *actor.Commit) (ranges []orderedRange) {
	for i := range n {
		c := commit(i)
		if !hasOrder(c) { // as most
			continue
		}
		for _, r := range s.known.OrderRanges(store.ReminderOps(c)) {
			ranges = append(ranges, orderedRange{r, i})
		}
	}
	return ranges
}

func hasOrder(c *actor.Commit) bool {
	for i := range c.Reminders.Steps {
		if c.Reminders.Steps[i].Ordered {
			return true
		}
	}
	return false
}

// batcher is what sends the statements of order: a connection or a transaction.
type batcher interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// behind returns the places of the commits with a message in one of their ranges.
func behind(ctx context.Context, conn batcher, ranges []orderedRange) (map[int]bool, error) {
	var b pgx.Batch
	for _, r := range ranges {
		b.Queue(earlierMessage, r.Key.App, r.Key.Type, r.Key.ID, r.From, r.To)
	}
	found := map[int]bool{}
	results := conn.SendBatch(ctx, &b)
	for _, r := range ranges {
		var name string
		switch err := results.QueryRow().Scan(&name); {
		case err == nil:
			found[r.commit] = true
		case !errors.Is(err, pgx.ErrNoRows):
			_ = results.Close()
			return nil, err
		}
	}
	return found, results.Close()
}

// sift answers the attempts that are not in order, and returns the others in the same memory.
func (s *order) sift(ctx context.Context, all []*attempt, why func(context.Context, []*attempt)) []*attempt {
	ranges := s.rangesOf(len(all), func(i int) *actor.Commit { return all[i].commit })
	if len(ranges) == 0 {
		return all
	}
	var found map[int]bool
	err := s.readFor(ctx, shareOfCommits(commitsOf(all)), "find earlier messages", func(ctx context.Context, conn *pgxpool.Conn) (err error) {
		found, err = behind(ctx, conn, ranges)
		return err
	})
	if err != nil { // nobody knows which are
		found = map[int]bool{}
		for _, r := range ranges {
			found[r.commit] = true
		}
	}
	rest := all[:0:0]
	var refused []*attempt
	for i, a := range all {
		switch {
		case !found[i]:
			rest = append(rest, a)
		case err != nil:
			a.err = err
		default:
			refused = append(refused, a)
		}
	}
	if len(refused) == 0 {
		return rest
	}
	// A recorded key and a firing that was taken go before the order.
	why(ctx, refused)
	for _, a := range refused {
		if errors.Is(a.err, actor.ErrStale) {
			a.err = outOfOrder(a.commit)
		}
	}
	return rest
}

func outOfOrder(c *actor.Commit) error {
	for i := range c.Reminders.Steps {
		if st := &c.Reminders.Steps[i]; st.Ordered {
			return fmt.Errorf("message %q to %s: %w", st.Name, st.Key, actor.ErrMessageOrder)
		}
	}
	return actor.ErrMessageOrder
}

// check is sift for the commit of a transaction.
func (s *order) check(ctx context.Context, tx pgx.Tx, c *actor.Commit) error {
	ranges := s.rangesOf(1, func(int) *actor.Commit { return c })
	if len(ranges) == 0 {
		return nil
	}
	found, err := behind(ctx, tx, ranges)
	switch {
	case err != nil:
		return fmt.Errorf("find earlier messages: %w", err)
	case len(found) > 0:
		return &finalError{outOfOrder(c)}
	}
	return nil
}
