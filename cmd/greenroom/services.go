package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

func servicesCommand(c *cli) *cobra.Command {
	return group(&cobra.Command{
		Use: "services", Short: "Names that stand for actors",
		Long: `Services of the app: names that actors have claimed, and by which other actors call them
and send them messages.`,
		Example: `  greenroom services list
  greenroom services get mailer`,
	}, servicesListCommand(c), servicesGetCommand(c))
}

func servicesListCommand(c *cli) *cobra.Command {
	var page pageFlags
	var prefix string
	var watch bool
	cmd := &cobra.Command{
		Use:   "list",
		Args:  cobra.NoArgs,
		Short: "List the services of the app",
		Long: `List the services of the app in byte order of their names, with the actors that stand for them.

--watch shows the list, and then each service that an actor claims (+), that another one stands for
(~) or that none does (-), until Ctrl-C. With -o json there is a line for each of them.`,
		Example: `  greenroom services list
  greenroom services list --prefix workers/ --watch`,
		RunE: c.withAPI(func(cmd *cobra.Command, a *api, _ []string) error {
			if watch {
				if page.all || page.token != "" {
					return usagef("--watch shows one list; leave out --all and --page-token")
				}
				return watchServices(cmd.Context(), c, a, prefix)
			}
			list, err := collect(&page, func(size int32, token string) (*greenroomv1.ListServicesResponse, error) {
				return unary(cmd.Context(), a.actors.ListServices, &greenroomv1.ListServicesRequest{App: c.app, Prefix: prefix, PageSize: size, PageToken: token})
			})
			if err != nil {
				return err
			}
			rows := mapped(list.Services, func(v *greenroomv1.Service) []string {
				return []string{v.Name, v.Actor.GetType(), v.Actor.GetId(), when(v.ClaimedAt)}
			})
			return c.list(cmd, list, []string{"SERVICE", "TYPE", "ID", "CLAIMED"}, rows, "app %s has no services", c.app)
		}),
	}
	cmd.Flags().StringVar(&prefix, "prefix", "", "only names that begin with this `text`")
	cmd.Flags().BoolVar(&watch, "watch", false, "go on, and show what changes, until Ctrl-C")
	page.register(cmd)
	return cmd
}

// watchServices shows services, and what changes of them.
func watchServices(ctx context.Context, c *cli, a *api, prefix string) error {
	var known map[string]*greenroomv1.Service
	return follow(ctx, c, func(came func()) error {
		ctx, cut := context.WithCancel(ctx)
		defer cut()
		silence := time.AfterFunc(streamSilence, cut)
		defer silence.Stop()
		stream, err := a.actors.WatchServices(ctx, connect.NewRequest(&greenroomv1.WatchServicesRequest{App: c.app, Prefix: prefix}))
		if err != nil {
			return err
		}
		defer func() { _ = stream.Close() }() // it was read to its end, or given up
		for stream.Receive() {
			silence.Reset(streamSilence)
			came()
			if known == nil && stream.Msg().More {
				c.printf(c.stderr, "(only the first %d services are watched; narrow --prefix)\n", len(stream.Msg().Services))
			}
			changes, now := changesOfServices(known, stream.Msg().Services)
			known = now
			for _, change := range changes {
				if err := change.show(c); err != nil {
					return err
				}
			}
		}
		return stream.Err()
	})
}

// serviceChange is what happened to a service.
type serviceChange struct {
	sign, word string
	service    *greenroomv1.Service
}

// changesOfServices compares two states of a list.
func changesOfServices(known map[string]*greenroomv1.Service, list []*greenroomv1.Service) (changes []serviceChange, now map[string]*greenroomv1.Service) {
	now = make(map[string]*greenroomv1.Service, len(list))
	for _, v := range list {
		now[v.Name] = v
		switch old := known[v.Name]; {
		case old == nil:
			changes = append(changes, serviceChange{"+", "added", v})
		case !proto.Equal(old, v):
			changes = append(changes, serviceChange{"~", "changed", v})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if now[name] == nil {
			changes = append(changes, serviceChange{"-", "removed", known[name]})
		}
	}
	return changes, now
}

func (ch serviceChange) show(c *cli) error {
	if !c.wantsJSON() {
		c.printf(c.stdout, "%s %s  %s  %s\n", ch.sign, ch.service.Name, ch.service.Actor.GetType(), ch.service.Actor.GetId())
		return nil
	}
	raw, err := messageJSON(ch.service)
	if err != nil {
		return err
	}
	line, err := json.Marshal(struct {
		Change  string          `json:"change"`
		Service json.RawMessage `json:"service"`
	}{ch.word, raw})
	if err != nil {
		return fmt.Errorf("encode result: %w", err)
	}
	_, err = c.stdout.Write(append(escapeJSON(line), '\n'))
	return err
}

func servicesGetCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "get SERVICE",
		Args:    cobra.ExactArgs(1),
		Short:   "Say which actor stands for a service",
		Example: `  greenroom services get mailer`,
		RunE: c.withAPI(func(cmd *cobra.Command, a *api, args []string) error {
			found, err := unary(cmd.Context(), a.actors.ListServices, &greenroomv1.ListServicesRequest{App: c.app, Prefix: args[0], PageSize: 1})
			if err != nil {
				return err
			}
			if len(found.Services) == 0 || found.Services[0].Name != args[0] {
				return fmt.Errorf("no actor of app %s stands for the service %q", c.app, args[0])
			}
			v := found.Services[0]
			if c.wantsJSON() {
				return c.writeMessage(v)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", v.Actor.GetType(), v.Actor.GetId())
			return err
		}),
	}
}
