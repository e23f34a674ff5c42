package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

func deadLettersCommand(c *cli) *cobra.Command {
	return group(&cobra.Command{
		Use: "deadletters", Aliases: []string{"deadletter"}, Short: "Firings and messages that failed for good",
		Long: `A firing of a reminder or a message whose turn fails is delivered again as its policy
says. After its last attempt it is kept as a dead letter; a reminder continues with its
next occurrence. A dead letter stays until it is retried or dropped.`,
		Example: `  greenroom deadletters list
  greenroom deadletters retry A-17-xkcdabcd-1792226400000000`,
	}, deadLettersListCommand(c), deadLettersGetCommand(c), deadLetterCommand(c, true), deadLetterCommand(c, false))
}

// formerDeadLettersCommand is the family under the name that it had when reminders alone had dead
// letters.
func formerDeadLettersCommand(c *cli) *cobra.Command {
	cmd := deadLettersCommand(c)
	cmd.Hidden = true
	return cmd
}

func deadLettersListCommand(c *cli) *cobra.Command {
	var page pageFlags
	var of deadLetterFlags
	cmd := &cobra.Command{
		Use:   "list [TYPE]",
		Short: "List the dead letters of the app",
		Long:  "List firings and messages that failed as often as their policies allow, with why.",
		Example: `  greenroom deadletters list
  greenroom deadletters list Cart --messages --all -o json`,
		Args:              takes("[TYPE]"),
		ValidArgsFunction: complete{c}.types,
		RunE: c.withAPI(func(cmd *cobra.Command, a *api, args []string) error {
			kind, err := of.kind()
			if err != nil {
				return err
			}
			list, err := deadLetters(cmd.Context(), c, a, strings.Join(args, ""), kind, &page)
			if err != nil {
				return err
			}
			rows := mapped(list.DeadLetters, func(l *greenroomv1.DeadLetter) []string {
				r := l.Reminder
				return []string{l.Id, r.Actor.GetType(), r.Actor.GetId(), deadLetterOf(r), r.Spec.GetMethod(), when(r.Due), when(l.FailedAt), l.Reason}
			})
			return c.list(cmd, list, []string{"DEAD LETTER", "TYPE", "ID", "WHAT", "METHOD", "DUE", "FAILED", "REASON"}, rows,
				"app %s has no such dead letters", c.app)
		}),
	}
	page.register(cmd)
	of.register(cmd)
	return cmd
}

// deadLetterOf says what a dead letter was: the reminder of a name, or the message of a sender.
func deadLetterOf(r *greenroomv1.Reminder) string {
	if m := r.Message; m != nil {
		return "message from " + senderText(m)
	}
	return "reminder " + r.Name
}

// deadLetterFlags say which dead letters a command is about.
type deadLetterFlags struct{ reminders, messages bool }

func (f *deadLetterFlags) register(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.reminders, "reminders", false, "only firings of reminders")
	cmd.Flags().BoolVar(&f.messages, "messages", false, "only messages")
}

func (f *deadLetterFlags) kind() (greenroomv1.DeadLetterKind, error) {
	switch {
	case f.reminders && f.messages:
		return 0, usagef("--reminders and --messages exclude each other; give one, or none for both")
	case f.reminders:
		return greenroomv1.DeadLetterKind_DEAD_LETTER_KIND_REMINDERS, nil
	case f.messages:
		return greenroomv1.DeadLetterKind_DEAD_LETTER_KIND_MESSAGES, nil
	}
	return greenroomv1.DeadLetterKind_DEAD_LETTER_KIND_ALL, nil
}

// deadLetters lists those of a type; empty: of all types.
func deadLetters(ctx context.Context, c *cli, a *api, typ string, kind greenroomv1.DeadLetterKind, page *pageFlags) (*greenroomv1.ListDeadLettersResponse, error) {
	return collect(page, func(size int32, token string) (*greenroomv1.ListDeadLettersResponse, error) {
		return unary(ctx, a.reminders.ListDeadLetters, &greenroomv1.ListDeadLettersRequest{App: c.app, Type: typ, Kind: kind, PageSize: size, PageToken: token})
	})
}

func deadLettersGetCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "get DEADLETTER",
		Short:   "Describe a dead letter",
		Long:    "Describe a dead letter. With -o json it is shown with its payload, in base64.",
		Example: "  greenroom deadletters get A-17-xkcdabcd-1792226400000000",
		Args:    takes("DEADLETTER"),
		RunE: c.withAPI(func(cmd *cobra.Command, a *api, args []string) error {
			resp, err := unary(cmd.Context(), a.reminders.GetDeadLetter, &greenroomv1.GetDeadLetterRequest{App: c.app, Id: args[0]})
			if err != nil {
				return err
			}
			l := resp.DeadLetter
			if c.wantsJSON() {
				return c.writeMessage(l)
			}
			r := l.Reminder
			c.facts(c.stdout, "",
				"dead letter", l.Id, "app", r.Actor.GetApp(), "type", r.Actor.GetType(), "id", r.Actor.GetId(), "what", deadLetterOf(r),
				"method", r.Spec.GetMethod(), "payload", payloadText(r.Spec), "due", when(r.Due), "failed", when(l.FailedAt),
				"attempts", strconv.FormatUint(uint64(r.Failures), 10), "reason", l.Reason)
			return nil
		}),
	}
}

func deadLetterCommand(c *cli, retry bool) *cobra.Command {
	var all, yes bool
	var typ string
	var of deadLetterFlags
	cmd := &cobra.Command{
		Use:     "drop DEADLETTER…",
		Args:    cobra.ArbitraryArgs, // or --all
		Aliases: []string{"delete"},
		Short:   "Drop dead letters",
		Long:    "Drop dead letters: their methods do not run. This cannot be undone.",
		Example: `  greenroom deadletters drop A-17-xkcdabcd-1792226400000000
  greenroom deadletters drop --all --type Cart`,
	}
	if retry {
		cmd.Use, cmd.Short, cmd.Aliases = "retry DEADLETTER…", "Deliver dead letters again", nil
		cmd.Long = `Deliver dead letters again, at once: each becomes a reminder that fires once, or a
message, with as many attempts as before, and is no dead letter any more.`
		cmd.Example = strings.ReplaceAll(cmd.Example, "deadletters drop", "deadletters retry")
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if (len(args) == 0) != all {
			return usagef("give the dead letters, as `greenroom deadletters list` shows them, or --all")
		}
		kind, err := of.kind()
		if err != nil {
			return err
		}
		if !all && (typ != "" || of != (deadLetterFlags{})) {
			return usagef("--type, --reminders and --messages are for --all; leave them out")
		}
		a, err := c.api()
		if err != nil {
			return err
		}
		ids := args
		if all {
			list, err := deadLetters(cmd.Context(), c, a, typ, kind, &pageFlags{limit: 1000, all: true})
			if err != nil {
				return err
			}
			for _, l := range list.DeadLetters {
				ids = append(ids, l.Id)
			}
			if !retry && len(ids) > 0 {
				if err := c.confirm(cmd.Context(), yes, fmt.Sprintf("Drop %d dead letters of app %s?", len(ids), c.app)); err != nil {
					return err
				}
			}
		}
		return eachDeadLetter(cmd.Context(), c, a, ids, retry, all)
	}
	cmd.Flags().BoolVar(&all, "all", false, "all dead letters of the app")
	cmd.Flags().StringVar(&typ, "type", "", "with --all: of this actor `type` alone")
	of.register(cmd)
	if !retry {
		cmd.Flags().BoolVarP(&yes, "yes", "y", false, "with --all: do not ask")
	}
	return cmd
}

// eachDeadLetter fails if one of ids was not found, unless they were listed a moment before.
func eachDeadLetter(ctx context.Context, c *cli, a *api, ids []string, retry, listed bool) error {
	done := "dropped"
	if retry {
		done = "retried"
	}
	n := uint32(0)
	var missing []string
	for _, id := range ids {
		var err error
		existed := true
		if retry {
			_, err = unary(ctx, a.reminders.RetryDeadLetter, &greenroomv1.RetryDeadLetterRequest{App: c.app, Id: id})
		} else {
			var resp *greenroomv1.DeleteDeadLetterResponse
			resp, err = unary(ctx, a.reminders.DeleteDeadLetter, &greenroomv1.DeleteDeadLetterRequest{App: c.app, Id: id})
			existed = resp.GetExisted()
		}
		if err != nil {
			return fmt.Errorf("%s after %d were %s: %w", id, n, done, err)
		}
		if existed {
			n++
		} else {
			missing = append(missing, id)
		}
	}
	if len(missing) > 0 && !listed {
		return fmt.Errorf("no dead letter %s in app %s; %d of %d were dropped", strings.Join(missing, ", "), c.app, n, len(ids))
	}
	if c.wantsJSON() {
		return writeJSON(c.stdout, map[string]uint32{done: n})
	}
	c.printf(c.stderr, "%s %d of %d dead letters\n", done, n, len(ids))
	return nil
}
