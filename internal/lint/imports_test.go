package lint

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"strings"
	"testing"
)

const root = "github.com/greenroom-run/greenroom"

// ban forbids packages (patterns of package path, below root) to import others
// (full paths or prefixes ending in "/..."), except where an exception says so.
type ban struct {
	from   []string // package patterns below root; "..." at the end matches everything below
	except []string
	to     []string
	why    string
}

var bans = []ban{
	{
		from:   []string{"..."},
		except: []string{"engine/wasm/...", "engine/extism/...", "engine/compile", "bench/internal/metering"},
		to:     []string{"github.com/tetratelabs/wazero/...", "github.com/extism/..."},
		why:    "only the engines know how Wasm is run; everything else goes through engine.Engine",
	},
	{
		from:   []string{"..."},
		except: []string{"store/sqlstore/...", "internal/pgtest/...", "bench/internal/bare"},
		to:     []string{"github.com/jackc/...", "github.com/cockroachdb/cockroach-go/..."},
		why:    "no driver type leaves a driver",
	},
	{
		from:   []string{"..."},
		except: []string{"store/embedded/...", "bench/internal/bare"},
		to:     []string{"github.com/cockroachdb/pebble/..."},
		why:    "no driver type leaves a driver",
	},
	{
		from: []string{"abi/..."},
		to:   []string{root + "/...", "!" + root + "/abi/..."},
		why:  "guests carry abi: it depends on nothing of ours",
	},
	{
		from: []string{"actor"},
		to:   []string{root + "/...", "!" + root + "/abi/..."},
		why:  "actor is the vocabulary that everything else imports",
	},
	{
		from: []string{"internal/fair"},
		to:   []string{root + "/..."},
		why:  "how things are shared does not depend on what they are",
	},
	{
		from: []string{"engine/...", "store/...", "modules/...", "scheduler/...", "host/...", "routing/..."},
		to:   []string{root + "/server/...", root + "/internal/node/...", root + "/cmd/..."},
		why:  "imports point one way: abi, actor <- engine, store, modules, scheduler, host, routing <- server <- internal/node <- cmd",
	},
	{
		from: []string{"engine/...", "store/...", "modules/...", "host/..."},
		to:   []string{root + "/api/..."},
		why:  "what runs actors does not know the protocol; scheduler and routing speak it between hosts",
	},
	{
		from: []string{"engine/..."},
		to:   []string{root + "/host/...", root + "/store/...", root + "/modules/...", root + "/scheduler/...", root + "/settings/..."},
		why:  "an engine runs one guest for one turn: it knows neither actors in memory nor where they are stored",
	},
	{
		from: []string{"host/..."},
		to:   []string{root + "/store/...", root + "/modules/...", root + "/scheduler/...", root + "/engine/...", "!" + root + "/engine"},
		why:  "host declares the interfaces that it needs; the others satisfy them",
	},
	{
		from: []string{"store/..."},
		to:   []string{root + "/host/...", root + "/modules/...", root + "/scheduler/..."},
		why:  "a store knows actors, not who runs them",
	},
	{
		from: []string{"settings/..."},
		to:   []string{root + "/host/...", root + "/modules/...", root + "/server/...", root + "/api/..."},
		why:  "the settings of apps are kept without anything running",
	},
	{
		from: []string{"modules/..."},
		to:   []string{root + "/host/...", root + "/scheduler/..."},
		why:  "modules are stored and deployed without anything running",
	},
	{
		from: []string{"server/..."},
		to:   []string{root + "/internal/node/...", root + "/cmd/...", root + "/store/sqlstore/...", root + "/store/embedded/...", root + "/engine/wasm/..."},
		why:  "internal/node is the one place where everything meets",
	},
	{
		from: []string{"server/stream"},
		to:   []string{"net/http", "connectrpc.com/...", root + "/server"},
		why:  "a stream is served over any connection, to clients and between hosts: the server hands it a Conn and an Edge",
	},
	{
		from: []string{"api/..."},
		to:   []string{root + "/host/...", root + "/server/..."},
		why:  "programs of users carry the API's messages with the client",
	},
	{
		from: []string{"console"},
		to:   []string{root + "/..."},
		why:  "the console is files; what they show, they ask of the API in the browser",
	},
	{
		from: []string{"client/..."},
		to:   []string{root + "/host/...", root + "/store/...", root + "/modules/...", root + "/server/...", root + "/internal/..."},
		why:  "programs of users carry the client: it knows the API alone",
	},
	{
		from: []string{"cmd/..."},
		to:   []string{root + "/store/...", root + "/engine/wasm/...", root + "/modules/...", root + "/settings/..."},
		why:  "the command line is a client of the API; serve and dev go through internal/node",
	},
}

// testLibraries must never reach the binary.
var testLibraries = []string{
	"testing", "pgregory.net/rapid", "go.uber.org/goleak", "github.com/anishathalye/porcupine",
	"github.com/rogpeppe/go-internal/testscript", "github.com/google/go-cmp/...",
}

type goPackage struct {
	ImportPath string
	Imports    []string
}

func TestImportDirection(t *testing.T) {
	for _, p := range list(t, root+"/...", root+"/abi/...") {
		rel := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, root), "/")
		for _, b := range bans {
			if !matchAny(b.from, rel) || matchAny(b.except, rel) {
				continue
			}
			for _, imp := range p.Imports {
				if banned(b.to, imp) && imp != p.ImportPath {
					t.Errorf("%s imports %s: %s", rel, imp, b.why)
				}
			}
		}
	}
}

func TestNoTestLibraryInTheBinary(t *testing.T) {
	for _, p := range list(t, "-deps", root+"/cmd/greenroom") {
		if matchAny(testLibraries, p.ImportPath) {
			t.Errorf("cmd/greenroom depends on %s, which is for tests only", p.ImportPath)
		}
	}
}

func TestBans(t *testing.T) {
	tests := []struct {
		to   []string
		imp  string
		want bool
	}{
		{[]string{"a/..."}, "a", true},
		{[]string{"a/..."}, "a/b/c", true},
		{[]string{"a/..."}, "ab", false},
		{[]string{"a"}, "a/b", false},
		{[]string{"a/...", "!a/b/..."}, "a/b/c", false},
	}
	for _, tt := range tests {
		if got := banned(tt.to, tt.imp); got != tt.want {
			t.Errorf("banned(%q, %q) = %v", tt.to, tt.imp, got)
		}
	}
}

// list runs go list, which knows build tags and modules better than a parser.
func list(t *testing.T, args ...string) []goPackage {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Imports"}, args...)...)
	cmd.Dir = "../.."
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, stderr.String())
	}
	var ps []goPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		ps = append(ps, p)
	}
	if len(ps) == 0 {
		t.Fatalf("%v listed no package", cmd)
	}
	return ps
}

// banned reports whether imp matches to; a pattern that begins with "!" takes
// back what it matches.
func banned(to []string, imp string) bool {
	hit := false
	for _, pattern := range to {
		if back, ok := strings.CutPrefix(pattern, "!"); ok {
			if match(back, imp) {
				return false
			}
		} else if match(pattern, imp) {
			hit = true
		}
	}
	return hit
}

func matchAny(patterns []string, s string) bool {
	for _, p := range patterns {
		if match(p, s) {
			return true
		}
	}
	return false
}

func match(pattern, s string) bool {
	if pattern == "..." {
		return true
	}
	if dir, ok := strings.CutSuffix(pattern, "/..."); ok {
		return s == dir || strings.HasPrefix(s, dir+"/")
	}
	ok, err := path.Match(pattern, s)
	return ok && err == nil
}
