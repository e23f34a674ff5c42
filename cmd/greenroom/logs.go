package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/host"
)

// maxLast is the server's limit.
const maxLast = 10_000

type logsFlags struct {
	follow bool
	last   int32
	level  string
	since  time.Duration
}

func logsCommand(c *cli) *cobra.Command {
	var f logsFlags
	cmd := &cobra.Command{
		Use:   "logs [TYPE [ID]]",
		Short: "Show what guests log",
		Long: `Show what guests log, what they write to standard output and error, and each
turn that failed: why, what to change, and the stack of a trap. Each server of the
cluster remembers the latest lines of each app until it ends: 2000, or 4 MiB of
them, less with more than 16 apps. --follow continues with new lines, also from
servers that join.

A turn whose commit was refused runs again. The effects of its earlier run, whose
lines are shown too, did not happen; the first line of the next run says so.`,
		Example: `  greenroom logs -f                  # of every actor of the app
  greenroom logs -f Counter          # of one type
  greenroom logs Counter me --last 50
  greenroom logs --since 10m
  greenroom logs -f --level warn -o json`,
		Args:              cobra.MaximumNArgs(2),
		ValidArgsFunction: complete{c}.types,
		RunE: func(cmd *cobra.Command, args []string) error {
			return logs(cmd.Context(), c, args, f)
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&f.follow, "follow", "f", false, "continue with new lines")
	flags.Int32Var(&f.last, "last", 200, "at most this `number` of remembered lines first")
	flags.DurationVar(&f.since, "since", 0, "only lines of this last `time`, such as 10m; 0: all that are remembered")
	flags.StringVar(&f.level, "level", "debug", "lowest `level`: debug, info, warn or error")
	_ = cmd.RegisterFlagCompletionFunc("level", fixedCompletion("debug", "info", "warn", "error"))
	return cmd
}

func logs(ctx context.Context, c *cli, args []string, f logsFlags) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.level)); err != nil {
		return usagef("--level is %q; give debug, info, warn or error", f.level)
	}
	if f.last < 0 || f.last > maxLast {
		return usagef("--last is %d; give 0 to %d", f.last, maxLast)
	}
	if f.since < 0 {
		return usagef("--since is %s; give a time above 0, such as 10m", f.since)
	}
	req := &greenroomv1.TailRequest{App: c.app, MinLevel: int32(level), Last: f.last, Follow: f.follow}
	if f.since > 0 {
		req.Since = timestamppb.New(time.Now().Add(-f.since))
	}
	if len(args) > 0 {
		req.ActorType = args[0]
	}
	if len(args) > 1 {
		req.ActorId = args[1]
	}
	a, err := c.api()
	if err != nil {
		return err
	}
	if len(args) > 0 {
		noteUnknownType(ctx, c, a, args[0])
	}
	stream, err := a.logs.Tail(ctx, connect.NewRequest(req))
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }() // it was read to its end, or given up
	for stream.Receive() {
		if err := printLogs(c, stream.Msg()); err != nil {
			return err
		}
	}
	if f.follow && errors.Is(ctx.Err(), context.Canceled) {
		return nil // Ctrl-C is how following ends
	}
	return stream.Err()
}

func printLogs(c *cli, msg *greenroomv1.TailResponse) error {
	if c.wantsJSON() {
		for _, l := range msg.Lines {
			if err := c.writeLine(l); err != nil {
				return err
			}
		}
		return nil
	}
	for _, name := range msg.Missing {
		c.printf(c.stderr, "(the server %s does not answer: its lines are missing here)\n", name)
	}
	if msg.Dropped > 0 {
		c.printf(c.stderr, "(%d lines were dropped here: guests log faster than they can be shown)\n", msg.Dropped)
	}
	for _, l := range msg.Lines {
		showGuestLine(c, c.stdout, guestLine{at: l.Time.AsTime().Local(), log: host.GuestLog{
			Key:    actor.Key{App: l.Actor.App, Type: l.Actor.Type, ID: l.Actor.Id},
			Method: l.Method, Level: l.Level, Text: l.Text,
		}})
	}
	return nil
}
