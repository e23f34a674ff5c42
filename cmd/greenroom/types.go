package main

import (
	"context"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

func typesCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "types",
		Short:   "List the actor types and what serves them",
		Long:    "List the actor types of the app with their methods\n(" + methodMarks + "),\ntheir Protobuf services and the field of a request that has the actor's ID,\nthe capabilities that they use (! not given to the app), and the deployment that\nserves them. If the app is granted more hosts than its types declare, a note names\nthe narrower grants that are enough.",
		Example: `  greenroom types --app shop`,
		Args:    unknownCommand,
		RunE: c.withAPI(func(cmd *cobra.Command, a *api, _ []string) error {
			types, err := listTypes(cmd.Context(), c, a)
			if err != nil {
				return err
			}
			if c.wantsJSON() {
				return c.writeMessage(&greenroomv1.ListTypesResponse{Types: types})
			}
			if len(types) == 0 {
				c.printf(c.stderr, "app %s has no actor types; deploy a module with `greenroom deploy`\n", c.app)
				return nil
			}
			c.table(typesTable(types))
			showMarks(c, mapped(types, func(t *greenroomv1.ServedType) *greenroomv1.ActorType { return t.Type }))
			noteWideGrants(cmd.Context(), c, types)
			noteRules(cmd.Context(), c)
			return nil
		}),
	}
	cmd.AddCommand(typesPauseCommand(c), typesResumeCommand(c), cancelCommand(c, true), typesLimitCommand(c))
	return cmd
}

// typesTable is the table of types. What no type has gets no column.
func typesTable(types []*greenroomv1.ServedType) (header []string, rows [][]string) {
	columns := []struct {
		name string
		cell func(t *greenroomv1.ServedType) string
	}{
		{"TYPE", func(t *greenroomv1.ServedType) string { return t.Type.GetName() }},
		{"METHODS", func(t *greenroomv1.ServedType) string { return methodNames(t.Type) }},
		{"SERVICE", func(t *greenroomv1.ServedType) string { return serviceOf(t.Type) }},
		{"PLACEMENT", func(t *greenroomv1.ServedType) string { return placementOf(t.Type) }},
		{"GENERATION", func(t *greenroomv1.ServedType) string { return strconv.FormatUint(t.Deployment.GetGeneration(), 10) }},
		{"MODULE", func(t *greenroomv1.ServedType) string { return short(t.Deployment.GetDigest()) }},
		{"DEPLOYED", func(t *greenroomv1.ServedType) string { return when(t.Deployment.GetCreatedAt()) }},
		{"USES", func(t *greenroomv1.ServedType) string { return usesOf(t.Deployment) }},
	}
	rows = make([][]string, len(types))
	for _, column := range columns {
		cells := mapped(types, column.cell)
		if !slices.ContainsFunc(cells, func(cell string) bool { return cell != "" }) {
			continue
		}
		header = append(header, column.name)
		for i, cell := range cells {
			rows[i] = append(rows[i], cell)
		}
	}
	return header, rows
}

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
			noteUnknownType(ctx, c, a, typ)
			_, err := unary(ctx, a.settings.ResumeType, &greenroomv1.ResumeTypeRequest{App: c.app, Type: typ})
			return err
		}),
	}
}

func typesLimitCommand(c *cli) *cobra.Command {
	var rate string
	var burst float64
	var concurrency int32
	var per, pool string
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
  greenroom types limit Report --concurrency 4 --per token --pool batch
  greenroom types limit Report --remove`,
		ValidArgsFunction: complete{c}.types,
		RunE: c.withAPI(func(cmd *cobra.Command, a *api, args []string) error {
			scope := actor.ParseLimitScope(args[0])
			if remove {
				if rate != "" || burst != 0 || concurrency != 0 || per != "" || pool != "" {
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
				App: c.app, Type: scope.Type, Method: scope.Method, Rate: r, Concurrency: concurrency, Per: per, Pool: pool,
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
	flags.StringVar(&pool, "pool", "", "the `pool` that turns run in, before what the server and the manifest say")
	flags.BoolVar(&remove, "remove", false, "remove the limit")
	completeFlag(cmd, "per", fixedCompletion("actor", "token"))
	return cmd
}

// noteRules prints which types are paused, and which run in another pool than their module says. It
// prints nothing if the token may not read the settings.
func noteRules(ctx context.Context, c *cli) {
	s, err := settings(ctx, c)
	if err != nil {
		return
	}
	for _, p := range s.Pauses {
		c.printf(c.stderr, "%s %s is paused: %s; `greenroom types resume %s` ends that\n", c.paint(c.stderr, yellow, "note:"), printable(p.Type), pauseText(p), printable(p.Type))
	}
	for _, l := range s.Limits {
		if l.Pool != "" {
			c.printf(c.stderr, "%s turns of %s run in the pool %s\n", c.paint(c.stderr, yellow, "note:"), printable(actor.LimitScope{Type: l.Type, Method: l.Method}.String()), printable(l.Pool))
		}
	}
}
