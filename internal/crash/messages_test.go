package crash_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/client"
	"github.com/greenroom-run/greenroom/internal/crash"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
)

// TestKillMessages kills a server on the embedded store while its actors send each other messages:
// in the end each message took effect once, in the order of its sender, and each that is never
// taken came back once. GREENROOM_KILL_ROUNDS says how often it is killed, and GREENROOM_MESSAGES how many
// messages take effect at least (make soak).
func TestKillMessages(t *testing.T) {
	t.Parallel()
	built, err := guestbuild.Build(t.Context(), guestbuild.Request{
		Dir: "../node/testdata/post", Out: filepath.Join(t.TempDir(), "post.wasm"), Toolchain: guestbuild.Go,
	})
	if err != nil {
		t.Fatal(err)
	}
	random, _ := crash.Seeded(t)
	log, err := os.Create(filepath.Join(t.TempDir(), "server.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	fatal := func(format string, args ...any) {
		t.Helper()
		fatalAfterLog(t, log.Name(), format, args...)
	}
	options := crash.Options{Binary: binary, Args: []string{"--data-dir", t.TempDir()}, Log: log}
	var server *crash.Process
	start := func() {
		t.Helper()
		if server, err = crash.Start(t.Context(), options); err != nil {
			fatal("start: %v", err)
		}
		options.Listen = strings.TrimPrefix(server.URL, "http://") // which the client knows
	}
	start()
	defer func() { _ = server.Kill() }()
	if out, err := exec.CommandContext(t.Context(), binary, "deploy", built.Path, "--server", server.URL).CombinedOutput(); err != nil {
		fatal("deploy: %v\n%s", err, out)
	}
	c, err := client.New(client.Config{URL: server.URL, MaxAttempts: 1 << 20, MaxBackoff: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	rounds, least := crash.Rounds(t, 6), crash.Messages(t, 1)
	posts := crash.Large(least, func(ctx context.Context, req client.Request) ([]byte, error) {
		reply, err := c.Do(ctx, req)
		return reply.Payload, err
	})

	kills, messages := 0, 0
	// So that the kills come all along.
	between := max(posts.OfWave()/4, least/rounds)
	next := random.IntN(posts.OfWave() / 4) // how many are taken before the next kill
	for wave := 0; kills < rounds || messages < least; wave++ {
		ctx, cancel := context.WithTimeout(t.Context(), roundDeadline)
		sent := make(chan error, 1)
		go func() { sent <- posts.Send(ctx, wave) }()
		for {
			taken, over, problems, err := posts.Taken(ctx, wave)
			if err != nil {
				fatal("after %d kills: %v", kills, err)
			}
			if len(problems) > 0 {
				fatal("after %d kills: %s", kills, strings.Join(problems, "; "))
			}
			if over {
				messages += taken
				break
			}
			if messages+taken >= next && kills < rounds {
				if err := server.Kill(); err != nil {
					fatal("kill: %v", err)
				}
				kills++
				start()
				next = messages + taken + random.IntN(between)
			}
			select { // the reads are not to keep the server from its messages
			case <-ctx.Done():
			case <-time.After(pollEvery):
			}
		}
		if err := <-sent; err != nil {
			fatal("%v", err)
		}
		cancel()
	}
	t.Logf("%d rounds of kill -9: %d messages took effect", kills, messages)
}

// pollEvery is how often a test looks at how far its messages are.
const pollEvery = 20 * time.Millisecond
