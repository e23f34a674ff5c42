package extism

import (
	"os"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/engine/judge"
)

// The guide lists every function that authors can import.
func TestGuideListsFunctions(t *testing.T) {
	text, err := os.ReadFile("../../docs/extism.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range userFuncs() {
		if !strings.Contains(string(text), "\n| `"+f.name+"` |") {
			t.Errorf("docs/extism.md does not list %s", f.name)
		}
	}
	for _, code := range []string{FaultMigrate, FaultMixedHosts, FaultNoManifest, judge.MissingExport, judge.UnknownImport} {
		if !strings.Contains(string(text), "`"+code+"`") {
			t.Errorf("docs/extism.md does not name the fault %s", code)
		}
	}
}
