package actortest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// sharedDirective is the comment above a variable that is meant to be shared.
const sharedDirective = "//greenroom:shared"

// actorPackage is what a file imports that is part of a guest.
const actorPackage = "github.com/greenroom-run/greenroom/guest-sdk/go/actor"

var complainOnce sync.Once

// complainOfVariables fails the test for each package variable of the guest in dir
// that is changed other than by its initialization. Where the source is not, it
// says nothing.
func complainOfVariables(t testing.TB, dir string) {
	t.Helper()
	names, _ := filepath.Glob(filepath.Join(dir, "*.go")) // the pattern is good
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		if f, err := parser.ParseFile(fset, name, nil, parser.ParseComments); err == nil && importsActor(f) {
			files = append(files, f)
		}
	}
	variables := map[string]*ast.ValueSpec{}
	for _, f := range files {
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR {
				for _, spec := range g.Specs {
					v := spec.(*ast.ValueSpec)
					if !isShared(g.Doc) && !isShared(v.Doc) {
						for _, name := range v.Names {
							variables[name.Name] = v
						}
					}
				}
			}
		}
	}
	for _, f := range files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil || fn.Name.Name == "init" && fn.Recv == nil {
				continue
			}
			for _, id := range changes(fn.Body) {
				spec := variables[id.Name]
				// An identifier that the parser resolved to something else is local.
				if spec == nil || id.Obj != nil && id.Obj.Decl != spec {
					continue
				}
				t.Errorf("actortest: %s: %s changes the package variable %s; it is seen by whatever actors an instance serves, and lost when a host puts the instance back. "+
					"Keep it in the state, or, if any actor may see and lose it, write %s above it", fset.Position(id.Pos()), fn.Name.Name, id.Name, sharedDirective)
				delete(variables, id.Name) // once each
			}
		}
	}
}

func importsActor(f *ast.File) bool {
	for _, imp := range f.Imports {
		if path, err := strconv.Unquote(imp.Path.Value); err == nil && path == actorPackage {
			return true
		}
	}
	return false
}

func isShared(doc *ast.CommentGroup) bool {
	if doc != nil {
		for _, line := range doc.List {
			if line.Text == sharedDirective {
				return true
			}
		}
	}
	return false
}

// changes returns what is assigned to in a body, element by element too: the
// identifiers at the root of each left side, and of what delete and clear take.
func changes(body *ast.BlockStmt) (roots []*ast.Ident) {
	add := func(x ast.Expr) {
		for {
			switch e := x.(type) {
			case *ast.Ident:
				roots = append(roots, e)
				return
			case *ast.SelectorExpr:
				x = e.X
			case *ast.IndexExpr:
				x = e.X
			case *ast.StarExpr:
				x = e.X
			case *ast.ParenExpr:
				x = e.X
			default:
				return
			}
		}
	}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				for _, left := range n.Lhs {
					add(left)
				}
			}
		case *ast.IncDecStmt:
			add(n.X)
		case *ast.CallExpr:
			if fn, ok := n.Fun.(*ast.Ident); ok && (fn.Name == "delete" || fn.Name == "clear") && len(n.Args) > 0 {
				add(n.Args[0])
			}
		}
		return true
	})
	return roots
}
