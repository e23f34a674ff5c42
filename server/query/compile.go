package query

import (
	"fmt"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/checker"

	"github.com/greenroom-run/greenroom/actor"
)

const (
	// MaxCost is what the expressions of a query may cost for one row each, in CEL's steps: about
	// one for each name, member, operator and round of a macro, and one for each ten bytes that
	// a function of strings reads. A step takes some 10 to 100 ns.
	MaxCost = 100_000
	// unknownCost is what an estimate is above if it depends on the sizes of values.
	unknownCost = 1e15
	// maxNodes bounds the parts of an expression.
	maxNodes = 1000
	// maxRegexp bounds the program of a regular expression, in instructions.
	maxRegexp = 1000
	// checkEvery is after how many rounds of a macro the context is looked at.
	checkEvery = 100
)

// names are what expressions may use, as [row] resolves them.
const names = "id, version, generation, state_schema, state_size, updated_at, method_set, life, spawned, now and state"

// Compiler compiles expressions. It may be used concurrently.
type Compiler struct{ env *cel.Env }

// NewCompiler returns a compiler.
func NewCompiler() *Compiler {
	env, err := cel.NewEnv(
		cel.Variable("id", cel.StringType),
		cel.Variable("version", cel.IntType),
		cel.Variable("generation", cel.IntType),
		cel.Variable("state_schema", cel.IntType),
		cel.Variable("state_size", cel.IntType),
		cel.Variable("updated_at", cel.TimestampType),
		cel.Variable("method_set", cel.StringType),
		cel.Variable("life", cel.IntType),
		cel.Variable("spawned", cel.BoolType),
		cel.Variable("now", cel.TimestampType),
		cel.Variable("state", cel.MapType(cel.StringType, cel.DynType)),
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true),
		cel.EnableIdentifierEscapeSyntax(),
		cel.ExpressionNodeLimit(maxNodes),
		cel.RegexProgramSizeLimit(maxRegexp),
	)
	if err != nil {
		panic(err) // the declarations are constant
	}
	return &Compiler{env}
}

// Compile returns the query for a filter, which may be empty, and expressions whose values are
// wanted. What is wrong with one is an [*actor.ArgumentError] with its place and the remedy.
func (c *Compiler) Compile(filter string, selects []string) (*Query, error) {
	q := &Query{}
	if filter != "" {
		ast, program, err := c.compile(q, "filter", filter)
		if err != nil {
			return nil, err
		}
		if t := ast.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
			return nil, &actor.ArgumentError{Field: "filter", Problem: fmt.Sprintf("is a %s; a filter is true or false: compare it with something, as in state.total > 100", t)}
		}
		q.filter, q.narrowed = program, narrow(ast.NativeRep())
	}
	for i, text := range selects {
		_, program, err := c.compile(q, fmt.Sprintf("select[%d]", i), text)
		if err != nil {
			return nil, err
		}
		q.selects = append(q.selects, program)
	}
	return q, nil
}

// compile makes a program of q.
func (c *Compiler) compile(q *Query, field, text string) (*cel.Ast, cel.Program, error) {
	refuse := func(format string, args ...any) error {
		return &actor.ArgumentError{Field: field, Problem: fmt.Sprintf(format, args...)}
	}
	ast, issues := c.env.Compile(text)
	if issues.Err() != nil {
		first := issues.Errors()[0]
		at := ""
		if l := first.Location; l.Line() > 0 {
			at = fmt.Sprintf(" at line %d, column %d", l.Line(), l.Column()+1)
		}
		return nil, nil, refuse("is wrong%s: %s; %s", at, strings.TrimSpace(first.Message), remedy(first.Message))
	}
	cost, err := c.env.EstimateCost(ast, sizes{})
	if err != nil {
		return nil, nil, refuse("cannot be estimated: %v; make it simpler", err)
	}
	if cost.Max > MaxCost && cost.Max < unknownCost {
		return nil, nil, refuse("may cost %d steps for each actor, and %d are allowed; leave out loops over long lists, and loops within loops", cost.Max, MaxCost)
	}
	options := []cel.ProgramOption{cel.EvalOptions(cel.OptOptimize)}
	uses := usesOf(ast)
	q.needsState = q.needsState || uses.state
	if uses.loops {
		q.costly = true
		options = append(options, cel.CostLimit(MaxCost), cel.InterruptCheckFrequency(checkEvery))
	}
	program, err := c.env.Program(ast, options...)
	if err != nil {
		return nil, nil, refuse("is wrong: %v; %s", err, remedy(err.Error()))
	}
	return ast, program, nil
}

// remedy is what to do about a message of CEL's.
func remedy(message string) string {
	switch {
	case strings.Contains(message, "undeclared reference"):
		return "the names are " + names + "; a member of the state is state.NAME, and texts have quotes"
	case strings.Contains(message, "no matching overload"):
		return "convert one side, as with int(…), double(…) or string(…)"
	case strings.Contains(message, "token recognition error at: '= "), strings.Contains(message, "mismatched input 'and'"), strings.Contains(message, "mismatched input 'or'"):
		return "CEL has == for equal, && for and, || for or, ! for not"
	case strings.Contains(message, "google.protobuf.Duration"):
		return `durations are such as duration("24h"), with h, m, s and ms`
	case strings.Contains(message, "RFC 3339"):
		return `times are such as timestamp("2026-12-24T18:00:00Z")`
	case strings.Contains(message, "expression"):
		return "make it shorter"
	}
	return "docs/query.md has the language"
}

// sizes knows nothing of the sizes of values: what depends on them costs anything up to [unknownCost]
// and more.
type sizes struct{}

func (sizes) EstimateSize(checker.AstNode) *checker.SizeEstimate { return nil }

func (sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}
