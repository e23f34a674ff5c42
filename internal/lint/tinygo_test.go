package lint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What guests are made of has to compile with TinyGo, which is not there in every
// build. These tests read it as TinyGo does, for GOOS=wasip1 with and without the
// build tag, and refuse what TinyGo 0.40 refuses, and what it compiles and then
// panics in. The rules are those of its own source (compiler, src/reflect) and of
// https://tinygo.org/docs/reference/lang-support.

// guestGo is the newest go directive that TinyGo 0.40 takes.
const guestGo = 25 // of 1.25

// guestModules are the modules that guests are built from, below the root of the
// repository, and the packages of each that end up in a guest.
var guestModules = map[string][]string{
	"abi":                     {"."},
	"guest-sdk/go":            {"./actor/...", "./internal/...", "./protobuf"},
	"bench/goguest":           {"."},
	"examples/counter":        {"."},
	"examples/cart":           {"."},
	"examples/webhook":        {"."},
	"examples/subscription":   {"."},
	"examples/philosophers":   {"."},
	"examples/pingpong":       {"."},
	"examples/chat":           {"."},
	"examples/bank/transfers": {"."},
	"examples/shop/orders":    {"."},
	"examples/wallet":         {"./..."},
}

// guestImports are the standard packages that the SDK and the ABI may import: they
// compile with TinyGo and work there without a scheduler. Try a new one with
// TinyGo, in a guest, before it is added here.
var guestImports = []string{
	"bytes", "cmp", "encoding", "encoding/base64", "encoding/binary", "encoding/json", "embed", "errors", "fmt", "io",
	"iter", "maps", "math", "math/bits", "reflect", "slices", "sort", "strconv", "strings", "sync", "time",
	"unicode", "unicode/utf16", "unicode/utf8", "unsafe",
	// Of the examples.
	"crypto/hmac", "crypto/sha256", "encoding/hex",
}

// missing are functions and methods that TinyGo 0.40 does not have, or has only to
// panic, by package; a method is "Type.Method".
var missing = map[string][]string{
	"reflect": {
		"MakeFunc", "StructOf", "ArrayOf", "SliceOf", "MapOf", "FuncOf", "ChanOf", "MakeChan", "Select", "NewAt",
		"Type.Method", "Type.MethodByName", "Type.ConvertibleTo", "Type.IsVariadic", "Type.NumIn", "Type.NumOut", "Type.In", "Type.Out",
		// Where the interface is not a constant of the call, they panic.
		"Type.Implements", "Type.AssignableTo",
		"Value.Method", "Value.MethodByName", "Value.Call", "Value.CallSlice", "Value.CanConvert", "Value.Convert",
		"Value.Slice3", "Value.SetCap", "Value.Send", "Value.Recv", "Value.TrySend", "Value.TryRecv", "Value.Close",
	},
	// It asks reflection whether the error is assignable.
	"errors": {"As", "AsType"},
}

// tinyGoFault is one construct that TinyGo refuses.
type tinyGoFault struct {
	at   token.Position
	text string
}

func (f tinyGoFault) String() string { return f.at.String() + ": " + f.text }

func TestGuestsAreForTinyGo(t *testing.T) {
	for module, patterns := range guestModules {
		dir := filepath.Join("..", "..", filepath.FromSlash(module))
		if minor, err := goDirective(filepath.Join(dir, "go.mod")); err != nil || minor > guestGo {
			t.Errorf("%s/go.mod: go 1.%d (%v); TinyGo 0.40 takes 1.%d at most", module, minor, err, guestGo)
		}
		for _, tags := range []string{"", "tinygo"} {
			faults, err := tinyGoFaults(dir, tags, patterns...)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range faults {
				t.Errorf("with tags %q: %s", tags, f)
			}
		}
	}
	if minor, err := goDirective("../../cmd/greenroom/templates/go/go.mod.tmpl"); err != nil || minor > guestGo {
		t.Errorf("the template: go 1.%d, %v", minor, err)
	}
}

// TestTinyGoFaultsAreFound reads a package of faults, each marked with what is to
// be said about it, and nothing else.
func TestTinyGoFaultsAreFound(t *testing.T) {
	for _, tags := range []string{"", "tinygo"} {
		faults, err := tinyGoFaults("testdata/tinygo", tags, ".")
		if err != nil {
			t.Fatal(err)
		}
		files := []string{"faults.go", "host.go"}
		if tags == "tinygo" {
			files = append(files, "tagged.go")
		}
		var want []string
		for _, name := range files {
			text, err := os.ReadFile(filepath.Join("testdata/tinygo", name))
			if err != nil {
				t.Fatal(err)
			}
			for n, line := range strings.Split(string(text), "\n") {
				if _, w, ok := strings.Cut(line, "// want "); ok {
					want = append(want, fmt.Sprintf("%s:%d: %s", name, n+1, strings.TrimSpace(w)))
				}
			}
		}
		got := map[string]bool{}
		for _, f := range faults {
			text := fmt.Sprintf("%s:%d: %s", filepath.Base(f.at.Filename), f.at.Line, f.text)
			i := slices.IndexFunc(want, func(w string) bool { return strings.HasPrefix(text, w) })
			if i < 0 {
				t.Errorf("with tags %q, not expected: %s", tags, text)
				continue
			}
			got[want[i]] = true
		}
		for _, w := range want {
			if !got[w] {
				t.Errorf("with tags %q, not found: %s", tags, w)
			}
		}
	}
	if minor, err := goDirective("testdata/tinygo/go.mod"); err != nil || minor != 26 {
		t.Errorf("its go directive: 1.%d, %v; want 1.26, which TinyGo 0.40 refuses", minor, err)
	}
}

var goLine = regexp.MustCompile(`(?m)^go 1\.(\d+)`)

// goDirective returns the minor version of a go.mod's go line.
func goDirective(file string) (int, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	m := goLine.FindSubmatch(text)
	if m == nil {
		return 0, errors.New("no go line")
	}
	return strconv.Atoi(string(m[1]))
}

type wasmPackage struct {
	Dir, ImportPath, Export string
	Standard, DepOnly       bool
	GoFiles                 []string
}

// tinyGoFaults type-checks packages of the module in dir for GOOS=wasip1 and
// returns what TinyGo has against them.
func tinyGoFaults(dir, tags string, patterns ...string) ([]tinyGoFault, error) {
	args := []string{"list", "-deps", "-export", "-tags=" + tags, "-json=Dir,ImportPath,Export,Standard,DepOnly,GoFiles"}
	cmd := exec.Command("go", append(args, patterns...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOWORK=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%v in %s: %w\n%s", cmd, dir, err, stderr.String())
	}
	exports := map[string]string{}
	var own []wasmPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p wasmPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		exports[p.ImportPath] = p.Export
		if !p.Standard && !p.DepOnly {
			own = append(own, p)
		}
	}
	if len(own) == 0 {
		return nil, fmt.Errorf("%v in %s listed no package", cmd, dir)
	}
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	var faults []tinyGoFault
	for _, p := range own {
		var files []*ast.File
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.ParseComments)
			if err != nil {
				return nil, err
			}
			files = append(files, f)
		}
		c := tinyGoCheck{fset: fset, info: &types.Info{Uses: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{}}}
		conf := types.Config{Importer: imports, Sizes: types.SizesFor("gc", "wasm")}
		pkg, err := conf.Check(p.ImportPath, fset, files, c.info)
		if err != nil {
			return nil, fmt.Errorf("check %s: %w", p.ImportPath, err)
		}
		c.read(pkg, files)
		faults = append(faults, c.faults...)
	}
	return faults, nil
}

// tinyGoCheck reads the files of one package.
type tinyGoCheck struct {
	fset   *token.FileSet
	info   *types.Info
	faults []tinyGoFault
}

func (c *tinyGoCheck) fault(at ast.Node, format string, args ...any) {
	c.faults = append(c.faults, tinyGoFault{c.fset.Position(at.Pos()), fmt.Sprintf(format, args...)})
}

func (c *tinyGoCheck) read(pkg *types.Package, files []*ast.File) {
	linked := map[types.Object]bool{} // imported from the host, or exported to it
	for _, f := range files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Doc == nil || fn.Recv != nil {
				continue
			}
			for _, line := range fn.Doc.List {
				if strings.HasPrefix(line.Text, "//go:wasmimport ") || strings.HasPrefix(line.Text, "//go:wasmexport ") {
					linked[pkg.Scope().Lookup(fn.Name.Name)] = true
				}
			}
		}
	}
	for _, f := range files {
		for _, imp := range f.Imports {
			path, _ := strconv.Unquote(imp.Path.Value) // the parser has checked it
			if !strings.Contains(strings.Split(path, "/")[0], ".") && !slices.Contains(guestImports, path) {
				c.fault(imp, "package %s is not known to work with TinyGo", path)
			}
		}
		called := map[*ast.Ident]bool{}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if id, ok := ast.Unparen(n.Fun).(*ast.Ident); ok {
					called[id] = true
				}
			case *ast.Ident:
				c.use(n, linked, called[n])
			case *ast.GoStmt:
				c.fault(n, "a goroutine; guests have no scheduler")
			case *ast.SelectStmt:
				c.fault(n, "select; guests have no scheduler")
			case *ast.SendStmt:
				c.fault(n, "a channel operation; guests have no scheduler")
			case *ast.UnaryExpr:
				if n.Op == token.ARROW {
					c.fault(n, "a channel operation; guests have no scheduler")
				}
			case *ast.RangeStmt:
				if _, ok := c.info.Types[n.X].Type.Underlying().(*types.Chan); ok {
					c.fault(n, "a channel operation; guests have no scheduler")
				}
			}
			return true
		})
	}
}

func (c *tinyGoCheck) use(id *ast.Ident, linked map[types.Object]bool, called bool) {
	obj := c.info.Uses[id]
	switch obj := obj.(type) {
	case *types.Builtin:
		if obj.Name() == "recover" {
			c.fault(id, "recover; a panic always ends the instance")
		}
	case *types.Func:
		if linked[obj] && !called {
			c.fault(id, "%s is used as a value, but linked to the host; wrap it in a function literal", id.Name)
		}
		if obj.Pkg() == nil {
			return
		}
		name := obj.Name()
		if recv := obj.Signature().Recv(); recv != nil {
			typ := recv.Type()
			if p, ok := typ.(*types.Pointer); ok {
				typ = p.Elem()
			}
			if named, ok := typ.(*types.Named); ok {
				name = named.Obj().Name() + "." + name
			}
		}
		if slices.Contains(missing[obj.Pkg().Path()], name) {
			c.fault(id, "%s.%s is missing in TinyGo, or panics there", obj.Pkg().Path(), name)
		}
	}
}
