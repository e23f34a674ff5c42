package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
	"github.com/greenroom-run/greenroom/bench/internal/role"
)

// The exit statuses.
const (
	exitPass   = 0
	exitMissed = 1 // a bar is missed
	exitFailed = 2 // something could not be measured
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) == 3 && os.Args[1] == role.Verb {
		if err := play(ctx, os.Args[2]); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[2], err)
			os.Exit(exitFailed)
		}
		return
	}
	status, err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
	os.Exit(status)
}

// profileVariable names the folder for the roles' profiles; the flag -profile
// sets it for them.
const profileVariable = "GREENROOM_BENCH_PROFILE"

// play plays a role, whose measured part is profiled if the environment asks for
// it: what fills a store and warms it up would be most of a profile otherwise.
func play(ctx context.Context, name string) error {
	if dir := os.Getenv(profileVariable); dir != "" {
		file, err := os.Create(filepath.Join(dir, fmt.Sprintf("%s-%d.pprof", name, os.Getpid())))
		if err != nil {
			return err
		}
		defer file.Close()
		ctx = load.Observed(ctx, func() (end func()) {
			if err := pprof.StartCPUProfile(file); err != nil {
				fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
			}
			return pprof.StopCPUProfile
		})
	}
	return roles().Serve(ctx, name, os.Stdin, os.Stdout)
}

func run(ctx context.Context, args []string, out, log io.Writer) (status int, err error) {
	var area, name string
	cfg := rig.Config{Log: log}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(log)
	flags.StringVar(&area, "area", "", "run the bars of this `area` only")
	flags.StringVar(&name, "bar", "", "run this bar only, by its `name`")
	flags.StringVar(&cfg.Root, "root", ".", "root `folder` of the repository")
	flags.IntVar(&cfg.Runs, "runs", 3, "how often each baseline and each subject runs")
	flags.DurationVar(&cfg.Warmup, "warmup", time.Second, "how long each run goes before it is measured")
	flags.DurationVar(&cfg.Duration, "duration", 3*time.Second, "how long each run is measured")
	flags.IntVar(&cfg.Actors, "actors", 0, "use at most so many actors, for a quick look; 0: as many as the bars say")
	flags.IntVar(&cfg.Reminders, "reminders", 1_000_000, "how many reminders are stored where a bar wants very many: 10000000 for all that reminders.4 promises, which takes ten times as long to write")
	flags.StringVar(&cfg.Profile, "profile", "", "`folder` for processor profiles of the measured part of callers, baselines and what runs inside the host, and of whole servers")
	table := flags.String("table", "", "measure what users may expect instead of bars, and write it into this `document`, and its picture beside")
	scale := flags.String("scale", "", "measure no bars, but what the hosts of larger clusters say to each other and to the database, and write it into this `document`")
	record := flags.String("record", "", "write the bars of each area that is measured into this `document`, and a picture beside")
	list := flags.Bool("list", false, "list the bars and end")
	if err := flags.Parse(args); err != nil {
		return exitFailed, nil // it has said why
	}
	if err := writable(*table, *scale, *record, area, name); err != nil {
		return exitFailed, err
	}
	chosen, err := bar.Select(bars(), area, name)
	if err != nil {
		return exitFailed, err
	}
	if *list {
		for _, b := range chosen {
			fmt.Fprintf(out, "%s\t%s\n", b.Name, b.Title)
		}
		return exitPass, nil
	}
	if cfg.Profile != "" {
		if err := os.Setenv(profileVariable, cfg.Profile); err != nil {
			return exitFailed, err
		}
	}
	r, err := rig.New(cfg)
	if err != nil {
		return exitFailed, err
	}
	defer func() {
		if closeErr := r.Close(); err == nil && closeErr != nil {
			status, err = exitFailed, closeErr
		}
	}()
	command := "go run ./bench " + strings.Join(args, " ")
	var results []bar.Result
	switch {
	case *table != "":
		err = writeSurvey(ctx, r, *table, command)
	case *scale != "":
		err = writeScale(ctx, r, *scale, command)
	default:
		status, results, err = measure(ctx, r, chosen, out)
		if err != nil || *record == "" {
			break
		}
		if status == exitFailed {
			return status, fmt.Errorf("not every bar could be measured, see above; %s stays as it was", *record)
		}
		err = writeBars(*record, command, results)
	}
	if err != nil {
		status = exitFailed
	}
	return status, err
}

// measure runs bars one after the other. One that fails does not keep the others
// from running; it is not among the results.
func measure(ctx context.Context, r *rig.Rig, chosen []bar.Bar, out io.Writer) (status int, results []bar.Result, err error) {
	status = exitPass
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false) // for the comparisons
	for _, b := range chosen {
		var rec bar.Record
		err := b.Run(ctx, r, &rec)
		if ctx.Err() != nil {
			return exitFailed, nil, context.Cause(ctx)
		}
		var res bar.Result
		if err == nil {
			res, err = b.Judge(&rec)
		}
		if err != nil {
			status = exitFailed
			if err := lines.Encode(bar.Failed(b, err)); err != nil {
				return exitFailed, nil, err
			}
			continue
		}
		if !res.Pass {
			status = max(status, exitMissed)
		}
		rec.Print(out, res)
		if err := lines.Encode(res); err != nil {
			return exitFailed, nil, err
		}
		results = append(results, res)
	}
	return status, results, nil
}
