package main

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

func actorsCommand(c *cli) *cobra.Command {
	return group(&cobra.Command{
		Use:     "actors",
		Aliases: []string{"actor"},
		Short:   "List, count, describe and delete actors",
		Long: `Look after actors that have stored state. An actor that never stored anything
is not listed; it can be called all the same.`,
		Example: `  greenroom actors list Counter
  greenroom actors list Cart --prefix shop/7/
  greenroom actors list Cart --where 'state.total > 100' --select id,state.total
  greenroom actors state Cart 'shop/7'`,
	}, actorsListCommand(c), actorsCountCommand(c), actorsGetCommand(c), actorsStateCommand(c), cancelCommand(c, false), actorsDeleteCommand(c))
}

func actorsGetCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "get TYPE ID",
		Short:             "Describe an actor",
		Example:           `  greenroom actors get Counter alice`,
		ValidArgsFunction: complete{c}.actor,
		RunE: c.withActor(func(cmd *cobra.Command, a *api, key *greenroomv1.ActorKey, args []string) error {
			resp, err := unary(cmd.Context(), a.actors.GetActor, &greenroomv1.GetActorRequest{Actor: key})
			if err != nil {
				return err
			}
			if c.wantsJSON() {
				return c.writeMessage(resp.Actor)
			}
			x := resp.Actor
			active := "no"
			if x.Active {
				active = fmt.Sprintf("yes, %d calls waiting", x.QueueDepth)
			}
			accepts := "all methods"
			if x.MethodSet != "" {
				accepts = "the method set " + x.MethodSet
			}
			c.facts(c.stdout, "",
				"app", x.Key.GetApp(),
				"type", x.Key.GetType(),
				"id", x.Key.GetId(),
				"version", strconv.FormatUint(x.Version, 10),
				"generation", strconv.FormatUint(x.Generation, 10),
				"state schema", strconv.FormatUint(uint64(x.StateSchema), 10),
				"state size", size(x.StateSize),
				"updated", when(x.UpdatedAt),
				"accepts", accepts,
				"passed away", times(x.Life),
				"in memory", active)
			return nil
		}),
	}
}

func times(n uint64) string {
	if n == 0 {
		return "never"
	}
	return strconv.FormatUint(n, 10) + " times"
}

func actorsStateCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "state TYPE ID [KEY]",
		Short: "Show the committed state of an actor",
		Long: `Show the committed state of an actor as one JSON object, or the value of one
key as it is stored. Values that are not JSON are shown in base64, as an object
{"base64": "…"}.`,
		Example: `  greenroom actors state Cart alice
  greenroom actors state Cart alice items | jq length`,
		ValidArgsFunction: complete{c}.actor,
		RunE: c.withActor(func(cmd *cobra.Command, a *api, key *greenroomv1.ActorKey, args []string) error {
			resp, err := unary(cmd.Context(), a.actors.GetState, &greenroomv1.GetStateRequest{Actor: key})
			if err != nil {
				return err
			}
			if len(args) == 3 {
				return writeStateValue(c, resp.Entries, args[2])
			}
			state, err := stateObject(resp.Entries)
			if err != nil {
				return err
			}
			if c.wantsJSON() {
				return writeJSON(c.stdout, struct {
					State   json.RawMessage `json:"state"`
					Version uint64          `json:"version,string"`
				}{state, resp.Version})
			}
			return writeJSON(c.stdout, state)
		}),
	}
}

func writeStateValue(c *cli, entries []*greenroomv1.StateEntry, key string) error {
	for _, e := range entries {
		if e.Key == key {
			if e.Json {
				return writePayload(c, e.Value, actor.ContentTypeJSON)
			}
			return writePayload(c, e.Value, "application/octet-stream")
		}
	}
	names := mapped(entries, func(e *greenroomv1.StateEntry) string { return strconv.Quote(e.Key) })
	return &actor.ArgumentError{Field: "KEY", Problem: fmt.Sprintf("%q is not in the actor's state; it has %s", key, cmp.Or(strings.Join(names, ", "), "no keys"))}
}

// stateObject joins the entries to one JSON object, in their order.
func stateObject(entries []*greenroomv1.StateEntry) (json.RawMessage, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, e := range entries {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(e.Key)
		if err != nil {
			return nil, fmt.Errorf("encode state: %w", err)
		}
		b.Write(name)
		b.WriteByte(':')
		if e.Json {
			b.Write(e.Value)
		} else {
			fmt.Fprintf(&b, `{"base64":%q}`, base64.StdEncoding.EncodeToString(e.Value))
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func actorsDeleteCommand(c *cli) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "delete TYPE ID",
		Short: "Delete the state of an actor",
		Long: `Delete the state of an actor, as one turn of it. The actor itself still exists:
the next call finds it empty. This cannot be undone.`,
		Example:           `  greenroom actors delete Counter alice --yes`,
		ValidArgsFunction: complete{c}.actor,
		RunE: c.withActor(func(cmd *cobra.Command, a *api, key *greenroomv1.ActorKey, args []string) error {
			if err := c.confirm(cmd.Context(), yes, fmt.Sprintf("Delete the state of %s %s in app %s?", key.Type, strconv.Quote(key.Id), key.App)); err != nil {
				return err
			}
			if _, err := unary(cmd.Context(), a.actors.DeleteActor, &greenroomv1.DeleteActorRequest{Actor: key}); err != nil {
				return err
			}
			return c.done("deleted the state of %s %s", key.Type, strconv.Quote(key.Id))
		}),
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

// cancelCommand is of an actor, or of all actors of a type.
func cancelCommand(c *cli, ofType bool) *cobra.Command {
	var deadLetter, yes bool
	what := "an actor"
	cmd := &cobra.Command{Use: "cancel TYPE ID", ValidArgsFunction: complete{c}.actor}
	cmd.Example = `  greenroom actors cancel Mailer main
  greenroom actors cancel Mailer main --dead-letter`
	if ofType {
		what = "all actors of a type"
		cmd.Use, cmd.ValidArgsFunction = "cancel TYPE", complete{c}.types
		cmd.Example = `  greenroom types cancel Mailer --app shop
  greenroom types cancel Mailer --dead-letter --yes`
	}
	cmd.Short = "Cancel what waits for " + what
	cmd.Long = "Cancel what waits for " + what + `, at all servers: durable messages that were not
consumed are removed, or become dead letters with --dead-letter; calls get
call_cancelled; volatile messages are not delivered. Turns that have begun go on,
and reminders and timers stay. What comes afterwards is taken as before: pause the
type first ("greenroom types pause") if nothing more is to come.`
	run := func(cmd *cobra.Command, a *api, req *greenroomv1.CancelQueuedRequest) error {
		of := req.Type + " " + strconv.Quote(req.Id)
		if ofType {
			of = "all actors of " + req.Type
		}
		noteUnknownType(cmd.Context(), c, a, req.Type)
		if !deadLetter {
			if err := c.confirm(cmd.Context(), yes, fmt.Sprintf("Cancel what waits for %s of app %s?", of, c.app)); err != nil {
				return err
			}
		}
		req.App, req.DeadLetter = c.app, deadLetter
		all := &greenroomv1.CancelQueuedResponse{More: true}
		for all.More {
			resp, err := unary(cmd.Context(), a.actors.CancelQueued, req)
			if err != nil {
				if all.Messages > 0 {
					err = fmt.Errorf("after %d messages were cancelled: %w", all.Messages, err)
				}
				return err
			}
			all.Messages += resp.Messages
			all.Calls += resp.Calls
			all.VolatileMessages += resp.VolatileMessages
			all.More, all.Missing = resp.More, resp.Missing
		}
		if len(all.Missing) > 0 {
			c.printf(c.stderr, "%s these servers did not answer, and calls may wait there: %s\n", c.paint(c.stderr, yellow, "note:"), strings.Join(mapped(all.Missing, printable), ", "))
		}
		if c.wantsJSON() {
			return c.writeMessage(all)
		}
		removed := "removed"
		if deadLetter {
			removed = "are dead letters"
		}
		c.printf(c.stderr, "%s: %d messages %s, %d calls and %d volatile messages cancelled\n", of, all.Messages, removed, all.Calls, all.VolatileMessages)
		return nil
	}
	if ofType {
		cmd.RunE = c.withAPI(func(cmd *cobra.Command, a *api, args []string) error {
			return run(cmd, a, &greenroomv1.CancelQueuedRequest{Type: args[0]})
		})
	} else {
		cmd.RunE = c.withActor(func(cmd *cobra.Command, a *api, key *greenroomv1.ActorKey, _ []string) error {
			return run(cmd, a, &greenroomv1.CancelQueuedRequest{Type: key.Type, Id: key.Id})
		})
	}
	cmd.Flags().BoolVar(&deadLetter, "dead-letter", false, "keep the messages as dead letters")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}
