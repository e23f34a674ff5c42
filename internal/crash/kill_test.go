package crash_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/internal/crash"
	"github.com/greenroom-run/greenroom/internal/pgtest"
)

// rounds of SIGKILL per store; GREENROOM_KILL_ROUNDS changes it (make soak).
const defaultRounds = 24

const (
	counters = 8
	callers  = 16
	mostAcks = 400 // the kill comes after a random number of acknowledgements up to this
	// roundDeadline only a server that hangs reaches.
	roundDeadline = 5 * time.Minute
)

// patient is for servers under load on a busy machine, which may be late with a
// turn for no fault of theirs.
var patient = []string{"--turn-deadline", roundDeadline.String()}

// shortLease has what a killed server held free soon, where servers share a store.
func shortLease(storeArgs []string) []string {
	if slices.Contains(storeArgs, "--store") {
		return []string{"--lease", "1s"}
	}
	return nil
}

var binary, guest string // built once by TestMain

func TestMain(m *testing.M) { os.Exit(crash.Main(m, &binary, &guest)) }

// TestKillEmbedded kills a server on the embedded store. SIGKILL keeps the page
// cache, so that this shows nothing about fsync (store/embedded does, on a file
// system that forgets), but everything about recovery and half-done work.
func TestKillEmbedded(t *testing.T) {
	t.Parallel()
	killRounds(t, []string{"--data-dir", t.TempDir()})
}

// TestKillPostgreSQL kills a server whose database lives on, with its
// transactions in flight.
func TestKillPostgreSQL(t *testing.T) {
	t.Parallel()
	killRounds(t, []string{"--store", pgtest.URL(t)})
}

func TestKillCockroachDB(t *testing.T) {
	url, ok := pgtest.CockroachURL(t)
	if !ok {
		t.Skip("GREENROOM_TEST_COCKROACH_URL is not set")
	}
	killRounds(t, []string{"--store", url})
}

// fatalAfterLog ends a test with the end of its servers' log and, last, why it failed: of
// long output the end is kept.
func fatalAfterLog(t *testing.T, log, format string, args ...any) {
	t.Helper()
	text, _ := os.ReadFile(log)
	t.Fatalf("end of the servers' log:\n%s\n"+format, append([]any{text[max(0, len(text)-4000):]}, args...)...)
}

func killRounds(t *testing.T, storeArgs []string) {
	t.Helper()
	rounds := crash.Rounds(t, defaultRounds)
	random, seed := crash.Seeded(t)

	log, err := os.Create(filepath.Join(t.TempDir(), "server.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	fatal := func(format string, args ...any) {
		t.Helper()
		fatalAfterLog(t, log.Name(), format+" (seed %d)", append(args, seed)...)
	}

	options := crash.Options{Binary: binary, Args: slices.Concat(storeArgs, shortLease(storeArgs), patient), Log: log}
	server, err := crash.Start(t.Context(), options)
	if err != nil {
		fatal("start: %v", err)
	}
	defer func() {
		if server != nil {
			server.Kill()
		}
	}()
	deploy := exec.CommandContext(t.Context(), binary, "deploy", guest, "--server", server.URL)
	if out, err := deploy.CombinedOutput(); err != nil {
		fatal("deploy: %v\n%s", err, out)
	}

	ledger := crash.NewLedger("kill", counters)
	for round := range rounds {
		ctx, cancel := context.WithTimeout(t.Context(), roundDeadline)
		before, killAt := ledger.Acked(), 1+random.Int64N(mostAcks)
		killed := false
		ledger.Load(ctx, crash.CounterTarget(server.URL), callers, func(total int64) {
			if total-before == killAt {
				killed = true
				server.Kill()
			}
		})
		cancel()
		if !killed {
			fatal("round %d: %d of %d increments acknowledged, then nothing more", round, ledger.Acked()-before, killAt)
		}
		if server, err = crash.Start(t.Context(), options); err != nil {
			fatal("round %d: restart: %v", round, err)
		}
		problems, err := ledger.Check(t.Context(), crash.CounterTarget(server.URL))
		if err != nil {
			fatal("round %d: %v", round, err)
		}
		if len(problems) > 0 {
			fatal("round %d: acknowledged increments are not as they were: %s", round, strings.Join(problems, "; "))
		}
	}
	t.Logf("%d rounds, %d acknowledged increments, all there", rounds, ledger.Acked())
}
