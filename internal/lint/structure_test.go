package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	maxMethods        = 30
	maxFields         = 16
	maxPackageComment = 80 // lines: about a screen
)

// large is the size of a type that is above the bounds, and why.
type large struct {
	methods, fields int
	why             string
}

// largeTypes are the types above the bounds. The numbers only go down.
var largeTypes = map[string]large{
	"cmd/greenroom.reminderFlags":     {1, 20, "one field for each flag"},
	"engine/binary.Module":            {20, 22, "the sections of a Wasm module"},
	"engine/meter.function":           {34, 13, "the state of rewriting one function: one method for each kind of instruction"},
	"engine/wasm.program":             {6, 17, "what instances of a module share"},
	"guest-sdk/go/actortest.Harness":  {42, 15, "what a test can do and see, one method each"},
	"guest-sdk/go/actortest.turnHost": {49, 6, "the host functions of the ABI, one method each"},
	"host/activation.Activation":      {32, 15, "one method for each step of the calls, hooks and commits of one actor in memory"},
	"host.Host":                       {33, 17, "it wires the parts of the package"},
	"host/hosttest.Actor":             {1, 18, "what a native actor declares, as a manifest does"},
	"host/serving.Type":               {14, 17, "what a manifest and the settings of an app say of a type"},
	"host/turn.Turn":                  {70, 16, "the host functions of the ABI, one method each"},
	"server/metrics.Metrics":          {17, 29, "one field for each metric"},
	"store/embedded.Store":            {8, 18, "one type for each family of keys"},
	"store/sqlstore.Store":            {2, 18, "one type for each family of tables"},
	"store/embedded.reminderRecord":   {6, 19, "the columns of a reminder"},
	"store/sqlstore.scannedReminder":  {3, 17, "the columns of a reminder"},
}

// methodsAway counts the methods of a package that stand neither in the file of their type nor
// in one that is named after it. The numbers only go down.
var methodsAway = map[string]int{
	"abi":                             1,
	"abi/manifest":                    12,
	"actor":                           2,
	"bench/internal/bar":              4,
	"bench/internal/rig":              4,
	"bench/internal/survey":           5,
	"bench/internal/wire":             2,
	"client":                          6,
	"engine/binary":                   17,
	"engine/extism":                   10,
	"engine/meter":                    16,
	"engine/wasm":                     13,
	"examples/cart":                   3,
	"guest-sdk/go/actor":              6,
	"guest-sdk/go/actortest":          63,
	"guest-sdk/go/internal/jsonplan":  12,
	"host":                            9,
	"host/instance":                   5,
	"internal/crash":                  3,
	"internal/demo":                   1,
	"internal/guestbuild":             5,
	"internal/node":                   5,
	"internal/pgtest":                 2,
	"routing":                         22,
	"scheduler/placement":             1,
	"scheduler/reminder":              2,
	"server/stream":                   8,
	"settings":                        12,
	"store/sqlstore/internal/pgproxy": 1,
}

// structType is a type of a package that has methods or fields.
type structType struct {
	file    string
	fields  int
	methods int
	away    int // methods in files that are not named after it
}

// TestStructure keeps types small, methods where their types are, and package comments short. A
// record, which has no methods, may have any number of fields, and so may a Config.
func TestStructure(t *testing.T) {
	root := filepath.Join("..", "..")
	out, err := exec.Command("git", "-C", root, "ls-files", "*.go").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := map[string][]string{}
	for _, name := range strings.Fields(string(out)) {
		if !strings.HasSuffix(name, "_test.go") && !strings.Contains(name, "/gen/") && !strings.Contains(name, "testdata/") {
			packages[filepath.ToSlash(filepath.Dir(name))] = append(packages[filepath.ToSlash(filepath.Dir(name))], filepath.Join(root, name))
		}
	}
	seen := map[string]bool{}
	for _, folder := range slices.Sorted(maps.Keys(packages)) {
		types, comment := structure(t, packages[folder])
		away := 0
		for name, s := range types {
			away += s.away
			if full := folder + "." + name; s.methods > maxMethods || s.fields > maxFields && s.methods > 0 && name != "Config" {
				seen[full] = true
				if known := largeTypes[full]; s.methods != known.methods || s.fields != known.fields {
					t.Errorf("%s has %d methods and %d fields, where %d and %d are known (%s): divide it, or correct largeTypes", full, s.methods, s.fields, known.methods, known.fields, known.why)
				}
			}
		}
		if away != methodsAway[folder] {
			t.Errorf("%s: %d methods stand neither in the file of their type nor in one named after it, where %d are known: move them, or correct methodsAway", folder, away, methodsAway[folder])
		}
		if comment > maxPackageComment {
			t.Errorf("%s: the package comment has %d lines of %d: move its protocols into a protocol.md", folder, comment, maxPackageComment)
		}
	}
	for name := range largeTypes {
		if !seen[name] {
			t.Errorf("%s is not large: remove it from largeTypes", name)
		}
	}
}

// structure reads the files of a package: its types, and the lines of its comment.
func structure(t *testing.T, files []string) (types map[string]*structType, comment int) {
	t.Helper()
	types = map[string]*structType{}
	fset := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range files {
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, f)
		if f.Doc != nil {
			comment = max(comment, fset.Position(f.Doc.End()).Line-fset.Position(f.Doc.Pos()).Line+1)
		}
		for _, d := range f.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok || decl.Tok != token.TYPE {
				continue
			}
			for _, spec := range decl.Specs {
				ts := spec.(*ast.TypeSpec)
				s := &structType{file: name}
				if body, ok := ts.Type.(*ast.StructType); ok {
					s.fields = body.Fields.NumFields()
				}
				types[ts.Name.Name] = s
			}
		}
	}
	for i, f := range parsed {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil {
				continue
			}
			name := receiver(fn.Recv.List[0].Type)
			s := types[name]
			if s == nil {
				continue // declared in a file for another system
			}
			s.methods++
			if files[i] != s.file && !strings.HasPrefix(filepath.Base(files[i]), strings.ToLower(name)) {
				s.away++
			}
		}
	}
	return types, comment
}

// receiver returns the name of a receiver's type.
func receiver(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}
