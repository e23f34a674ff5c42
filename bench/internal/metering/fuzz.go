package metering

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/must"
)

// fuzzing is metering.6. It runs once: a finding is no matter of luck with the
// machine.
func fuzzing(b *bar.B) {
	cmd := exec.CommandContext(b.Context(), "build/fuzz.sh", "guests")
	cmd.Dir, cmd.Env = b.Root, append(os.Environ(), "FUZZTIME=20s")
	var out bytes.Buffer
	cmd.Stdout = io.MultiWriter(&out, b.Log)
	cmd.Stderr = cmd.Stdout
	err := cmd.Run()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		must.Check(fmt.Errorf("fuzz: %w", err))
	}
	targets, findings := 0, 0
	for line := range strings.Lines(out.String()) {
		summary, ok := strings.CutPrefix(strings.TrimSpace(line), "fuzzed ")
		if !ok {
			continue
		}
		targets++
		if !strings.HasSuffix(summary, ", no finding") {
			findings++
		}
		if strings.Contains(summary, ": 0 executions") {
			must.Check(fmt.Errorf("fuzz: %s", summary))
		}
		b.Note("%s", summary)
	}
	if targets == 0 {
		must.Check(errors.Join(errors.New("build/fuzz.sh fuzzed nothing"), err))
	}
	b.Compare("findings", float64(findings), float64(targets))
}
