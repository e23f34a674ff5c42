package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

func remindersCommand(c *cli) *cobra.Command {
	return group(&cobra.Command{
		Use:     "reminders",
		Aliases: []string{"reminder"},
		Short:   "Methods of actors that are to run later",
		Long: `Look after reminders: durable invocations of a method of an actor at a time, by a
period or by a cron expression. Actors set reminders of their own; these commands
show them all, and set, pause and delete them from outside.`,
		Example: `  greenroom reminders list
  greenroom reminders create Cart alice expire Expire --after 30m
  greenroom reminders create Report eu weekly Send --cron '0 9 * * MON' --zone Europe/Berlin`,
	}, remindersListCommand(c), remindersGetCommand(c), remindersCreateCommand(c), remindersDeleteCommand(c),
		remindersPauseCommand(c, true), remindersPauseCommand(c, false), formerDeadLettersCommand(c),
		remindersExportCommand(c), remindersImportCommand(c))
}

func remindersListCommand(c *cli) *cobra.Command {
	var page pageFlags
	var prefix, from, before string
	var within time.Duration
	cmd := &cobra.Command{
		Use:   "list [TYPE] [ID]",
		Short: "List the reminders of the app, a type or an actor",
		Long: `List the reminders of the app, of the actors of a type, or of one actor, in byte
order of type, ID and name. NEXT is when it is delivered next: at its occurrence, or
later, after an attempt that failed. STATE is waiting (for that time), paused, retrying
after attempts that failed, or overdue.

Times are given as 2026-12-24T18:00:00Z (RFC 3339), or as "2026-12-24 18:00" in the
zone of this machine.`,
		Example: `  greenroom reminders list
  greenroom reminders list Cart alice
  greenroom reminders list --due-within 1h --all -o json | jq -r '.reminders[].name'`,
		ValidArgsFunction: complete{c}.actor,
		RunE: func(cmd *cobra.Command, args []string) error {
			req := &greenroomv1.ListRemindersRequest{App: c.app, Prefix: prefix}
			if len(args) > 0 {
				req.Type = args[0]
			}
			if len(args) > 1 {
				req.Id = args[1]
			}
			if prefix != "" && req.Id == "" {
				return usagef("--prefix is for the reminders of one actor; give TYPE and ID, too")
			}
			var err error
			if req.DueFrom, err = timeFlag("due-from", from); err != nil {
				return err
			}
			if req.DueBefore, err = timeFlag("due-before", before); err != nil {
				return err
			}
			if cmd.Flags().Changed("due-within") {
				if before != "" {
					return usagef("--due-within and --due-before exclude each other; give one")
				}
				if within <= 0 {
					return usagef("--due-within is %v; give a time above 0", within)
				}
				req.DueBefore = timestamppb.New(time.Now().Add(within))
			}
			a, err := c.api()
			if err != nil {
				return err
			}
			list, err := collect(&page, func(size int32, token string) (*greenroomv1.ListRemindersResponse, error) {
				full := &greenroomv1.ListRemindersResponse{}
				for req.PageToken = token; ; { // a page by due times may be short, or empty
					req.PageSize = size
					resp, err := unary(cmd.Context(), a.reminders.ListReminders, req)
					if err != nil {
						return nil, err
					}
					full.Reminders = append(full.Reminders, resp.Reminders...)
					full.NextPageToken, req.PageToken = resp.NextPageToken, resp.NextPageToken
					if size -= int32(len(resp.Reminders)); size <= 0 || req.PageToken == "" { //nolint:gosec // a page
						return full, nil
					}
				}
			})
			if err != nil {
				return err
			}
			none := "app %s has no such reminders"
			if len(args) == 0 && req.DueFrom == nil && req.DueBefore == nil {
				none = "app %s has no reminders; add one with `greenroom reminders create TYPE ID NAME METHOD`"
			}
			rows := mapped(list.Reminders, func(r *greenroomv1.Reminder) []string {
				return []string{r.Actor.GetType(), r.Actor.GetId(), r.Name, r.Spec.GetMethod(), when(r.FireAt), scheduleText(r), reminderState(r, time.Now())}
			})
			return c.list(cmd, list, []string{"TYPE", "ID", "NAME", "METHOD", "NEXT", "SCHEDULE", "STATE"}, rows, none, c.app)
		},
	}
	cmd.Flags().StringVar(&prefix, "prefix", "", "only names that begin with this `text`; with TYPE and ID")
	cmd.Flags().StringVar(&from, "due-from", "", "only those that are due at this `time` or later")
	cmd.Flags().StringVar(&before, "due-before", "", "only those that are due before this `time`")
	cmd.Flags().DurationVar(&within, "due-within", 0, "only those that are due within this `time` from now, or are overdue")
	page.register(cmd)
	return cmd
}

func remindersGetCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "get TYPE ID NAME",
		Short:             "Describe a reminder",
		Long:              "Describe a reminder. Its payload is shown as it is with -o json, in base64.",
		Example:           `  greenroom reminders get Cart alice expire`,
		ValidArgsFunction: complete{c}.reminder,
		RunE: c.withActor(func(cmd *cobra.Command, a *api, key *greenroomv1.ActorKey, args []string) error {
			resp, err := unary(cmd.Context(), a.reminders.GetReminder, &greenroomv1.GetReminderRequest{Actor: key, Name: args[2]})
			if err != nil {
				return err
			}
			if c.wantsJSON() {
				return c.writeMessage(resp.Reminder)
			}
			describeReminder(c, resp.Reminder)
			return nil
		}),
	}
}

func describeReminder(c *cli, r *greenroomv1.Reminder) {
	spec := r.Spec
	var metadata []string
	for k, v := range spec.GetMetadata() {
		metadata = append(metadata, k+"="+v)
	}
	next := ""
	if !r.FireAt.AsTime().Equal(r.Due.AsTime()) {
		next = when(r.FireAt)
	}
	c.facts(c.stdout, "",
		"app", r.Actor.GetApp(), "type", r.Actor.GetType(), "id", r.Actor.GetId(),
		"name", r.Name, "method", spec.GetMethod(), "payload", payloadText(spec), "metadata", strings.Join(sorted(metadata), " "),
		"schedule", scheduleText(r), "due", when(r.Due), "next", next, "until", when(spec.GetSchedule().GetUntil()),
		"missed", missedText(spec.GetMissed()), "failure", failureText(spec.GetFailure()),
		"state", reminderState(r, time.Now()), "last error", r.LastError, "reminder", r.Id, "changed", when(r.UpdatedAt))
}

// selection is which reminders a command is about: those that its arguments name.
type selection struct{ typ, id, name string }

// selected reads TYPE ID NAME, or, with --all, as many of them as are given.
func selected(args []string, all bool) (selection, error) {
	if len(args) < 3 && !all {
		return selection{}, usagef("NAME is missing; give TYPE ID NAME, or --all for all reminders of the actor, the type or the app")
	}
	if len(args) == 3 && all {
		return selection{}, usagef("--all is for more than the one reminder %s; leave out one of them", args[2])
	}
	var part [3]string
	copy(part[:], args)
	return selection{part[0], part[1], part[2]}, nil
}

// what says which they are.
func (s selection) what(app string) string {
	switch {
	case s.typ == "":
		return "all reminders of app " + app
	case s.id == "":
		return fmt.Sprintf("all reminders of type %s in app %s", s.typ, app)
	case s.name == "":
		return fmt.Sprintf("all reminders of %s %s in app %s", s.typ, strconv.Quote(s.id), app)
	}
	return fmt.Sprintf("the reminder %s of %s %s in app %s", s.name, s.typ, strconv.Quote(s.id), app)
}

// pages calls change for each page until there is none, and returns the sum.
func pages(ctx context.Context, change func(ctx context.Context, token string) (n uint32, next string, err error)) (uint32, error) {
	sum, token := uint32(0), ""
	for {
		n, next, err := change(ctx, token)
		sum += n
		if err != nil || next == "" {
			return sum, err
		}
		token = next
	}
}

// changed says how many reminders were changed.
func changed(c *cli, n uint32, done string) error {
	if c.wantsJSON() {
		return writeJSON(c.stdout, map[string]uint32{done: n})
	}
	if n == 1 {
		c.printf(c.stderr, "%s 1 reminder\n", done)
	} else {
		c.printf(c.stderr, "%s %d reminders\n", done, n)
	}
	return nil
}

func remindersDeleteCommand(c *cli) *cobra.Command {
	var yes, all bool
	cmd := &cobra.Command{
		Use:   "delete [TYPE] [ID] [NAME]",
		Short: "Delete a reminder, or all of an actor, a type or the app",
		Long: `Delete a reminder: it does not fire any more. Deleting a reminder that does not exist
is no error. --all deletes all reminders of the actor, the type or the app, and asks
first.`,
		Example: `  greenroom reminders delete Cart alice expire
  greenroom reminders delete Cart alice --all
  greenroom reminders delete Cart --all --yes`,
		ValidArgsFunction: complete{c}.reminder,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := selected(args, all)
			if err != nil {
				return err
			}
			a, err := c.api()
			if err != nil {
				return err
			}
			if all {
				if err := c.confirm(cmd.Context(), yes, "Delete "+s.what(c.app)+"?"); err != nil {
					return err
				}
			}
			n, err := pages(cmd.Context(), func(ctx context.Context, token string) (uint32, string, error) {
				resp, err := unary(ctx, a.reminders.DeleteReminders, &greenroomv1.DeleteRemindersRequest{
					App: c.app, Type: s.typ, Id: s.id, Name: s.name, All: all, PageToken: token,
				})
				return resp.GetDeleted(), resp.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			if n == 0 && all && s.typ != "" {
				noteUnknownType(cmd.Context(), c, a, s.typ)
			}
			return changed(c, n, "deleted")
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "all of the actor, of the type, or of the app")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

func remindersPauseCommand(c *cli, pause bool) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "pause [TYPE] [ID] [NAME]",
		Short: "Keep a reminder from firing, or all of an actor, a type or the app",
		Long: `Keep a reminder from firing until it is resumed. --all pauses all present reminders of
the actor, the type or the app; reminders that are set later fire.`,
		Example: `  greenroom reminders pause Cart alice expire
  greenroom reminders pause Cart --all`,
		ValidArgsFunction: complete{c}.reminder,
	}
	if !pause {
		cmd.Use, cmd.Short = "resume [TYPE] [ID] [NAME]", "Let a paused reminder fire again, or all of an actor, a type or the app"
		cmd.Long = `Let a paused reminder fire again. The times that passed while it was paused were
missed: by default, one firing stands for all of them, at once. --all resumes all
reminders of the actor, the type or the app.`
		cmd.Example = strings.ReplaceAll(cmd.Example, "pause", "resume")
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := selected(args, all)
		if err != nil {
			return err
		}
		a, err := c.api()
		if err != nil {
			return err
		}
		n, err := pages(cmd.Context(), func(ctx context.Context, token string) (uint32, string, error) {
			if pause {
				resp, err := unary(ctx, a.reminders.PauseReminders, &greenroomv1.PauseRemindersRequest{
					App: c.app, Type: s.typ, Id: s.id, Name: s.name, PageToken: token,
				})
				return resp.GetChanged(), resp.GetNextPageToken(), err
			}
			resp, err := unary(ctx, a.reminders.ResumeReminders, &greenroomv1.ResumeRemindersRequest{
				App: c.app, Type: s.typ, Id: s.id, Name: s.name, PageToken: token,
			})
			return resp.GetChanged(), resp.GetNextPageToken(), err
		})
		if err != nil {
			return err
		}
		if n == 0 && s.typ != "" {
			noteUnknownType(cmd.Context(), c, a, s.typ)
		}
		if pause {
			return changed(c, n, "paused")
		}
		return changed(c, n, "resumed")
	}
	cmd.Flags().BoolVar(&all, "all", false, "all of the actor, of the type, or of the app")
	return cmd
}

func bucketsCommand(c *cli) *cobra.Command {
	var page pageFlags
	var every bool
	list := &cobra.Command{
		Use:   "list",
		Short: "List buckets of reminders, and who creates from and delivers them",
		Long: `List the buckets of the app, or of all apps. Reminders are named by tokens, which
come in buckets of 100,000. Only one server ever creates from a bucket; one server
at a time delivers its reminders. USED is the number of its tokens that were handed
out, RATE/S the approximate number of recent deliveries per second.`,
		Example: "  greenroom buckets list --every-app",
		RunE: c.withAPI(func(cmd *cobra.Command, a *api, _ []string) error {
			app := c.app
			if every {
				app = ""
			}
			list, err := collect(&page, func(size int32, token string) (*greenroomv1.ListBucketsResponse, error) {
				return unary(cmd.Context(), a.reminders.ListBuckets, &greenroomv1.ListBucketsRequest{App: app, PageSize: size, PageToken: token})
			})
			if err != nil {
				return err
			}
			rows := mapped(list.Buckets, func(b *greenroomv1.Bucket) []string {
				state := "open"
				if b.Closed {
					state = "closed"
				}
				return []string{
					b.App, fmt.Sprintf("%s||%s||%d", b.Prefix, b.Vector, b.FirstToken/actor.BucketSize), strconv.FormatUint(uint64(b.Used), 10), state,
					b.Creator, cmp.Or(b.Owner, "nobody"), strconv.FormatUint(b.Epoch, 10), strconv.FormatUint(uint64(b.Rate), 10), when(b.DeliveredTill),
				}
			})
			return c.list(cmd, list, []string{"APP", "BUCKET", "USED", "STATE", "CREATOR", "OWNER", "EPOCH", "RATE/S", "DELIVERED TILL"}, rows,
				"app %s has no buckets: it never had a reminder", c.app)
		}),
	}
	page.register(list)
	list.Flags().BoolVar(&every, "every-app", false, "of all apps, not only of --app")
	return group(&cobra.Command{
		Use: "buckets", Short: "The buckets of tokens that reminders come from",
		Long:    "Show how the reminders of apps are divided among the servers of a cluster.",
		Example: "  greenroom buckets list",
	}, list)
}
