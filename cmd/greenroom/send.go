package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

func sendCommand(c *cli) *cobra.Command {
	var contentType, key, at string
	var delay time.Duration
	cmd := &cobra.Command{
		Use:   "send TYPE ID METHOD [PAYLOAD]",
		Short: "Send a durable message to an actor",
		Long: `Send a durable message to an actor: METHOD is run with PAYLOAD as a turn that takes
effect once, and the command does not wait for it. If the turn fails, it runs again as
the policy of the actor's type says, and the message is then a dead letter. PAYLOAD is
given as to "greenroom call"; it has at most 64 KiB.

The message's ID is printed. With --idempotency-key the message is sent once, however
often the command is repeated. Messages that are sent from outside have no order.`,
		Example: `  greenroom send Order 17 Ship '{"to": "Berlin"}'
  greenroom send Cart alice Expire --delay 30m
  greenroom send Account bob Credit '{"amount": 5}' --idempotency-key payment-7`,
		Args:              takes("TYPE", "ID", "METHOD", "[PAYLOAD]"),
		ValidArgsFunction: complete{c}.call,
		RunE: c.withActor(func(cmd *cobra.Command, a *api, actorKey *greenroomv1.ActorKey, args []string) error {
			if err := actor.ValidateName("method", args[2]); err != nil {
				return err
			}
			if (cmd.Flags().Changed("idempotency-key") || cmd.Flags().Changed("key")) && key == "" {
				return usagef("--idempotency-key is empty; give 1 to 255 printable ASCII characters, or leave it out")
			}
			m := &greenroomv1.OutgoingMessage{Type: actorKey.Type, Id: actorKey.Id, Method: args[2], ContentType: contentType, IdempotencyKey: key}
			due, err := timeFlag("at", at)
			switch {
			case err != nil:
				return err
			case due != nil && delay != 0:
				return usagef("--at and --delay exclude each other; give one")
			case delay < 0:
				return usagef("--delay is %v; give a time above 0", delay)
			case due != nil:
				m.Due = &greenroomv1.OutgoingMessage_At{At: due}
			case delay > 0:
				m.Due = &greenroomv1.OutgoingMessage_After{After: durationpb.New(delay)}
			}
			if len(args) > 3 {
				if m.Payload, err = readPayload(cmd.Context(), c, args[3], contentType); err != nil {
					return err
				}
			}
			resp, err := unary(cmd.Context(), a.actors.Send, &greenroomv1.SendRequest{App: c.app, Messages: []*greenroomv1.OutgoingMessage{m}})
			if err != nil {
				return withNearest(cmd.Context(), c, a, err, args[:1], args[2])
			}
			sent := resp.Messages[0]
			if c.wantsJSON() {
				return c.writeMessage(sent)
			}
			if sent.Repeated {
				c.printf(c.stderr, "the message was sent before\n")
			}
			c.printf(c.stdout, "%s\n", messageID(sent.Id))
			return nil
		}),
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.DurationVar(&delay, "delay", 0, "deliver it after this `time`")
	flags.StringVar(&at, "at", "", "deliver it at this `time`, such as 2026-12-24T18:00:00Z")
	flags.StringVar(&key, "idempotency-key", "", "a `key` of your own: the same message with the same key is sent once")
	flags.StringVar(&key, "key", "", "the former name of --idempotency-key")
	_ = flags.MarkHidden("key")
	flags.StringVar(&contentType, "content-type", actor.ContentTypeJSON, "media `type` of the payload")
	return cmd
}

func inboxCommand(c *cli) *cobra.Command {
	var page pageFlags
	cmd := &cobra.Command{
		Use:   "inbox TYPE ID",
		Short: "List the messages that an actor has not consumed",
		Long: `List the messages to an actor that it has not consumed: those that wait for their time
or for their next attempt, and those that are under way. The messages of one sender are
in the order in which they were sent, which is that in which they are delivered, but for
messages with a delay and from outside. -o json shows all that they have, without their
payloads. The ID of a dead letter begins with the ID of its message.`,
		Example: "  greenroom inbox Order 17",
		Args:    takes("TYPE", "ID"), ValidArgsFunction: complete{c}.actor,
		RunE: c.withActor(func(cmd *cobra.Command, a *api, key *greenroomv1.ActorKey, _ []string) error {
			list, err := collect(&page, func(size int32, token string) (*greenroomv1.ListMessagesResponse, error) {
				return unary(cmd.Context(), a.actors.ListMessages, &greenroomv1.ListMessagesRequest{Actor: key, PageSize: size, PageToken: token})
			})
			if err != nil {
				return err
			}
			dead := ""
			if len(list.Messages) == 0 && !c.wantsJSON() {
				noteUnknownType(cmd.Context(), c, a, key.Type)
				dead = deadMessages(cmd.Context(), c, a, key)
			}
			rows := mapped(list.Messages, func(m *greenroomv1.InboxMessage) []string {
				return []string{messageID(m.Id), m.Method, senderText(m.Details), when(m.SentAt), when(m.FireAt), strconv.FormatUint(uint64(m.Failures), 10), size(int64(m.PayloadSize)), m.LastError}
			})
			return c.list(cmd, list, []string{"MESSAGE", "METHOD", "FROM", "SENT", "NEXT", "FAILED", "SIZE", "LAST ERROR"}, rows,
				"no messages to %s %s wait%s", key.Type, key.Id, dead)
		}),
	}
	page.register(cmd)
	return cmd
}

// messageID is the ID of a message as people see it: what the ID of its dead letter begins with.
func messageID(id string) string {
	return strings.ReplaceAll(strings.TrimPrefix(id, "reminder||"), "||", "-")
}

// deadMessages says how many messages to an actor are dead letters, among the first 1000 of its
// type; empty if none is, or if the token may not list them.
func deadMessages(ctx context.Context, c *cli, a *api, to *greenroomv1.ActorKey) string {
	list, err := deadLetters(ctx, c, a, to.Type, greenroomv1.DeadLetterKind_DEAD_LETTER_KIND_MESSAGES, &pageFlags{limit: 1000})
	if err != nil {
		return ""
	}
	n := 0
	for _, l := range list.DeadLetters {
		if l.Reminder.Actor.GetId() == to.Id {
			n++
		}
	}
	switch n {
	case 0:
		return ""
	case 1:
		return "; 1 dead letter: `greenroom deadletters list " + to.Type + "`"
	}
	return fmt.Sprintf("; %d dead letters: `greenroom deadletters list %s`", n, to.Type)
}
