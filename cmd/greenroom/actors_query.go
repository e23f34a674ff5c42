package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// queryFlags are those of commands that ask for actors.
type queryFlags struct {
	prefix, where string
	selects       []string
	stale, watch  bool
	interval      time.Duration
}

func (q *queryFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&q.prefix, "prefix", "", "only IDs that begin with this `text`")
	flags.StringVar(&q.where, "where", "", "only actors that meet this `filter` in CEL")
	flags.BoolVar(&q.stale, "stale", false, "with --where: what is some seconds old will do, from the nearest replica of CockroachDB")
	flags.BoolVar(&q.watch, "watch", false, "go on, and show what changes, until Ctrl-C")
	flags.DurationVar(&q.interval, "interval", leastInterval, "`time` between two questions of --watch, 1s at least; never less than four times what a question takes")
	cmd.Annotations = map[string]string{outputCSV: "yes"}
}

func (q *queryFlags) check() error {
	if q.interval < leastInterval {
		return usagef("--interval is %s; give 1s or more", q.interval)
	}
	return nil
}

// isQuery reports whether the server evaluates something.
func (q *queryFlags) isQuery() bool { return q.where != "" || len(q.selects) > 0 }

// which says which actors are asked for.
func (q *queryFlags) which() string {
	which := ""
	if q.prefix != "" {
		which = " with an ID that begins with " + strconv.Quote(q.prefix)
	}
	if q.where != "" {
		which += " that meets the filter"
	}
	return which
}

// listActors asks for actors, until it has as many as are wanted. Scan is that of all requests.
func listActors(ctx context.Context, c *cli, a *api, typ string, page *pageFlags, q *queryFlags) (*greenroomv1.ListActorsResponse, error) {
	scan := &greenroomv1.ActorScan{}
	list, err := collect(page, func(size int32, token string) (*greenroomv1.ListActorsResponse, error) {
		all := &greenroomv1.ListActorsResponse{}
		for {
			resp, err := q.ask(ctx, a, &greenroomv1.ListActorsRequest{
				App: c.app, Type: typ, Select: q.selects, PageSize: size - int32(len(all.Actors)), PageToken: token,
			})
			if err != nil {
				return nil, err
			}
			addScan(scan, resp.Scan)
			all.Actors = append(all.Actors, resp.Actors...)
			token = resp.GetNextPageToken()
			// Deleted actors, and filters that few actors meet, make short pages.
			if token == "" || len(all.Actors) == int(size) || !q.isQuery() && len(all.Actors) > 0 {
				all.NextPageToken = token
				return all, nil
			}
		}
	})
	if err == nil && q.isQuery() {
		list.Scan = scan
	}
	return list, err
}

// errOldServer is said of a server that would list all actors.
var errOldServer = errors.New("the server is older than this command and does not know filters; update it, or leave out --where and --select")

// ask makes one request.
func (q *queryFlags) ask(ctx context.Context, a *api, req *greenroomv1.ListActorsRequest) (*greenroomv1.ListActorsResponse, error) {
	req.Prefix, req.Filter, req.AllowStale = q.prefix, q.where, q.stale
	resp, err := unary(ctx, a.actors.ListActors, req)
	if err == nil && resp.Scan == nil && (q.isQuery() || req.Count) {
		err = errOldServer
	}
	return resp, err
}

func addScan(to, part *greenroomv1.ActorScan) {
	if part == nil {
		return
	}
	to.Examined += part.Examined
	to.Matched += part.Matched
	to.NotJson += part.NotJson
	to.Failed += part.Failed
	to.Damaged += part.Damaged
	to.Failure = cmp.Or(to.Failure, part.Failure)
}

// noteScan says which actors a query left out.
func noteScan(c *cli, scan *greenroomv1.ActorScan) {
	if n := scan.GetFailed(); n > 0 {
		are := "are"
		if n == 1 {
			are = "is"
		}
		c.printf(c.stderr, "(the filter failed for %s, which %s left out; the first: %s%s)\n", actorsCount(n), are, scan.GetFailure(), failureRemedy(scan.GetFailure()))
	}
	if n := scan.GetNotJson(); n > 0 {
		c.printf(c.stderr, "(the states of %s are not JSON; they are left out)\n", actorsCount(n))
	}
	if n := scan.GetDamaged(); n > 0 {
		c.printf(c.stderr, "(the rows of %s are damaged; they are left out)\n", actorsCount(n))
	}
}

// failureRemedy is what to do about a filter that has failed for an actor; empty if that is not known.
func failureRemedy(failure string) string {
	switch {
	case strings.Contains(failure, "no such key"):
		return "; has(state.NAME) tells whether there is a member, and a field that was always zero is none"
	case strings.Contains(failure, "no such overload"):
		return "; the types on both sides do not go together: texts have quotes, numbers have none"
	}
	return ""
}

func actorsCount(n uint64) string {
	if n == 1 {
		return "1 actor"
	}
	return strconv.FormatUint(n, 10) + " actors"
}

// table returns what a list shows of actors.
func (q *queryFlags) table(actors []*greenroomv1.Actor) (header []string, rows [][]string) {
	if len(q.selects) > 0 {
		return q.selects, mapped(actors, func(x *greenroomv1.Actor) []string { return mapped(x.Selected, plain) })
	}
	return []string{"ID", "STATE", "GENERATION", "UPDATED"}, mapped(actors, func(x *greenroomv1.Actor) []string {
		return []string{x.Key.GetId(), size(x.StateSize), strconv.FormatUint(x.Generation, 10), when(x.UpdatedAt)}
	})
}

// plain is a JSON text for people: strings without their quotes.
func plain(text string) string {
	var s string
	if json.Unmarshal([]byte(text), &s) == nil && text != "null" {
		return s
	}
	return text
}

func writeCSV(c *cli, rows [][]string) error {
	var b bytes.Buffer
	if err := csv.NewWriter(&b).WriteAll(rows); err != nil {
		return fmt.Errorf("encode result: %w", err)
	}
	_, err := c.stdout.Write(b.Bytes())
	return err
}

// splitExpressions splits each at the commas that are in no brackets and in no text.
func splitExpressions(given []string) (all []string, err error) {
	for _, text := range given {
		start, depth, quote := 0, 0, byte(0)
		for i := 0; i < len(text); i++ {
			switch c := text[i]; {
			case quote != 0 && c == '\\':
				i++
			case quote != 0:
				if c == quote {
					quote = 0
				}
			case c == '"' || c == '\'' || c == '`':
				quote = c
			case strings.IndexByte("([{", c) >= 0:
				depth++
			case strings.IndexByte(")]}", c) >= 0:
				depth--
			case c == ',' && depth == 0:
				all = append(all, strings.TrimSpace(text[start:i]))
				start = i + 1
			}
		}
		all = append(all, strings.TrimSpace(text[start:]))
	}
	if slices.Contains(all, "") {
		return nil, usagef("--select has an empty expression; give expressions with commas between them, such as id,state.total")
	}
	return all, nil
}

const (
	leastInterval = time.Second
	// restFactor is how much longer --watch rests than it asks.
	restFactor = 4
)
