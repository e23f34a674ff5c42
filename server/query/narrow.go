package query

import (
	"math"
	"strconv"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/greenroom-run/greenroom/store"
)

const (
	// maxExclusions bounds what a store is asked to look for in each state.
	maxExclusions = 8
	// maxPath is how deep in a state it is asked to look.
	maxPath = 8
)

// narrowed is what a store can do of a filter: the filter is false, whatever else it says, for
// every row out of the range of IDs, and for every row that an exclusion rules out.
type narrowed struct {
	from, before string // IDs: inclusive, exclusive; empty: no bound
	none         bool   // no ID is in the range
	exclusions   []store.Exclusion
}

// narrow reads the parts of a filter that are joined by &&.
func narrow(filter *ast.AST) narrowed {
	var n narrowed
	n.part(filter.Expr())
	n.none = n.none || n.before != "" && n.from >= n.before
	return n
}

func (n *narrowed) part(e ast.Expr) {
	switch e.Kind() {
	case ast.CallKind:
		n.call(e.AsCall())
	case ast.SelectKind:
		if path := pathOf(e); path != nil {
			n.exclude(store.Exclusion{Path: path, Test: store.BoolFalse}) // state.paid
		} else if path := testedPath(e); path != nil {
			n.exclude(store.Exclusion{Path: path, Test: store.Absent}) // has(state.paid)
		}
	}
}

func (n *narrowed) call(c ast.CallExpr) {
	args := c.Args()
	switch fn := c.FunctionName(); {
	case fn == operators.LogicalAnd:
		for _, arg := range args {
			n.part(arg)
		}
	case fn == operators.LogicalNot:
		if path := pathOf(args[0]); path != nil { // !state.paid
			n.exclude(store.Exclusion{Path: path, Test: store.BoolTrue})
		}
	case fn == overloads.StartsWith && c.IsMemberFunction() && len(args) == 1:
		if prefix, ok := textOf(args[0]); ok && isID(c.Target()) {
			n.atLeast(prefix)
			n.below(store.TextAfter(prefix))
		}
	case len(args) == 2:
		if literal := literalOf(args[1]); literal != nil {
			n.compare(fn, args[0], literal)
		} else if literal := literalOf(args[0]); literal != nil {
			n.compare(mirrored(fn), args[1], literal)
		}
	}
}

// mirrored is the operator of which left and right are exchanged.
func mirrored(operator string) string {
	switch operator {
	case operators.Less:
		return operators.Greater
	case operators.LessEquals:
		return operators.GreaterEquals
	case operators.Greater:
		return operators.Less
	case operators.GreaterEquals:
		return operators.LessEquals
	case operators.Equals, operators.NotEquals:
		return operator
	}
	return ""
}

// compare reads a comparison with a literal.
func (n *narrowed) compare(operator string, e ast.Expr, literal ref.Val) {
	text, isText := literal.(types.String)
	if isText && strings.IndexByte(string(text), 0) >= 0 {
		return // no store has it in a text
	}
	if isID(e) && isText {
		n.compareID(operator, string(text))
		return
	}
	path := pathOf(e)
	if path == nil {
		return
	}
	switch v := literal.(type) {
	case types.String:
		switch operator {
		case operators.Equals:
			n.exclude(store.Exclusion{Path: path, Test: store.StringOtherThan, Text: string(v)})
		case operators.NotEquals:
			n.exclude(store.Exclusion{Path: path, Test: store.StringIs, Text: string(v)})
		}
	case types.Bool:
		if equal := operator == operators.Equals; equal || operator == operators.NotEquals {
			test := store.BoolTrue
			if equal == bool(v) {
				test = store.BoolFalse
			}
			n.exclude(store.Exclusion{Path: path, Test: test})
		}
	case types.Int:
		// Beyond 53 bits CEL compares an int with a double after rounding it.
		if v >= -1<<53 && v <= 1<<53 {
			n.compareNumber(operator, path, float64(v))
		}
	case types.Double:
		n.compareNumber(operator, path, float64(v))
	}
}

func (n *narrowed) compareID(operator, text string) {
	above := text + "\x01" // no ID has control characters: the first that may be above text
	switch operator {
	case operators.Equals:
		n.atLeast(text)
		n.below(above)
	case operators.Greater:
		n.atLeast(above)
	case operators.GreaterEquals:
		n.atLeast(text)
	case operators.Less:
		n.below(text)
		n.none = n.none || text == ""
	case operators.LessEquals:
		n.below(above)
	}
}

func (n *narrowed) atLeast(id string) { n.from = max(n.from, id) }

func (n *narrowed) below(id string) {
	if id != "" && (n.before == "" || id < n.before) {
		n.before = id
	}
}

// compareNumber excludes numbers for which a comparison with v is false. A number of JSON may
// have more digits than a double, which its comparison is made with: it is rounded to the
// nearest, and rounding keeps order. So what is at most v is not above v after it; what is below
// v may be v, but not what is at most the double before v.
func (n *narrowed) compareNumber(operator string, path []string, v float64) {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return
	}
	at, previous, following := decimal(v), decimal(math.Nextafter(v, math.Inf(-1))), decimal(math.Nextafter(v, math.Inf(1)))
	between := func(low, high string) {
		n.exclude(store.Exclusion{Path: path, Test: store.NumberBetween, Low: low, High: high})
	}
	switch operator {
	case operators.Greater:
		between("", at)
	case operators.GreaterEquals:
		between("", previous)
	case operators.Less:
		between(at, "")
	case operators.LessEquals:
		between(following, "")
	case operators.Equals:
		between("", previous)
		between(following, "")
	case operators.NotEquals:
		between(at, at)
	}
}

// decimal is a text that is read as v; of v infinite, a number that is read as such.
func decimal(v float64) string {
	switch {
	case math.IsInf(v, 1):
		return "2e308"
	case math.IsInf(v, -1):
		return "-2e308"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

func (n *narrowed) exclude(e store.Exclusion) {
	if len(n.exclusions) < maxExclusions {
		n.exclusions = append(n.exclusions, e)
	}
}

func isID(e ast.Expr) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == "id" }

func literalOf(e ast.Expr) ref.Val {
	if e.Kind() != ast.LiteralKind {
		return nil
	}
	return e.AsLiteral()
}

// textOf returns a literal string without zero characters.
func textOf(e ast.Expr) (string, bool) {
	s, ok := literalOf(e).(types.String)
	return string(s), ok && strings.IndexByte(string(s), 0) < 0
}

// pathOf returns the names of the members that lead from the state to e, nil if e is no such
// member: state.a.b and state["a"].b are.
func pathOf(e ast.Expr) []string {
	path := pathTo(e)
	if len(path) == 0 || len(path) > maxPath {
		return nil
	}
	return path
}

// testedPath is pathOf for the member that has(…) asks for.
func testedPath(e ast.Expr) []string {
	s := e.AsSelect()
	parent := pathTo(s.Operand())
	if !s.IsTestOnly() || parent == nil || len(parent) >= maxPath {
		return nil
	}
	return append(parent, s.FieldName())
}

// pathTo returns the path to e, empty for the state itself and nil for all else.
func pathTo(e ast.Expr) []string {
	switch e.Kind() {
	case ast.IdentKind:
		if e.AsIdent() == "state" {
			return []string{}
		}
	case ast.SelectKind:
		s := e.AsSelect()
		if parent := pathTo(s.Operand()); parent != nil && !s.IsTestOnly() {
			return append(parent, s.FieldName())
		}
	case ast.CallKind:
		c := e.AsCall()
		if c.FunctionName() != operators.Index || len(c.Args()) != 2 {
			return nil
		}
		if name, ok := textOf(c.Args()[1]); ok {
			if parent := pathTo(c.Args()[0]); parent != nil {
				return append(parent, name)
			}
		}
	}
	return nil
}

// uses is what an expression reads and does.
type uses struct {
	state bool
	// loops: the work is not bounded by the length of the expression and the bytes of the state
	// alone. Macros repeat it, a regular expression multiplies it, and + may join long texts
	// again and again.
	loops bool
}

func usesOf(of *cel.Ast) (u uses) {
	ast.PreOrderVisit(of.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.IdentKind:
			u.state = u.state || e.AsIdent() == "state"
		case ast.ComprehensionKind:
			u.loops = true
		case ast.CallKind:
			switch e.AsCall().FunctionName() {
			case overloads.Matches, operators.Add:
				u.loops = true
			}
		}
	}))
	return u
}
