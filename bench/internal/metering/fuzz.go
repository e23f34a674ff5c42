package metering

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
)

// fuzzing is metering.6. It runs once: a finding is no matter of luck with the
// machine.
func fuzzing(ctx context.Context, r *rig.Rig, rec *bar.Record) error {
	cmd := exec.CommandContext(ctx, "build/fuzz.sh", "guests")
	cmd.Dir, cmd.Env = r.Root, append(os.Environ(), "FUZZTIME=20s")
	var out bytes.Buffer
	cmd.Stdout = io.MultiWriter(&out, r.Log)
	cmd.Stderr = cmd.Stdout
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return fmt.Errorf("fuzz: %w", err)
	}
	targets, findings := 0, 0
	for lines := bufio.NewScanner(&out); lines.Scan(); {
		summary, ok := strings.CutPrefix(lines.Text(), "fuzzed ")
		if !ok {
			continue
		}
		targets++
		if !strings.HasSuffix(summary, ", no finding") {
			findings++
		}
		if strings.Contains(summary, ": 0 executions") {
			return fmt.Errorf("fuzz: %s", summary)
		}
		rec.Note("%s", summary)
	}
	if targets == 0 {
		return errors.Join(errors.New("build/fuzz.sh fuzzed nothing"), err)
	}
	rec.Compare("findings", float64(findings), float64(targets))
	return nil
}
