package main

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

func appsCommand(c *cli) *cobra.Command {
	return group(&cobra.Command{
		Use:     "apps",
		Aliases: []string{"app"},
		Short:   "List apps, and bound their calls",
		Long: `List the apps of the server, and bound what their calls take. An app is a namespace,
which every command takes with --app; it exists as soon as something names it.`,
		Example: `  greenroom apps list
  greenroom apps set shop --quota turns=1000/s`,
	}, appsListCommand(c), appsGetCommand(c), appsSetCommand(c))
}

func appsListCommand(c *cli) *cobra.Command {
	var page pageFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the apps with what they have",
		Long: `List the apps that have modules, or ever had a type deployed, with their numbers of
served types and stored modules, and the time of the last deployment. A token that
is limited to one app may not list apps.`,
		Example: `  greenroom apps list`,
		RunE: c.withAPI(func(cmd *cobra.Command, a *api, _ []string) error {
			list, err := collect(&page, func(size int32, token string) (*greenroomv1.ListAppsResponse, error) {
				return unary(cmd.Context(), a.modules.ListApps, &greenroomv1.ListAppsRequest{PageSize: size, PageToken: token})
			})
			if err != nil {
				return err
			}
			rows := mapped(list.Apps, func(a *greenroomv1.App) []string {
				return []string{a.Name, strconv.FormatInt(a.Types, 10), strconv.FormatInt(a.Modules, 10), when(a.DeployedAt)}
			})
			return c.list(cmd, list, []string{"APP", "TYPES", "MODULES", "DEPLOYED"}, rows,
				"the server has no apps; deploy a module with `greenroom deploy --app NAME`")
		}),
	}
	page.register(cmd)
	return cmd
}

func appsGetCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "get [APP]", Short: "Show what bounds the calls of an app",
		Long: `Show the quotas of an app, the limits of its types and methods, and the types that are
paused. Without APP it is the app of --app.`,
		Example: "  greenroom apps get shop\n  greenroom apps get shop -o json | jq '.quotas'",
		RunE: c.withAPI(func(cmd *cobra.Command, a *api, args []string) error {
			app := optional(args, c.app)
			s, err := unary(cmd.Context(), a.settings.GetSettings, &greenroomv1.GetSettingsRequest{App: app})
			if err != nil {
				return err
			}
			if c.wantsJSON() {
				return c.writeMessage(&greenroomv1.GetSettingsResponse{Quotas: s.Quotas, Limits: s.Limits, Pauses: s.Pauses})
			}
			var rows [][]string
			for _, q := range s.Quotas {
				rows = append(rows, []string{"quota", q.Name, quotaText(q), when(q.UpdatedAt)})
			}
			for _, l := range s.Limits {
				rows = append(rows, []string{"limit", actor.LimitScope{Type: l.Type, Method: l.Method}.String(), limitText(l), when(l.UpdatedAt)})
			}
			for _, p := range s.Pauses {
				rows = append(rows, []string{"pause", p.Type, pauseText(p), when(p.UpdatedAt)})
			}
			if len(rows) == 0 {
				c.printf(c.stderr, "app %s has no quotas and no limits, and none of its types is paused\n", app)
				return nil
			}
			c.table([]string{"KIND", "OF", "BOUND", "CHANGED"}, rows)
			return nil
		}),
	}
}

func appsSetCommand(c *cli) *cobra.Command {
	var quotas []string
	cmd := &cobra.Command{
		Use: "set [APP]", Short: "Set the quotas of an app",
		Long: `Set what an app as a whole may use: turns, or fuel (about one unit for a simple
instruction), as NUMBER/UNIT with s, m or h, and :BURST for what may come at
once. Calls above a quota get quota_exceeded, which says when to try again. Or set what
it may store, as a number: actors, bytes (of their states), reminders, messages. Turns
that would store more get quota_exceeded. NAME=none removes a quota. Servers of a
cluster share the quota (docs/limits.md). Without APP it is the app of --app.`,
		Example: `  greenroom apps set shop --quota turns=1000/s --quota fuel=2e9/s
  greenroom apps set shop --quota turns=600/m:100,fuel=none
  greenroom apps set shop --quota actors=100000 --quota bytes=1e9`,
		RunE: c.withAPI(func(cmd *cobra.Command, a *api, args []string) error {
			return setQuotas(cmd.Context(), c, a, optional(args, c.app), quotas)
		}),
	}
	cmd.Flags().StringSliceVar(&quotas, "quota", nil, "a quota, `NAME=NUMBER/UNIT[:BURST]`, NAME=NUMBER of what is stored, or NAME=none; may be repeated")
	return cmd
}

func setQuotas(ctx context.Context, c *cli, a *api, app string, quotas []string) error {
	if len(quotas) == 0 {
		return usagef("--quota is missing; give NAME=NUMBER/UNIT, or NAME=none, such as turns=1000/s")
	}
	set := make(map[string]*greenroomv1.SetQuotaRequest, len(quotas))
	for _, q := range quotas {
		name, value, ok := strings.Cut(q, "=")
		if !ok || name == "" {
			return usagef("--quota %q is not of the form NAME=NUMBER/UNIT or NAME=none", q)
		}
		if value == "none" {
			set[name] = nil
			continue
		}
		req := &greenroomv1.SetQuotaRequest{App: app, Name: name}
		if slices.Contains(actor.StoredQuotas(), actor.Quota(name)) {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil || n != math.Trunc(n) || n < 0 || n > 1e15 {
				return usagef("--quota %q: give a whole number from 0 to 1e15, such as 100000 or 1e9", q)
			}
			req.Most = int64(n)
		} else {
			rate, err := parseRate(value)
			if err != nil {
				return usagef("--quota %q: %v", q, err)
			}
			req.Rate = rate
		}
		set[name] = req
	}
	for _, q := range quotas {
		name, _, _ := strings.Cut(q, "=")
		var err error
		if req := set[name]; req == nil {
			_, err = unary(ctx, a.settings.UnsetQuota, &greenroomv1.UnsetQuotaRequest{App: app, Name: name})
		} else {
			_, err = unary(ctx, a.settings.SetQuota, req)
		}
		if err := said(c, err, "set the quota %s\n", q); err != nil {
			return err
		}
	}
	return nil
}
