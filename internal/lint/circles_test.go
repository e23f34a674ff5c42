package lint

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// filesInCircles counts the files of a package that use each other in a circle: no order of
// reading has what a file uses before it. The numbers only go down.
var filesInCircles = map[string]int{
	"bench/internal/inhost":           3,
	"bench/internal/wire":             2,
	"client":                          5,
	"engine/binary":                   6,
	"engine/compile":                  6,
	"engine/extism":                   16,
	"engine/meter":                    12,
	"engine/wasi":                     3,
	"engine/wasm":                     19,
	"engine/wasm/wasmtest":            2,
	"internal/demo":                   3,
	"internal/guestbuild":             4,
	"internal/node":                   6,
	"scheduler/assignment":            10,
	"scheduler/reminder":              4,
	"server/edge":                     5,
	"server/stream":                   4,
	"server/dapr":                     2,
	"store/sqlstore/internal/pgproxy": 3,
}

// TestFilesInOrder keeps the files of each package in layers: a file uses names of the files
// below it, and none of those uses its names, directly or through others.
func TestFilesInOrder(t *testing.T) {
	seen := map[string]bool{}
	packages := loadPackages(t)
	fset := token.NewFileSet()
	exports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(packages.exports[path])
	})
	for _, p := range packages.own {
		folder := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, root), "/")
		files := 0
		circles := circles(fileUses(t, fset, exports, p))
		for _, c := range circles {
			files += len(c)
		}
		seen[folder] = true
		if files != filesInCircles[folder] {
			t.Errorf("%s: %d files use each other in circles, where %d are known: take the circles apart, or correct filesInCircles:", folder, files, filesInCircles[folder])
			for _, c := range circles {
				t.Errorf("    %s", strings.Join(c, ", "))
			}
		}
	}
	for folder := range filesInCircles {
		if !seen[folder] {
			t.Errorf("filesInCircles has %s, which is no package", folder)
		}
	}
}

func TestCircles(t *testing.T) {
	uses := map[string]map[string]bool{
		"a": {"b": true}, "b": {"c": true, "d": true}, "c": {"b": true}, "d": {}, "e": {"f": true}, "f": {"g": true}, "g": {"e": true, "a": true},
	}
	want := "[[b c] [e f g]]"
	if got := strings.ReplaceAll(string(must(json.Marshal(circles(uses)))), `"`, ""); got != strings.ReplaceAll(want, " ", ",") {
		t.Errorf("circles: %s, want %s", got, want)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// listed is what go list says of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	DepOnly                 bool
}

// goPackages are the packages of this module and of bench.
type goPackages struct {
	own     []listed
	exports map[string]string // files of export data, by import path: of their own and of what they import
}

// loadPackages lists the packages of this module and of bench, with the export data of all that they import.
func loadPackages(t *testing.T) (packages goPackages) {
	t.Helper()
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,DepOnly", "./...", "./bench/...")
	cmd.Dir = filepath.Join("..", "..")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	packages.exports = map[string]string{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages.exports[p.ImportPath] = p.Export
		if !p.DepOnly && !strings.Contains(p.ImportPath, "/gen/") && len(p.GoFiles) > 0 {
			packages.own = append(packages.own, p)
		}
	}
}

// fileUses returns which files of a package use names that other files of it declare.
func fileUses(t *testing.T, fset *token.FileSet, exports types.Importer, p listed) map[string]map[string]bool {
	t.Helper()
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	config := types.Config{Importer: exports}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	checked, err := config.Check(p.ImportPath, fset, files, info)
	if err != nil {
		t.Fatal(err)
	}
	file := func(pos token.Pos) string { return filepath.Base(fset.Position(pos).Filename) }
	uses := map[string]map[string]bool{}
	for ident, object := range info.Uses {
		if object.Pkg() != checked || !ident.Pos().IsValid() || !object.Pos().IsValid() {
			continue
		}
		from, to := file(ident.Pos()), file(object.Pos())
		if from != to {
			if uses[from] == nil {
				uses[from] = map[string]bool{}
			}
			uses[from][to] = true
		}
	}
	return uses
}

// circles returns the strongly connected components of more than one node (Tarjan 1972), each
// in order of names, and the components in order of their first ones.
func circles(uses map[string]map[string]bool) (found [][]string) {
	index, low, onStack := map[string]int{}, map[string]int{}, map[string]bool{}
	var stack []string
	var visit func(string)
	visit = func(n string) {
		index[n] = len(index) + 1
		low[n] = index[n]
		stack, onStack[n] = append(stack, n), true
		for _, m := range slices.Sorted(maps.Keys(uses[n])) {
			if index[m] == 0 {
				visit(m)
				low[n] = min(low[n], low[m])
			} else if onStack[m] {
				low[n] = min(low[n], index[m])
			}
		}
		if low[n] != index[n] {
			return
		}
		at := slices.Index(stack, n)
		component := slices.Sorted(slices.Values(stack[at:]))
		for _, m := range component {
			onStack[m] = false
		}
		stack = stack[:at]
		if len(component) > 1 {
			found = append(found, component)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(uses)) {
		if index[n] == 0 {
			visit(n)
		}
	}
	slices.SortFunc(found, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	return found
}
