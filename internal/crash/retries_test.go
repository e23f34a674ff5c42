package crash_test

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/client"
	"github.com/greenroom-run/greenroom/internal/crash"
	"github.com/greenroom-run/greenroom/internal/pgtest"
)

// retryRounds of SIGKILL in CI; GREENROOM_KILL_ROUNDS changes it (make soak).
const retryRounds = 5

// TestKillWithRetriesEmbedded kills a server under a client that repeats its calls, under
// their keys, until they are answered: every one of them counts exactly once.
func TestKillWithRetriesEmbedded(t *testing.T) {
	t.Parallel()
	retryThroughKills(t, []string{"--data-dir", t.TempDir()})
}

// TestKillWithRetriesPostgreSQL is the same with a database that lives on.
func TestKillWithRetriesPostgreSQL(t *testing.T) {
	t.Parallel()
	retryThroughKills(t, []string{"--store", pgtest.URL(t)})
}

func retryThroughKills(t *testing.T, storeArgs []string) {
	t.Helper()
	rounds := crash.Rounds(t, retryRounds)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	log, err := os.Create(filepath.Join(t.TempDir(), "server.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	options := crash.Options{Binary: binary, Args: slices.Concat(storeArgs, shortLease(storeArgs), patient), Log: log}
	server, err := crash.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { server.Kill() }()
	options.Listen = strings.TrimPrefix(server.URL, "http://") // the client knows one address
	if out, err := exec.CommandContext(t.Context(), binary, "deploy", guest, "--server", server.URL).CombinedOutput(); err != nil {
		t.Fatalf("deploy: %v\n%s", err, out)
	}
	cl, err := client.New(client.Config{URL: server.URL, IdempotencyKeys: true, MaxAttempts: 1 << 20, MaxBackoff: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()

	target := crash.CounterTarget(server.URL)
	ledger := crash.NewLedger("retry", counters)
	stop, done := make(chan struct{}), make(chan struct{})
	acks := make(chan struct{}, 1<<16)
	go func() {
		defer close(done)
		ledger.LoadUntil(t.Context(), stop, cl, target, callers, func() {
			select {
			case acks <- struct{}{}:
			default:
			}
		})
	}()
	for round := range rounds {
		for range 1 + random.IntN(mostAcks) {
			select {
			case <-acks:
			case <-time.After(roundDeadline):
				t.Fatalf("round %d: no call was answered for %v", round, roundDeadline)
			}
		}
		server.Kill()
		next, err := crash.Start(t.Context(), options)
		if err != nil {
			t.Fatalf("round %d: restart: %v", round, err)
		}
		server = next
	}
	close(stop)
	<-done
	problems, err := ledger.CheckExactly(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Error(p)
	}
	t.Logf("%d rounds, %d increments, each counted once", rounds, ledger.Acked())
}
