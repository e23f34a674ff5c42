package call

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"

	"github.com/greenroom-run/greenroom/actor"
)

// ChainStats is what a turn and those that it has called were together.
type ChainStats struct {
	// Actors, Calls and Depth are of the last run: how many actors the chain had, that of the
	// outermost turn included, how many calls it made, and how deep they were nested.
	Actors, Calls, Depth int
	// Deadlocks is how often the chain ran again because it and others waited for each other.
	Deadlocks int
}

// ChainRecord is what is known of the chain of a call, of all its runs. Nil records nothing.
type ChainRecord struct {
	ChainStats
	Born uint64 // the place of the first run in the order of chains
	tree []calledTurn
	// Unsettled has the calls, of all runs, whose outcome at another host is unknown.
	Unsettled []actor.KeyedCall
	// waits is what the last run waited for when its time was over; empty: for nothing.
	waits string
	// listed counts the calls of a list that the last run has admitted, and admitted the most that any run has.
	listed, admitted int
}

// calledTurn is one call of the last run, in the order of their beginnings.
type calledTurn struct {
	depth  int
	key    actor.Key
	method string
	failed string // the code; empty: it succeeded, or has not ended
}

// maxTree is how many calls of a chain the log shows.
const maxTree = 64

// Begin readies the record for the chain of one more run.
func (r *ChainRecord) Begin() {
	r.Actors, r.Calls, r.Depth, r.tree = 1, 0, 0, r.tree[:0]
	r.waits, r.listed = "", 0
}

// IsAdmitted reports whether an earlier run has admitted the call of a list that is next: the calls are the same in
// each run, and each counts once.
func (r *ChainRecord) IsAdmitted() bool { return r.listed < r.admitted }

// Admitted records that the next call of a list was admitted.
func (r *ChainRecord) Admitted() {
	r.listed++
	r.admitted = max(r.admitted, r.listed)
}

// Began records that a call begins, and returns its place.
func (r *ChainRecord) Began(inv *actor.Invocation, depth int) (place int) {
	if r == nil {
		return -1
	}
	r.Calls++
	r.Depth = max(r.Depth, depth)
	if len(r.tree) < maxTree {
		r.tree = append(r.tree, calledTurn{depth: depth, key: inv.Key, method: inv.Method})
		return len(r.tree) - 1
	}
	return -1
}

// Failed records why a call has failed.
func (r *ChainRecord) Failed(place int, code string) {
	if r != nil && place >= 0 {
		r.tree[place].failed = code
	}
}

// IsUnsettled reports whether an earlier run has made a call whose outcome is unknown.
func (r *ChainRecord) IsUnsettled(c actor.KeyedCall) bool { return slices.Contains(r.Unsettled, c) }

// Doubts reports whether the outcome of any call at another host is unknown.
func (r *ChainRecord) Doubts() bool { return r != nil && len(r.Unsettled) > 0 }

// Late records that the time of the run was over during a call, and what the call waited for then;
// empty if it ran.
func (r *ChainRecord) Late(waits string) {
	if r != nil && r.waits == "" {
		r.waits = waits
	}
}

// Explain adds to the error of a turn whose time was over what it waited for.
func (r *ChainRecord) Explain(err error) error {
	var late *actor.ReasonError
	if r == nil || r.waits == "" || !errors.As(err, &late) {
		return err
	}
	return &actor.ReasonError{Condition: late.Condition, Reason: late.Reason + "; " + r.waits}
}

// log logs that the chain of an invocation has failed. Errors that guests return on purpose are of no interest
// most of the time.
func (r *ChainRecord) log(logger *slog.Logger, inv *actor.Invocation, err error) {
	level := slog.LevelWarn
	if guest := (*actor.GuestError)(nil); errors.As(err, &guest) {
		level = slog.LevelDebug
	}
	if !logger.Enabled(context.Background(), level) {
		return
	}
	logger.LogAttrs(context.Background(), level, "chain failed", inv.Trace.AppendLog([]slog.Attr{
		slog.String("app", inv.Key.App), slog.String("actor_type", inv.Key.Type), slog.String("actor_id", inv.Key.ID),
		slog.String("method", inv.Method), slog.String("invocation", inv.ID), slog.Int("actors", r.Actors), slog.Int("calls", r.Calls),
		slog.Int("deadlocks", r.Deadlocks), slog.String("tree", r.text()), slog.Any("error", err),
	})...)
}

// text returns the calls of the last run: T b.Do: trap [T c.Do], T d.Do.
func (r *ChainRecord) text() string {
	var b strings.Builder
	depth := 1
	for i, t := range r.tree {
		switch {
		case t.depth > depth:
			b.WriteString(" [")
		case i > 0:
			b.WriteString(strings.Repeat("]", depth-t.depth) + ", ")
		}
		depth = t.depth
		b.WriteString(t.key.Type + " " + t.key.ID + "." + t.method)
		if t.failed != "" {
			b.WriteString(": " + t.failed)
		}
	}
	b.WriteString(strings.Repeat("]", depth-1))
	if r.Calls > len(r.tree) {
		b.WriteString(", …")
	}
	return b.String()
}
