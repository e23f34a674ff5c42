package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

func (c *cli) actorsCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:     "actors",
		Aliases: []string{"actor"},
		Short:   "List, describe and delete actors",
		Long: `Look after actors that have stored state. An actor that never stored anything
is not listed; it can be called all the same.`,
		Example: `  greenroom actors list Counter
  greenroom actors list Cart --prefix shop/7/
  greenroom actors state Cart 'shop/7'`,
	}, c.actorsListCommand(), c.actorsGetCommand(), c.actorsStateCommand(), c.actorsDeleteCommand())
}

// pageFlags are those of commands that list.
type pageFlags struct {
	limit int32
	token string
	all   bool
}

func (p *pageFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.Int32Var(&p.limit, "limit", 100, "at most this `number`, up to 1000")
	flags.StringVar(&p.token, "page-token", "", "continue after an earlier page, by its `token`")
	flags.BoolVar(&p.all, "all", false, "all pages")
}

// collect calls fetch for one page or, with --all, for each. It returns the
// token of the page after the last one read.
func (p *pageFlags) collect(fetch func(size int32, token string) (next string, err error)) (string, error) {
	if p.limit < 1 || p.limit > 1000 {
		return "", usagef("--limit is %d; give 1 to 1000, or --all", p.limit)
	}
	token := p.token
	for {
		next, err := fetch(p.limit, token)
		if err != nil || next == "" || !p.all {
			return next, err
		}
		token = next
	}
}

// more says how to get the next page.
func (c *cli) more(cmd *cobra.Command, next string) {
	if next != "" {
		c.printf(c.stderr, "there are more: add --page-token %s for the next page, or --all (see `%s --help`)\n", next, cmd.CommandPath())
	}
}

func (c *cli) actorsListCommand() *cobra.Command {
	var page pageFlags
	var prefix string
	cmd := &cobra.Command{
		Use:   "list TYPE",
		Short: "List the actors of a type",
		Long:  "List the actors of a type that have stored state, in byte order of their IDs.",
		Example: `  greenroom actors list Counter
  greenroom actors list Counter --all -o json | jq -r '.actors[].key.id'`,
		Args:              takes("TYPE"),
		ValidArgsFunction: c.completeTypes,
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := c.api()
			if err != nil {
				return err
			}
			var actors []*greenroomv1.Actor
			next, err := page.collect(func(size int32, token string) (string, error) {
				ctx, cancel := context.WithTimeout(cmd.Context(), apiTimeout)
				defer cancel()
				for {
					resp, err := a.actors.ListActors(ctx, connect.NewRequest(&greenroomv1.ListActorsRequest{
						App: c.app, Type: args[0], Prefix: prefix, PageSize: size, PageToken: token,
					}))
					if err != nil {
						return "", err
					}
					actors = append(actors, resp.Msg.Actors...)
					token = resp.Msg.NextPageToken
					if token == "" || len(resp.Msg.Actors) > 0 { // deleted actors make empty pages
						return token, nil
					}
				}
			})
			if err != nil {
				return err
			}
			if c.wantsJSON() {
				return c.writeMessage(&greenroomv1.ListActorsResponse{Actors: actors, NextPageToken: next})
			}
			if len(actors) == 0 {
				c.noteUnknownType(cmd.Context(), a, args[0])
				which := ""
				if prefix != "" {
					which = " with an ID that begins with " + strconv.Quote(prefix)
				}
				c.printf(c.stderr, "no actor of type %s%s has stored state in app %s\n", args[0], which, c.app)
				return nil
			}
			rows := make([][]string, len(actors))
			for i, x := range actors {
				rows[i] = []string{x.Key.GetId(), size(x.StateSize), strconv.FormatUint(x.Generation, 10), when(x.UpdatedAt)}
			}
			c.table([]string{"ID", "STATE", "GENERATION", "UPDATED"}, rows)
			c.more(cmd, next)
			return nil
		},
	}
	cmd.Flags().StringVar(&prefix, "prefix", "", "only IDs that begin with this `text`")
	page.register(cmd)
	return cmd
}

func (c *cli) actorsGetCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "get TYPE ID",
		Short:             "Describe an actor",
		Example:           `  greenroom actors get Counter alice`,
		Args:              takes("TYPE", "ID"),
		ValidArgsFunction: c.completeActor,
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := c.actorKey(args[0], args[1])
			if err != nil {
				return err
			}
			a, err := c.api()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), apiTimeout)
			defer cancel()
			resp, err := a.actors.GetActor(ctx, connect.NewRequest(&greenroomv1.GetActorRequest{Actor: key}))
			if err != nil {
				return err
			}
			if c.wantsJSON() {
				return c.writeMessage(resp.Msg.Actor)
			}
			x := resp.Msg.Actor
			active := "no"
			if x.Active {
				active = fmt.Sprintf("yes, %d calls waiting", x.QueueDepth)
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
				"in memory", active)
			return nil
		},
	}
}

func (c *cli) actorsStateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "state TYPE ID [KEY]",
		Short: "Show the committed state of an actor",
		Long: `Show the committed state of an actor as one JSON object, or the value of one
key as it is stored. Values that are not JSON are shown in base64, as an object
{"base64": "…"}.`,
		Example: `  greenroom actors state Cart alice
  greenroom actors state Cart alice items | jq length`,
		Args:              takes("TYPE", "ID", "[KEY]"),
		ValidArgsFunction: c.completeActor,
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := c.actorKey(args[0], args[1])
			if err != nil {
				return err
			}
			a, err := c.api()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), apiTimeout)
			defer cancel()
			resp, err := a.actors.GetState(ctx, connect.NewRequest(&greenroomv1.GetStateRequest{Actor: key}))
			if err != nil {
				return err
			}
			if len(args) == 3 {
				return c.writeStateValue(resp.Msg.Entries, args[2])
			}
			state, err := stateObject(resp.Msg.Entries)
			if err != nil {
				return err
			}
			if c.wantsJSON() {
				return writeJSON(c.stdout, struct {
					State   json.RawMessage `json:"state"`
					Version uint64          `json:"version,string"`
				}{state, resp.Msg.Version})
			}
			return writeJSON(c.stdout, state)
		},
	}
}

func (c *cli) writeStateValue(entries []*greenroomv1.StateEntry, key string) error {
	for _, e := range entries {
		if e.Key == key {
			if e.Json {
				return c.writePayload(e.Value, actor.ContentTypeJSON)
			}
			return c.writePayload(e.Value, "application/octet-stream")
		}
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strconv.Quote(e.Key)
	}
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

func (c *cli) actorsDeleteCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "delete TYPE ID",
		Short: "Delete the state of an actor",
		Long: `Delete the state of an actor, as one turn of it. The actor itself goes on to
exist: the next call meets it empty. There is no way back.`,
		Example:           `  greenroom actors delete Counter alice --yes`,
		Args:              takes("TYPE", "ID"),
		ValidArgsFunction: c.completeActor,
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := c.actorKey(args[0], args[1])
			if err != nil {
				return err
			}
			a, err := c.api()
			if err != nil {
				return err
			}
			if err := c.confirm(cmd.Context(), yes, fmt.Sprintf("Delete the state of %s %s in app %s?", key.Type, strconv.Quote(key.Id), key.App)); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), apiTimeout)
			defer cancel()
			if _, err := a.actors.DeleteActor(ctx, connect.NewRequest(&greenroomv1.DeleteActorRequest{Actor: key})); err != nil {
				return err
			}
			if c.wantsJSON() {
				return writeJSON(c.stdout, struct{}{})
			}
			c.printf(c.stderr, "deleted the state of %s %s\n", key.Type, strconv.Quote(key.Id))
			return nil
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

// confirm asks before something is lost. Where nobody can answer, only --yes
// is a yes.
func (c *cli) confirm(ctx context.Context, yes bool, question string) error {
	if yes {
		return nil
	}
	if !isTerminal(c.stdin) || !isTerminal(c.stderr) {
		return usagef("nobody is there to confirm; add --yes")
	}
	c.printf(c.stderr, "%s [y/N] ", question)
	answer, err := interruptible(ctx, func() (string, error) { return bufio.NewReader(c.stdin).ReadString('\n') })
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("nothing was deleted")
}
