package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// poll asks again and again, until Ctrl-C. It rests longer than it asks, so that a question that
// reads much does not keep the server busy.
func poll(ctx context.Context, interval time.Duration, ask func(ctx context.Context) error) error {
	for {
		began := time.Now()
		if err := ask(ctx); err != nil {
			if errors.Is(ctx.Err(), context.Canceled) {
				return nil
			}
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(interval, restFactor*time.Since(began))):
		}
	}
}

// watchActors shows a list, and what changes in it.
func watchActors(cmd *cobra.Command, c *cli, a *api, typ string, page *pageFlags, q *queryFlags) error {
	var known map[string]*greenroomv1.Actor
	return poll(cmd.Context(), q.interval, func(ctx context.Context) error {
		list, err := listActors(ctx, c, a, typ, page, q)
		if err != nil {
			return err
		}
		if known == nil {
			noteScan(c, list.Scan)
			if list.NextPageToken != "" {
				c.printf(c.stderr, "(only the first %d actors are watched; narrow the filter, or raise --limit)\n", len(list.Actors))
			}
		}
		changes, now := changesOfList(known, list.Actors)
		known = now
		for _, change := range changes {
			if err := showChange(c, q, change); err != nil {
				return err
			}
		}
		return nil
	})
}

// actorChange is what happened to an actor of a list.
type actorChange struct {
	sign, word string
	actor      *greenroomv1.Actor
}

// changesOfList compares two states of a list. An actor has changed if its version has.
func changesOfList(known map[string]*greenroomv1.Actor, list []*greenroomv1.Actor) (changes []actorChange, now map[string]*greenroomv1.Actor) {
	now = make(map[string]*greenroomv1.Actor, len(list))
	for _, x := range list {
		id := x.Key.GetId()
		now[id] = x
		switch old := known[id]; {
		case old == nil:
			changes = append(changes, actorChange{"+", "added", x})
		case old.Version != x.Version || !slices.Equal(old.Selected, x.Selected):
			changes = append(changes, actorChange{"~", "changed", x})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(known)) {
		if now[id] == nil {
			changes = append(changes, actorChange{"-", "removed", known[id]})
		}
	}
	return changes, now
}

func showChange(c *cli, q *queryFlags, ch actorChange) error {
	_, rows := q.table([]*greenroomv1.Actor{ch.actor})
	switch c.output {
	case outputCSV:
		return writeCSV(c, [][]string{append([]string{ch.word}, rows[0]...)})
	case outputJSON:
		raw, err := messageJSON(ch.actor)
		if err != nil {
			return err
		}
		line, err := json.Marshal(struct {
			Change string          `json:"change"`
			Actor  json.RawMessage `json:"actor"`
		}{ch.word, raw})
		if err != nil {
			return fmt.Errorf("encode result: %w", err)
		}
		_, err = c.stdout.Write(append(escapeJSON(line), '\n'))
		return err
	}
	c.printf(c.stdout, "%s %s\n", ch.sign, strings.Join(rows[0], "  "))
	return nil
}
