package query

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// Query is a filter and expressions, ready to run. It may be used concurrently.
type Query struct {
	filter     cel.Program // nil: all actors
	selects    []cel.Program
	narrowed   narrowed
	needsState bool
	costly     bool // the work for a row is counted
}

// Scanner reads the rows of actors; every store does.
type Scanner interface {
	ScanActors(ctx context.Context, q store.ActorScan, visit func(row *store.ScannedActor) (more bool)) (examined int, next string, err error)
}

// Bounds are how much one Run reads and returns. The zero value of a field means its default.
type Bounds struct {
	// Rows are rows to examine. Defaults to 200,000.
	Rows int
	// Time is how long to read; at least one step of the store is read. Defaults to 500 ms.
	Time time.Duration
	// StateBytes are bytes of states that one step of the store reads, and one more state at
	// most. Defaults to 4 MiB.
	StateBytes int64
	// ValueBytes are bytes of selected values, and those of one more actor at most. Defaults to
	// 1 MiB.
	ValueBytes int
}

// WithDefaults returns b with the defaults filled in.
func (b Bounds) WithDefaults() Bounds {
	if b.Rows == 0 {
		b.Rows = 200_000
	}
	if b.Time == 0 {
		b.Time = 500 * time.Millisecond
	}
	if b.StateBytes == 0 {
		b.StateBytes = 4 << 20
	}
	if b.ValueBytes == 0 {
		b.ValueBytes = 1 << 20
	}
	return b
}

// Page is where and how far a query runs.
type Page struct {
	App, Type string
	Prefix    string // of IDs; empty: all
	After     string // exclusive; empty: from the first
	// Size is how many actors to find. 0 only counts them.
	Size       int
	AllowStale bool
	// Now returns the time, which the name now is, and which bounds the run.
	Now    func() time.Time
	Bounds Bounds
}

// Found is an actor that meets a filter.
type Found struct {
	store.ScannedActor // without its state
	// Selected has a JSON text for each selected expression, empty if it has no value.
	Selected []string
}

// Result is what a page has.
type Result struct {
	Found []Found
	Next  string // the ID after which the query goes on; empty if there is no more
	// Rows by what became of them. Examined are all.
	Examined, Matched, NotJSON, Failed, Damaged int
	Failure                                     string // of the first that failed
}

// Run finds actors. Errors are those of the store and of the context.
func (q *Query) Run(ctx context.Context, s Scanner, p Page) (*Result, error) {
	p.Bounds = p.Bounds.WithDefaults()
	began := p.Now()
	r := &run{Query: q, ctx: ctx, page: p, vars: row{now: types.Timestamp{Time: began}}, deadline: began.Add(p.Bounds.Time), rested: began}
	from, before := max(q.narrowed.from, p.Prefix), q.narrowed.before
	if p.Prefix != "" {
		if end := store.TextAfter(p.Prefix); end != "" && (before == "" || end < before) {
			before = end
		}
	}
	if q.narrowed.none || before != "" && from >= before {
		return &r.Result, nil
	}
	after := p.After
	for step := began; ; {
		r.rests = 0
		examined, next, err := s.ScanActors(ctx, store.ActorScan{
			App: p.App, Type: p.Type, After: after, From: from, Before: before, Limit: min(store.MaxExamined, p.Bounds.Rows-r.Examined),
			States: q.needsState, MaxBytes: p.Bounds.StateBytes, Exclusions: q.narrowed.exclusions, AllowStale: p.AllowStale,
		}, r.visit)
		if err == nil {
			err = ctx.Err() // an expression that was interrupted has failed for that
		}
		if err != nil {
			return nil, fmt.Errorf("query actors: %w", err)
		}
		r.Examined += examined
		r.Next, after = next, next
		now := p.Now()
		if next == "" || r.full || r.Examined >= p.Bounds.Rows || !now.Before(r.deadline) {
			return &r.Result, nil
		}
		// The database may share its processors with the turns of others, and what it leaves out is
		// work that visit does not see.
		if owed := (now.Sub(step)-r.rests)/works - r.rests; owed > 0 {
			r.rest(now, owed)
			now = r.rested
		}
		step = now
	}
}

// run is a query that is running.
type run struct {
	*Query
	Result
	ctx      context.Context
	page     Page
	vars     row
	deadline time.Time
	rested   time.Time     // the end of the latest rest
	rests    time.Duration // in this step of the store
	visited  int
	bytes    int
	full     bool
}

const (
	// breath is after how many rows a run looks at the time: some 50 µs.
	breath = 32
	// stretch is how long a run works before it rests, and works how many times as long as it rests;
	// it rests after a step of the store as well. A thread that works all the time waits for its next
	// turn at a processor behind all others, and with it the goroutines that the Go scheduler gives it.
	stretch, works = time.Millisecond, 2
)

// visit evaluates a row.
func (r *run) visit(row *store.ScannedActor) (more bool) {
	r.visited++
	r.evaluate(row)
	// Rows whose expressions cost much are few: each looks at the time.
	if !r.full && (r.costly || r.visited%breath == 0) {
		now := r.page.Now()
		r.full = !now.Before(r.deadline)
		if !r.full && now.Sub(r.rested) >= stretch {
			r.rest(now, stretch/works)
		}
	}
	return !r.full && r.ctx.Err() == nil
}

// rest returns after that long, or when the context ends.
func (r *run) rest(now time.Time, long time.Duration) {
	select {
	case <-time.After(long):
	case <-r.ctx.Done():
	}
	r.rested = r.page.Now()
	r.rests += r.rested.Sub(now)
}

func (r *run) evaluate(row *store.ScannedActor) {
	if row.Damaged {
		r.Damaged++
		return
	}
	if r.needsState && !r.vars.read(row) {
		r.NotJSON++
		return
	}
	r.vars.ScannedActor = row
	if r.filter != nil {
		is, err := r.meets()
		if err != nil {
			if r.Failed++; r.Failed == 1 {
				r.Failure = fmt.Sprintf("actor %q: %.200s", row.Key.ID, err)
			}
			return
		}
		if !is {
			return
		}
	}
	r.Matched++
	if r.page.Size == 0 {
		return
	}
	f := Found{ScannedActor: *row}
	f.State = actor.EncodedState{}
	for _, p := range r.selects {
		value := r.value(p)
		f.Selected = append(f.Selected, value)
		r.bytes += len(value)
	}
	r.Found = append(r.Found, f)
	r.full = len(r.Found) == r.page.Size || r.bytes >= r.page.Bounds.ValueBytes
}

var errNoBool = errors.New("the filter is neither true nor false")

// meets evaluates the filter.
func (r *run) meets() (bool, error) {
	v, err := r.eval(r.filter)
	if err != nil {
		return false, err
	}
	is, ok := v.(types.Bool)
	if !ok {
		return false, errNoBool
	}
	return bool(is), nil
}

// value evaluates a selected expression.
func (r *run) value(p cel.Program) string {
	v, err := r.eval(p)
	if err != nil {
		return ""
	}
	text, err := appendJSON(nil, v)
	if err != nil {
		return ""
	}
	return string(text)
}

func (r *run) eval(p cel.Program) (ref.Val, error) {
	if r.costly {
		v, _, err := p.ContextEval(r.ctx, &r.vars)
		return v, err
	}
	v, _, err := p.Eval(&r.vars)
	return v, err
}

// row has the values of names: it is an activation of CEL.
type row struct {
	*store.ScannedActor
	now   types.Timestamp
	state object
}

// read takes the state of a row, and reports whether it is JSON. An actor without state has an
// empty one.
func (v *row) read(from *store.ScannedActor) bool {
	switch from.State.Format {
	case actor.FormatJSON:
		v.state.read(text(from.State.Data), 0)
	case actor.FormatNone:
		v.state.read(text("{}"), 0)
	default:
		return false
	}
	return true
}

// ResolveName implements [cel.Activation].
func (v *row) ResolveName(name string) (any, bool) {
	switch name {
	case "state":
		return &v.state, true
	case "id":
		return v.Key.ID, true
	case "version":
		return integer(v.Version), true
	case "generation":
		return integer(v.Generation), true
	case "state_schema":
		return int64(v.StateSchema), true
	case "state_size":
		return v.StateSize, true
	case "updated_at":
		return v.UpdatedAt, true
	case "method_set":
		return v.MethodSet, true
	case "life":
		return integer(v.Life), true
	case "spawned":
		return v.Spawned, true
	case "now":
		return v.now, true
	}
	return nil, false
}

// integer is n as CEL's int; no version or count is above it.
func integer(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

// Parent implements [cel.Activation].
func (v *row) Parent() cel.Activation { return nil }
