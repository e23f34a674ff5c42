package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// queryHelp says what filters are.
const queryHelp = `--where takes an expression in CEL over id, version, generation, state_schema,
state_size, updated_at, method_set, life, spawned, now and state, such as
state.total > 100 && id.startsWith("eu/"). What a filter costs, and what happens to
states that are not JSON or lack a member, is in docs/query.md.`

func actorsListCommand(c *cli) *cobra.Command {
	var page pageFlags
	var q queryFlags
	cmd := &cobra.Command{
		Use:   "list TYPE",
		Short: "List the actors of a type",
		Long: `List the actors of a type that have stored state, in byte order of their IDs: all
of them, or those that meet a filter.

` + queryHelp + ` --select has the columns, expressions with
commas between them. -o csv writes comma-separated values.

--watch shows the list, and then each actor that joins it (+), changes (~) or leaves
it (-). With -o json each of them is a line with its change.`,
		Example: `  greenroom actors list Counter
  greenroom actors list Cart --where 'state.total > 100' --select id,state.total
  greenroom actors list Cart --where 'updated_at < now - duration("24h")' --all -o csv
  greenroom actors list Cart --where 'has(state.coupon)' --watch
  greenroom actors list Counter --all -o json | jq -r '.actors[].key.id'`,
		ValidArgsFunction: complete{c}.types,
		RunE: c.withAPI(func(cmd *cobra.Command, a *api, args []string) error {
			var err error
			if q.selects, err = splitExpressions(q.selects); err != nil {
				return err
			}
			if err := q.check(); err != nil {
				return err
			}
			if !q.watch {
				return listOnce(cmd, c, a, args[0], &page, &q)
			}
			if page.all || page.token != "" {
				return usagef("--watch shows one list of up to --limit actors; leave out --all and --page-token")
			}
			return watchActors(cmd, c, a, args[0], &page, &q)
		}),
	}
	q.register(cmd)
	cmd.Flags().StringArrayVar(&q.selects, "select", nil, "show the values of these `expressions` in CEL; repeatable")
	page.register(cmd)
	return cmd
}

// listOnce shows a page, or with --all each.
func listOnce(cmd *cobra.Command, c *cli, a *api, typ string, page *pageFlags, q *queryFlags) error {
	list, err := listActors(cmd.Context(), c, a, typ, page, q)
	if err != nil {
		return err
	}
	if len(list.Actors) == 0 {
		noteUnknownType(cmd.Context(), c, a, typ)
	}
	header, rows := q.table(list.Actors)
	if c.output == outputCSV {
		err = writeCSV(c, append([][]string{header}, rows...))
		if next := list.GetNextPageToken(); err == nil && next != "" {
			c.printf(c.stderr, "there are more: add --page-token %s for the next page, or --all\n", next)
		}
	} else {
		err = c.list(cmd, list, header, rows, "no actor of type %s%s has stored state in app %s", typ, q.which(), c.app)
	}
	noteScan(c, list.Scan)
	return err
}

func actorsCountCommand(c *cli) *cobra.Command {
	var q queryFlags
	cmd := &cobra.Command{
		Use:   "count TYPE",
		Short: "Count the actors of a type",
		Long: `Count the actors of a type that have stored state: all of them, or those that meet
a filter. Every row of the type is read.

` + queryHelp + ` -o csv writes comma-separated values.

--watch shows the number whenever it has changed.`,
		Example: `  greenroom actors count Cart
  greenroom actors count Cart --where 'state.total > 100'`,
		ValidArgsFunction: complete{c}.types,
		RunE: c.withAPI(func(cmd *cobra.Command, a *api, args []string) error {
			if err := q.check(); err != nil {
				return err
			}
			var last *greenroomv1.ActorScan
			once := func(ctx context.Context) error {
				scan, err := countActors(ctx, c, a, args[0], &q)
				if err != nil || last != nil && scan.Matched == last.Matched {
					return err
				}
				if last == nil && scan.Examined == 0 {
					noteUnknownType(ctx, c, a, args[0])
				}
				last = scan
				return showCount(c, scan, q.watch)
			}
			if q.watch {
				return poll(cmd.Context(), q.interval, once)
			}
			return once(cmd.Context())
		}),
	}
	q.register(cmd)
	return cmd
}

func countActors(ctx context.Context, c *cli, a *api, typ string, q *queryFlags) (*greenroomv1.ActorScan, error) {
	scan := &greenroomv1.ActorScan{}
	for token := ""; ; {
		resp, err := q.ask(ctx, a, &greenroomv1.ListActorsRequest{App: c.app, Type: typ, Count: true, PageToken: token})
		if err != nil {
			return nil, err
		}
		addScan(scan, resp.Scan)
		if token = resp.GetNextPageToken(); token == "" {
			return scan, nil
		}
	}
}

func showCount(c *cli, scan *greenroomv1.ActorScan, asLine bool) error {
	switch {
	case c.wantsJSON() && asLine:
		return c.writeLine(scan)
	case c.wantsJSON():
		return c.writeMessage(scan)
	case c.output == outputCSV:
		return writeCSV(c, [][]string{{"matched"}, {strconv.FormatUint(scan.Matched, 10)}})
	}
	c.printf(c.stdout, "%d\n", scan.Matched)
	noteScan(c, scan)
	return nil
}
