// Command demo shows Greenroom's main job end to end, with real processes: it
// builds the example guests, starts a server on the embedded store, deploys,
// calls over the command line, Connect and plain HTTP, kills the server under
// load, and checks that everything that was acknowledged is there. It needs Go
// and nothing else, and ends by itself.
//
// With -up it leaves a server with the examples running, with -down it stops it. With
// -cluster it runs a database and three servers until it is interrupted.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/greenroom-run/greenroom/internal/crash"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
)

const (
	kills         = 3
	counters      = 16
	callers       = 16
	acksPerRound  = 500 // the kill comes after this many acknowledgements of a round
	roundDeadline = 60 * time.Second

	patient = "--compile-time=10m" // the machine may be busy, or small

	upAddress = "127.0.0.1:8080"
	upFolder  = ".cache/up"
)

func main() {
	binary := flag.String("binary", "bin/greenroom", "the greenroom binary")
	up := flag.Bool("up", false, "leave a server with the examples running")
	down := flag.Bool("down", false, "stop the server that -up started, and wait for its end")
	cluster := flag.Bool("cluster", false, "run a database and three servers until the end of this program")
	store := flag.String("store", "", "`URL` of a database to use for -cluster instead of one of its own")
	listen := flag.String("listen", upAddress, "`HOST:PORT` of -up")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	d := &demo{binary: *binary, out: os.Stdout}
	b := &background{folder: upFolder, binary: *binary, listen: *listen}
	var err error
	switch {
	case *down:
		err = takeDown(ctx, b, os.Stdout)
	case *cluster:
		err = d.cluster(ctx, *store, clusterAddresses)
	case *up:
		err = d.bringUp(ctx, b)
	default:
		err = d.run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		stop()
		os.Exit(1)
	}
}

type demo struct {
	binary string
	out    io.Writer
	server *crash.Process
}

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.out, format+"\n", args...) }

// workplace makes a temporary folder with a log in it. end removes both, and shows the log if
// there was an error.
func workplace(prefix, logName string) (folder string, log *os.File, end func(error), err error) {
	if folder, err = os.MkdirTemp("", prefix); err != nil {
		return "", nil, nil, err
	}
	if log, err = os.Create(filepath.Join(folder, logName)); err != nil {
		return "", nil, nil, errors.Join(err, os.RemoveAll(folder))
	}
	return folder, log, func(failed error) {
		if failed != nil {
			showLog(log.Name())
		}
		_, _ = log.Close(), os.RemoveAll(folder)
	}, nil
}

func (d *demo) run(ctx context.Context) (err error) {
	began := time.Now()
	folder, log, end, err := workplace("greenroom-demo-", "server.log")
	if err != nil {
		return err
	}
	defer func() { end(err) }()

	d.say("1. Build the example actors (Go, compiled to WebAssembly)")
	guests, err := d.buildGuests(ctx, folder)
	if err != nil {
		return err
	}

	d.say("\n2. Start a server on the embedded store: one process, one folder, fsync on every commit")
	options := crash.Options{Binary: d.binary, Args: []string{"--data-dir", filepath.Join(folder, "data"), patient}, Log: log}
	if d.server, err = crash.Start(ctx, options); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.server.Kill()) }()
	d.say("   %s, process %d", d.server.URL, d.server.PID())

	d.say("\n3. Deploy")
	for _, g := range guests {
		if err := d.greenroom(ctx, d.server.URL, "deploy", g); err != nil {
			return err
		}
	}

	d.say("\n4. Call actors from the command line (Connect) and over plain HTTP")
	if err := d.calls(ctx); err != nil {
		return err
	}

	d.say("\n5. Kill the server under load, %d times, and look for every acknowledged increment", kills)
	if err := d.crashes(ctx, options); err != nil {
		return err
	}

	d.say("\n6. Stop")
	stopCtx, cancel := context.WithTimeout(ctx, roundDeadline)
	defer cancel()
	if err := d.server.Stop(stopCtx); err != nil {
		return err
	}
	d.say("   The server finished what was in flight and ended. That was all, in %.0f s.", time.Since(began).Seconds())
	d.say("\nNext: `make up` leaves a server running; `%s new --lang go NAME` makes an actor of your own.", d.binary)
	return nil
}

func (d *demo) buildGuests(ctx context.Context, folder string) ([]string, error) {
	var paths []string
	for _, name := range []string{"counter", "cart"} {
		r, err := guestbuild.Build(ctx, guestbuild.Request{
			Dir:       filepath.Join("examples", name),
			Out:       filepath.Join(folder, name+".wasm"),
			Toolchain: guestbuild.Go,
		})
		if err != nil {
			return nil, err
		}
		info, err := os.Stat(r.Path)
		if err != nil {
			return nil, err
		}
		d.say("   examples/%s -> %s.wasm, %.1f MB in %.1f s", name, name, float64(info.Size())/1e6, r.Took.Seconds())
		paths = append(paths, r.Path)
	}
	return paths, nil
}

// greenroom runs the command line as a user would, showing command and output.
func (d *demo) greenroom(ctx context.Context, url string, args ...string) error {
	shown := make([]string, len(args))
	for i, a := range args {
		if shown[i] = a; strings.ContainsAny(a, " {}\"|/🛒") {
			shown[i] = "'" + a + "'"
		}
	}
	d.say("   $ greenroom %s", strings.Join(shown, " "))
	cmd := exec.CommandContext(ctx, d.binary, args...)
	cmd.Env = append(os.Environ(), "GREENROOM_SERVER="+url)
	out, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		fmt.Fprint(d.out, "     ", line)
	}
	if err != nil {
		return fmt.Errorf("greenroom %s: %w", args[0], err)
	}
	return nil
}

func (d *demo) calls(ctx context.Context) error {
	const oddID = "a/b c||🛒"
	for _, args := range [][]string{
		{"call", "Counter", "alice", "Add", `{"amount":2}`},
		{"call", "Counter", oddID, "Add", `{"amount":40}`},
	} {
		if err := d.greenroom(ctx, d.server.URL, args...); err != nil {
			return err
		}
	}
	base := d.server.URL + "/v2.0/actors/default/Counter/" + escape(oddID) + "/method/"
	if err := d.http(ctx, http.MethodPut, base+"Add", `{"amount":2}`); err != nil {
		return err
	}
	return d.http(ctx, http.MethodGet, base+"Get", "")
}

func (d *demo) http(ctx context.Context, method, url, body string) error {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	shown := ""
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
		shown = " -d '" + body + "'"
	}
	d.say("   $ curl -X %s%s %s", method, shown, url)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	d.say("     %s", reply)
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s", method, url, resp.Status)
	}
	return nil
}

func (d *demo) crashes(ctx context.Context, options crash.Options) error {
	ledger := crash.NewLedger("crash", counters)
	for round := range kills {
		target := crash.CounterTarget(d.server.URL)
		loadCtx, cancel := context.WithTimeout(ctx, roundDeadline)
		before, killed := ledger.Acked(), make(chan error, 1)
		ledger.Load(loadCtx, target, callers, func(total int64) {
			if total-before == acksPerRound {
				killed <- d.server.Kill()
			}
		})
		cancel()
		select {
		case err := <-killed:
			if err != nil {
				return err
			}
		default:
			return fmt.Errorf("round %d: only %d increments were acknowledged in %s", round+1, ledger.Acked()-before, roundDeadline)
		}

		restart := time.Now()
		var err error
		if d.server, err = crash.Start(ctx, options); err != nil {
			return err
		}
		problems, err := ledger.Check(ctx, crash.CounterTarget(d.server.URL))
		if err != nil {
			return err
		}
		if len(problems) > 0 {
			return fmt.Errorf("round %d: %s", round+1, strings.Join(problems, "; "))
		}
		d.say("   round %d: SIGKILL after %d acknowledged increments by %d callers; restarted in %.2f s; all %d are there",
			round+1, ledger.Acked()-before, callers, time.Since(restart).Seconds(), ledger.Acked())
	}
	return nil
}

// bringUp has a server with the examples run, one that outlives this program.
func (d *demo) bringUp(ctx context.Context, b *background) error {
	if err := os.MkdirAll(b.folder, 0o755); err != nil {
		return err
	}
	guests, err := d.buildGuests(ctx, b.folder)
	if err != nil {
		return err
	}
	server, already, err := b.up(ctx)
	if err != nil {
		return err
	}
	if already {
		d.say("A server is up already: %s, process %d. It is left running; the examples are deployed to it.", server.url, server.pid)
	}
	for _, g := range guests {
		if err := d.greenroom(ctx, server.url, "deploy", g); err != nil {
			return err
		}
	}
	d.say("\nThe server is process %d on %s, its data and log in %s. Try:", server.pid, server.url, b.folder)
	at := ""
	if server.url != "http://"+upAddress {
		at = " --server " + server.url
	}
	d.say("   %s call%s Counter me Add '{\"amount\":1}'", d.binary, at)
	d.say("   %s/console in a browser", server.url)
	d.say("   curl -X PUT -H 'Content-Type: application/json' -d '{\"amount\":1}' %s/v2.0/actors/default/Counter/me/method/Add", server.url)
	if already {
		d.say("Stop it with `make down`; to run a binary that was built since, then `make up` again.")
	} else {
		d.say("Stop it with `make down`.")
	}
	return nil
}

func takeDown(ctx context.Context, b *background, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	server, ran, err := b.down(ctx)
	if err != nil {
		return err
	}
	if !ran {
		fmt.Fprintln(out, "No server is up.")
		return nil
	}
	fmt.Fprintf(out, "The server on %s, process %d, has stopped; its data stays in %s.\n", server.url, server.pid, b.folder)
	return nil
}

// showLog prints the last lines of a server's log, for a demo that failed.
func showLog(path string) {
	text, err := os.ReadFile(path)
	if err != nil {
		return
	}
	const most = 4000
	fmt.Fprintf(os.Stderr, "--- end of the server's log ---\n%s\n", text[max(0, len(text)-most):])
}

// escape writes an actor ID as one segment of a path.
func escape(id string) string {
	var b strings.Builder
	for _, c := range []byte(id) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
