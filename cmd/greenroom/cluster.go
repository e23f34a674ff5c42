package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/server/diagnosis"
)

func hostsCommand(c *cli) *cobra.Command {
	list := &cobra.Command{
		Use: "list", Short: "List the servers of the cluster",
		Long: `List the servers that share the store: the leader, how many ranges of types each
server holds, how many sticky actors it owns, how many partitions it has checked out,
and its share of new sticky actors, where 1 is the mean.

STATE is up, scheduler (the server runs no actors), draining, drained, no session (the
server keeps its lease, but does not reach the leader) or lease over. A server holds
many ranges of each type, and some are adjacent: "greenroom placement show" counts
adjacent ranges as one.`,
		Example: "  greenroom hosts list",
		RunE: func(cmd *cobra.Command, _ []string) error {
			resp, err := listHosts(cmd.Context(), c, &greenroomv1.ListHostsRequest{})
			if err != nil {
				return clusterError(err)
			}
			if c.wantsJSON() {
				return c.writeMessage(resp)
			}
			rows := mapped(resp.Hosts, func(h *greenroomv1.ClusterHost) []string {
				return []string{h.HostId, h.Name, h.Address, hostState(h, resp), strconv.FormatUint(h.Ranges, 10), strconv.FormatUint(h.StickyActors, 10), strconv.FormatUint(h.Partitions, 10), weightText(h.Weight), h.Version, when(h.StartedAt)}
			})
			c.table([]string{"HOST", "NAME", "ADDRESS", "STATE", "RANGES", "STICKY", "PARTITIONS", "WEIGHT", "VERSION", "STARTED"}, rows)
			if !resp.LeaderAnswered {
				c.printf(c.stderr, "%s the leader does not answer: ranges and sticky actors are not known now\n", c.paint(c.stderr, yellow, "note:"))
			}
			return nil
		},
	}
	drain := &cobra.Command{
		Use: "drain HOST", Short: "Have a server hand over what it holds",
		Long: `Have a server hand over everything that it holds, and take nothing new until it
restarts. HOST is its ID, a prefix of its ID, or its name. Calls that arrive there
are forwarded to the other servers. Stopping a server drains it too.`,
		Example: "  greenroom hosts drain web-2",
		RunE: c.withAPI(func(cmd *cobra.Command, a *api, args []string) error {
			resp, err := unary(cmd.Context(), a.cluster.DrainHost, &greenroomv1.DrainHostRequest{Host: args[0]})
			if err != nil && describeError(c, err).Kind == string(actor.ErrHostGone.Kind()) {
				return withHosts(cmd.Context(), a, err)
			}
			if err != nil {
				return clusterError(err)
			}
			if c.wantsJSON() {
				return c.writeMessage(resp)
			}
			c.printf(c.stderr, "%s drains; `greenroom hosts list` shows how far it is\n", resp.HostId)
			noteNobodyTakes(cmd.Context(), c, a, resp.HostId)
			return nil
		}),
	}
	return group(&cobra.Command{
		Use: "hosts", Short: "The servers of a cluster",
		Long:    "List the servers that share a store, and drain one before it is stopped.",
		Example: "  greenroom hosts list\n  greenroom hosts drain web-2",
	}, list, drain)
}

// noteNobodyTakes says so if no other server is there to take what a draining one holds.
func noteNobodyTakes(ctx context.Context, c *cli, a *api, draining string) {
	all, err := unary(ctx, a.cluster.ListHosts, &greenroomv1.ListHostsRequest{})
	if err != nil || slices.ContainsFunc(diagnosis.Takers(all), func(h *greenroomv1.ClusterHost) bool { return h.HostId != draining }) {
		return
	}
	c.warnings([]string{"no other server takes actors, so that calls of those that it gives up wait; a server that drains takes nothing until it is started again"})
}

// withHosts adds to an error about a server that is not there which there are.
func withHosts(ctx context.Context, a *api, err error) error {
	all, listErr := unary(ctx, a.cluster.ListHosts, &greenroomv1.ListHostsRequest{})
	if listErr != nil {
		return err // which says enough
	}
	return &hintedError{err, "the servers are " + strings.Join(sorted(mapped(all.Hosts, serverName)), ", ")}
}

// serverName is what people call a server: its name, or its ID if it has none.
func serverName(h *greenroomv1.ClusterHost) string {
	if h.Name != "" {
		return h.Name
	}
	return h.HostId
}

// hostIDs returns the IDs of the servers that a person means by their ID, the beginning of
// it, or their name, as drain does.
func hostIDs(ctx context.Context, a *api, what string) ([]string, error) {
	all, err := unary(ctx, a.cluster.ListHosts, &greenroomv1.ListHostsRequest{})
	if err != nil {
		return nil, err
	}
	var ids, names []string
	for _, h := range all.Hosts {
		if h.HostId == what {
			return []string{what}, nil
		}
		if h.Name == what || strings.HasPrefix(h.HostId, what) {
			ids = append(ids, h.HostId)
		}
		names = append(names, serverName(h))
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("no server of the cluster is %q; the servers are %s", what, strings.Join(sorted(names), ", "))
	}
	return ids, nil
}

// hostNames returns the names of the servers by their IDs.
func hostNames(ctx context.Context, a *api) (map[string]string, error) {
	all, err := unary(ctx, a.cluster.ListHosts, &greenroomv1.ListHostsRequest{})
	if err != nil {
		return nil, err
	}
	names := make(map[string]string, len(all.Hosts))
	for _, h := range all.Hosts {
		names[h.HostId] = h.Name
	}
	return names, nil
}

// weightText is how many new sticky actors a host gets; "-" if none, or it is not known.
func weightText(weight float64) string {
	if weight == 0 {
		return "-"
	}
	return strconv.FormatFloat(weight, 'f', 2, 64)
}

// hostState is what a host does, in words.
func hostState(h *greenroomv1.ClusterHost, all *greenroomv1.ListHostsResponse) string {
	var words []string
	if h.Leader {
		words = append(words, "leader")
	}
	switch {
	case !all.Now.AsTime().Before(h.ExpiresAt.AsTime()):
		words = append(words, "lease over")
	case h.Draining && h.Ranges == 0 && h.StickyActors == 0 && h.Partitions == 0:
		words = append(words, "drained")
	case h.Draining:
		words = append(words, "draining")
	case all.LeaderAnswered && !h.Connected:
		words = append(words, "no session")
	case !diagnosis.RunsActors(h):
		words = append(words, "scheduler")
	default:
		words = append(words, "up")
	}
	return strings.Join(words, ", ")
}

func listHosts(ctx context.Context, c *cli, req *greenroomv1.ListHostsRequest) (*greenroomv1.ListHostsResponse, error) {
	a, err := c.api()
	if err != nil {
		return nil, err
	}
	return unary(ctx, a.cluster.ListHosts, req)
}

func whereCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "where TYPE ID", Short: "Say which server holds an actor",
		Long:    "Say which server of the cluster holds an actor now. No server holds\nan actor of a type any or stateless, nor a sticky actor before its first call. For a\nring:SERVERS type, the servers follow that answer its read-only methods; for a type\nthat is placed with a group, the key follows that it shares with other actors.",
		Example: "  greenroom where Cart alice --app shop",
		RunE: c.withAPI(func(cmd *cobra.Command, a *api, args []string) error {
			resp, err := unary(cmd.Context(), a.cluster.Where, &greenroomv1.WhereRequest{App: c.app, Type: args[0], Id: args[1]})
			if err != nil {
				return clusterError(err)
			}
			if c.wantsJSON() {
				return c.writeMessage(resp)
			}
			switch m := resp; {
			case m.Moving:
				c.printf(c.stdout, "moving (%s)\n", m.Placement)
			case m.HostId == "" && m.Name != "":
				c.printf(c.stdout, "away: %s (%s)\n", m.Name, m.Placement)
			case m.HostId == "":
				c.printf(c.stdout, "nowhere (%s)\n", m.Placement)
			default:
				c.printf(c.stdout, "%s %s %s (%s)\n", m.HostId, m.Name, m.Address, m.Placement)
			}
			if resp.Group != "" {
				c.printf(c.stdout, "with %s of group %s\n", resp.GroupKey, resp.Group)
			}
			for _, r := range resp.Readers {
				c.printf(c.stdout, "%s %s %s (reads)\n", r.HostId, r.Name, r.Address)
			}
			return nil
		}),
	}
}

func stickyCommand(c *cli) *cobra.Command {
	var typ, owner string
	var all bool
	list := &cobra.Command{
		Use: "list", Short: "List sticky actors and who owns them",
		Long:    "List the sticky actors of the app that a server owns now.",
		Example: "  greenroom sticky list --type Cart --app shop",
		RunE: c.withAPI(func(cmd *cobra.Command, a *api, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), apiTimeout)
			defer cancel()
			owners := []string{""}
			if owner != "" {
				var err error
				if owners, err = hostIDs(ctx, a, owner); err != nil {
					return clusterError(err)
				}
			}
			found := &greenroomv1.ListStickyResponse{}
			for _, id := range owners { // several have one name while one takes the place of another
				req := &greenroomv1.ListStickyRequest{App: c.app, Type: typ, Owner: id}
				for {
					resp, err := unary(ctx, a.cluster.ListSticky, req)
					if err != nil {
						return clusterError(err)
					}
					found.Actors = append(found.Actors, resp.Actors...)
					found.NextPageToken = resp.NextPageToken
					if req.PageToken = resp.NextPageToken; req.PageToken == "" || !all {
						break
					}
				}
			}
			if typ != "" && len(found.Actors) == 0 {
				noteUnknownType(ctx, c, a, typ)
			}
			if c.wantsJSON() {
				return c.writeMessage(found)
			}
			if len(found.Actors) == 0 {
				c.printf(c.stderr, "app %s has no sticky actors; `greenroom deploy --placement TYPE=sticky` makes a type sticky, and its actors have an owner from their first call on\n", c.app)
				return nil
			}
			names, err := hostNames(ctx, a)
			if err != nil {
				return clusterError(err)
			}
			rows := mapped(found.Actors, func(e *greenroomv1.StickyActor) []string {
				return []string{e.Type, e.Id, cmp.Or(names[e.Owner], e.Owner), e.Owner}
			})
			c.table([]string{"TYPE", "ID", "OWNER", "HOST"}, rows)
			if found.NextPageToken != "" {
				c.printf(c.stderr, "%s there are more; list them with --all\n", c.paint(c.stderr, yellow, "note:"))
			}
			return nil
		}),
	}
	list.Flags().StringVar(&typ, "type", "", "of this actor `type` alone")
	list.Flags().StringVar(&owner, "owner", "", "of the server with this `name` or ID alone")
	list.Flags().BoolVar(&all, "all", false, "all of them, not only the first 100")
	return group(&cobra.Command{
		Use: "sticky", Short: "Sticky actors and their owners",
		Long:    "Sticky actors stay at the server that ran them first, until it ends.",
		Example: "  greenroom sticky list",
	}, list)
}

func placementCommand(c *cli) *cobra.Command {
	var ranges bool
	show := &cobra.Command{
		Use: "show TYPE", Short: "Show which server holds how much of a type",
		Long: `Show which servers hold an actor type, and how much of it: the number of ranges of the
hash space, and their part of the whole. A range that several servers share counts for
each of them in equal parts. --ranges shows the table itself: each range with the server
that holds it, or the servers that share it; for a static type, also the name of its
server. For a ring:SERVERS type, the table also has the servers that answer read-only
methods, and the part of the type that each answers for. For a sticky type, it shows
where actors go that have no owner yet.

If parts of a type are called much more than others, their calls per second are
shown, and the parts that moved to another server for that reason.`,
		Example:           "  greenroom placement show Cart --app shop\n  greenroom placement show Cart --ranges",
		ValidArgsFunction: complete{c}.types,
		RunE: c.withAPI(func(cmd *cobra.Command, a *api, args []string) error {
			resp, err := unary(cmd.Context(), a.cluster.GetPlacement, &greenroomv1.GetPlacementRequest{App: c.app, Type: args[0]})
			if err != nil {
				return clusterError(err)
			}
			if c.wantsJSON() {
				return c.writeMessage(resp)
			}
			names, err := hostNames(cmd.Context(), a)
			if err != nil {
				return clusterError(err)
			}
			c.printf(c.stderr, "placement %s\n", resp.Placement)
			if ranges {
				showRanges(c, resp, names)
			} else {
				showShares(c, resp, names)
			}
			return nil
		}),
	}
	show.Flags().BoolVar(&ranges, "ranges", false, "show each range of the hash space")
	return group(&cobra.Command{
		Use: "placement", Short: "Where the actors of a type are",
		Long:    "Show how the actors of a type are divided among the servers of a cluster.",
		Example: "  greenroom placement show Cart",
	}, show)
}

// showRanges prints the table of a type as it is. names are those of servers, by ID.
func showRanges(c *cli, m *greenroomv1.GetPlacementResponse, names map[string]string) {
	named := func(ids []string) string {
		return strings.Join(mapped(ids, func(id string) string { return cmp.Or(names[id], id) }), " ")
	}
	header := []string{"FIRST", "LAST", "SERVERS"}
	if isRead(m.Ranges) {
		header = append(header, "READ BY")
	}
	before := len(header)
	rows := make([][]string, len(m.Ranges))
	for i, r := range m.Ranges {
		rows[i] = []string{fmt.Sprintf("%016x", r.First), fmt.Sprintf("%016x", r.Last), named(r.Hosts)}
		if len(r.Hosts) == 0 {
			rows[i][2] = nobodyHolds(r)
		}
		if before > 3 {
			rows[i] = append(rows[i], named(r.Readers))
		}
		switch {
		case r.Name != "":
			rows[i] = append(rows[i], r.Name)
			header = append(header[:before], "NAME")
		case r.Moved || r.CallsPerSecond > 0:
			rows[i] = append(rows[i], heatText(r.CallsPerSecond, r.Moved))
			header = append(header[:before], "CALLS/S")
		}
	}
	c.table(header, rows)
}

// isRead reports whether some range has readers.
func isRead(ranges []*greenroomv1.TableRange) bool {
	return slices.ContainsFunc(ranges, func(r *greenroomv1.TableRange) bool { return len(r.Readers) > 0 })
}

func heatText(calls float64, moved bool) string {
	if moved {
		return fmt.Sprintf("%.0f (moved)", calls)
	}
	return fmt.Sprintf("%.0f", calls)
}

func nobodyHolds(r *greenroomv1.TableRange) string {
	if r.Away {
		return "away"
	}
	return "moving"
}

// showShares prints which servers hold how much of a type.
func showShares(c *cli, m *greenroomv1.GetPlacementResponse, names map[string]string) {
	shares := sharesOf(m.Ranges, names)
	header := []string{"SERVER", "HOST", "RANGES", "SHARE"}
	if isRead(m.Ranges) {
		header = append(header, "READS")
	}
	before := len(header)
	rows := make([][]string, len(shares))
	for i, s := range shares {
		rows[i] = []string{s.server, s.id, strconv.Itoa(s.ranges), fmt.Sprintf("%.1f %%", 100*s.part)}
		if before > 4 {
			rows[i] = append(rows[i], fmt.Sprintf("%.1f %%", 100*s.read))
		}
		if s.moved || s.calls > 0 {
			rows[i] = append(rows[i], heatText(s.calls, s.moved))
			header = append(header[:before], "CALLS/S")
		}
	}
	c.table(header, rows)
}

// share is how much of a type a server holds.
type share struct {
	server string // its name; of what nobody holds, why
	id     string
	ranges int
	part   float64 // of the hash space
	read   float64 // of it, for which it answers read-only methods of what others hold
	calls  float64 // of its hot parts, in a second
	moved  bool    // some of it, because of them
}

// sharesOf adds up the ranges of a table by server, in the order of their names.
func sharesOf(ranges []*greenroomv1.TableRange, names map[string]string) []share {
	var shares []share
	of := func(server, id string) *share {
		at := slices.IndexFunc(shares, func(s share) bool { return s.server == server && s.id == id })
		if at < 0 {
			at = len(shares)
			shares = append(shares, share{server: server, id: id})
		}
		return &shares[at]
	}
	add := func(r *greenroomv1.TableRange, server, id string, part float64) {
		s := of(server, id)
		s.ranges++
		s.part += part
		s.calls += r.CallsPerSecond / float64(max(1, len(r.Hosts)))
		s.moved = s.moved || r.Moved
	}
	for _, r := range ranges {
		part := (float64(r.Last-r.First) + 1) / (1 << 64)
		for _, id := range r.Hosts {
			add(r, names[id], id, part/float64(len(r.Hosts)))
		}
		if len(r.Hosts) == 0 {
			add(r, strings.TrimSpace(r.Name+" ("+nobodyHolds(r)+")"), "", part)
		}
		for _, id := range r.Readers {
			of(names[id], id).read += part
		}
	}
	slices.SortFunc(shares, func(a, b share) int { return cmp.Or(cmp.Compare(a.server, b.server), cmp.Compare(a.id, b.id)) })
	return shares
}

// clusterError says what a server means that has no service for clusters.
func clusterError(err error) error {
	if connect.CodeOf(err) == connect.CodeUnimplemented {
		return errors.New("the server forms no cluster: it has a store of its own; servers that are started with --store and the URL of one database form one")
	}
	return err
}
