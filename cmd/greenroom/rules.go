package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

func typesPauseCommand(c *cli) *cobra.Command {
	var refuse bool
	cmd := &cobra.Command{
		Use: "pause TYPE…", Short: "Let no turn of a type begin",
		Long: `Let no turn of the types begin until they are resumed. Turns that run go on, and
reminders keep their firings. Calls wait, for as long as a turn of the type may
take, and then get type_paused; with --refuse they get it at once, those that wait
already too, so that nothing stays queued. Turns of other actors that call a
paused type get type_paused at once.`,
		Example:           "  greenroom types pause Cart --app shop\n  greenroom types pause Cart --refuse",
		ValidArgsFunction: complete{c}.types,
		RunE: each(c, "paused %s\n", func(ctx context.Context, a *api, typ string) error {
			noteUnknownType(ctx, c, a, typ)
			_, err := unary(ctx, a.settings.PauseType, &greenroomv1.PauseTypeRequest{App: c.app, Type: typ, Refuse: refuse})
			return err
		}),
	}
	cmd.Flags().BoolVar(&refuse, "refuse", false, "refuse calls at once, those that wait too")
	return cmd
}

func typesResumeCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "resume TYPE…", Short: "End the pause of a type",
		Long:              "End the pause of the types. Calls that wait go on, in their order. Firings of\nreminders that came due meanwhile are delivered within a minute.",
		Example:           "  greenroom types resume Cart --app shop",
		ValidArgsFunction: complete{c}.types,
		RunE: each(c, "resumed %s\n", func(ctx context.Context, a *api, typ string) error {
			_, err := unary(ctx, a.settings.ResumeType, &greenroomv1.ResumeTypeRequest{App: c.app, Type: typ})
			return err
		}),
	}
}

func typesLimitCommand(c *cli) *cobra.Command {
	var rate string
	var burst float64
	var concurrency int32
	var per string
	var remove bool
	cmd := &cobra.Command{
		Use: "limit TYPE[/METHOD]", Short: "Bound the turns of a type or a method",
		Long: `Bound the turns of a type, or of one method of it, in the place of an earlier limit of
the same. Calls above the rate get rate_limited, which says when to try again.
Turns above the concurrency wait, for as long as a turn of the type may take. A
call counts for the limit of its type and for that of its method. Servers of a
cluster share the limit (docs/limits.md). "greenroom apps get" lists the limits.`,
		Example: `  greenroom types limit Cart --rate 500/s --app shop
  greenroom types limit Cart/Checkout --rate 10/m --burst 3 --per actor
  greenroom types limit Report --concurrency 4 --per token
  greenroom types limit Report --remove`,
		ValidArgsFunction: complete{c}.types,
		RunE: c.withAPI(func(cmd *cobra.Command, a *api, args []string) error {
			scope := actor.ParseLimitScope(args[0])
			if remove {
				if rate != "" || burst != 0 || concurrency != 0 || per != "" {
					return usagef("--remove removes the whole limit; give it alone")
				}
				_, err := unary(cmd.Context(), a.settings.UnsetLimit, &greenroomv1.UnsetLimitRequest{App: c.app, Type: scope.Type, Method: scope.Method})
				return said(c, err, "removed the limit of %s\n", scope)
			}
			r := &greenroomv1.Rate{}
			if rate != "" {
				var err error
				if r, err = parseRate(rate); err != nil {
					return usagef("--rate is %q; %v", rate, err)
				}
			}
			if burst != 0 {
				r.Burst = burst
			}
			noteUnknownType(cmd.Context(), c, a, scope.Type)
			_, err := unary(cmd.Context(), a.settings.SetLimit, &greenroomv1.SetLimitRequest{
				App: c.app, Type: scope.Type, Method: scope.Method, Rate: r, Concurrency: concurrency, Per: per,
			})
			return said(c, err, "limited %s\n", scope)
		}),
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&rate, "rate", "", "turns that may begin, `NUMBER/UNIT` with s, m or h, of each key")
	flags.Float64Var(&burst, "burst", 0, "how `many` may begin at once (default: what a second brings, and at least 1)")
	flags.Int32Var(&concurrency, "concurrency", 0, "how `many` may run at the same time, of all keys together; keys have the places in turn")
	flags.StringVar(&per, "per", "", "the `key`: actor, or token (that admitted the call); without it, all calls together")
	flags.BoolVar(&remove, "remove", false, "remove the limit")
	completeFlag(cmd, "per", fixedCompletion("actor", "token"))
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
				rows = append(rows, []string{"quota", q.Name, rateText(q.Rate), when(q.UpdatedAt)})
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
once. Calls above a quota get quota_exceeded, which says when to try again. NAME=none
removes a quota. Servers of a cluster share the quota (docs/limits.md). Without APP
it is the app of --app.`,
		Example: `  greenroom apps set shop --quota turns=1000/s --quota fuel=2e9/s
  greenroom apps set shop --quota turns=600/m:100,fuel=none`,
		RunE: c.withAPI(func(cmd *cobra.Command, a *api, args []string) error {
			return setQuotas(cmd.Context(), c, a, optional(args, c.app), quotas)
		}),
	}
	cmd.Flags().StringSliceVar(&quotas, "quota", nil, "a quota, `NAME=NUMBER/UNIT[:BURST]`, or NAME=none; may be repeated")
	return cmd
}

func setQuotas(ctx context.Context, c *cli, a *api, app string, quotas []string) error {
	if len(quotas) == 0 {
		return usagef("--quota is missing; give NAME=NUMBER/UNIT, or NAME=none, such as turns=1000/s")
	}
	rates := make(map[string]*greenroomv1.Rate, len(quotas))
	for _, q := range quotas {
		name, value, ok := strings.Cut(q, "=")
		if !ok || name == "" {
			return usagef("--quota %q is not of the form NAME=NUMBER/UNIT or NAME=none", q)
		}
		if value == "none" {
			rates[name] = nil
			continue
		}
		rate, err := parseRate(value)
		if err != nil {
			return usagef("--quota %q: %v", q, err)
		}
		rates[name] = rate
	}
	for _, q := range quotas {
		name, _, _ := strings.Cut(q, "=")
		var err error
		if rate := rates[name]; rate == nil {
			_, err = unary(ctx, a.settings.UnsetQuota, &greenroomv1.UnsetQuotaRequest{App: app, Name: name})
		} else {
			_, err = unary(ctx, a.settings.SetQuota, &greenroomv1.SetQuotaRequest{App: app, Name: name, Rate: rate})
		}
		if err := said(c, err, "set the quota %s\n", q); err != nil {
			return err
		}
	}
	return nil
}

// parseRate reads NUMBER/UNIT[:BURST].
func parseRate(text string) (*greenroomv1.Rate, error) {
	const form = "give NUMBER/UNIT with the unit s, m or h, such as 100/s, and :BURST if you like"
	rate, burst, bursts := strings.Cut(text, ":")
	number, unit, _ := strings.Cut(rate, "/")
	seconds := map[string]float64{"s": 1, "m": 60, "h": 3600}[unit]
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || seconds == 0 || !(n > 0) {
		return nil, fmt.Errorf("%s", form)
	}
	r := &greenroomv1.Rate{PerSecond: n / seconds}
	if bursts {
		if r.Burst, err = strconv.ParseFloat(burst, 64); err != nil || !(r.Burst >= 1) {
			return nil, fmt.Errorf("the burst is %q; give a number of at least 1", burst)
		}
	}
	return r, nil
}

func rateText(r *greenroomv1.Rate) string {
	text := strconv.FormatFloat(r.GetPerSecond(), 'g', 6, 64) + "/s"
	if r.GetPerSecond() > 0 && r.GetPerSecond() < 1 {
		text = strconv.FormatFloat(r.GetPerSecond()*3600, 'g', 6, 64) + "/h"
	}
	if r.GetBurst() > 0 {
		text += ", at once " + strconv.FormatFloat(r.GetBurst(), 'g', 6, 64)
	}
	return text
}

func limitText(l *greenroomv1.TypeLimit) string {
	var parts []string
	if l.Rate.GetPerSecond() > 0 {
		parts = append(parts, rateText(l.Rate))
	}
	if l.Concurrency > 0 {
		parts = append(parts, fmt.Sprintf("%d at the same time", l.Concurrency))
	}
	if l.Per != "" {
		parts = append(parts, "per "+l.Per)
	}
	return strings.Join(parts, ", ")
}

func pauseText(p *greenroomv1.TypePause) string {
	if p.Refuse {
		return "calls are refused"
	}
	return "calls wait"
}

// said says what was done, unless err says that it was not.
func said(c *cli, err error, text string, args ...any) error {
	if err == nil && !c.wantsJSON() {
		c.printf(c.stderr, text, args...)
	}
	return err
}
