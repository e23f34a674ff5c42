package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/greenroom-run/greenroom/abi/manifest"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

type deployFlags struct {
	build buildFlags
	types []string
	// placements are TYPE=POLICY.
	placements []string
	pool       string
	force      bool
	dryRun     bool
	manifest   string
	message    string
}

func deployCommand(c *cli) *cobra.Command {
	var f deployFlags
	cmd := &cobra.Command{
		Use:   "deploy [DIR | FILE.wasm]",
		Short: "Build, upload and deploy a guest",
		Long: `Upload a module and let it serve its actor types from their next turn on. A
folder (default: this one) is built first.

What changes is shown first: types and methods that come and go, types that
another module served, another SDK. With --dry-run that is all: the module is
built, uploaded and checked, and serves nothing. What the server alone compares, such
as the messages of a Protobuf service, it warns of when it deploys, not with --dry-run.

If the server refuses the module, it lists everything that is wrong with it, and
keeps serving the types as before.

--placement puts a type elsewhere than its module says: any, ring,
ring:SERVERS, sticky, static:HOST,HOST,… or checkout:PARTITIONS. It stays when
other modules are deployed; TYPE=manifest ends it.

--pool has the turns of the types run in another pool than their module says. It is
a limit of each type, as those of "greenroom types limit", and stays when other
modules are deployed.

An Extism plug-in that has no manifest of its own gets one with --manifest. It
becomes part of the module that is uploaded: the same plug-in with another
manifest is another module.`,
		Example: `  greenroom deploy
  greenroom deploy --dry-run
  greenroom deploy build/shop.wasm --app shop --message 'v1.4: discounts'
  greenroom deploy shop --type Cart -o json | jq '.deployments[].generation'
  greenroom deploy shop --placement Cart=sticky --placement Till=static:till-1,till-2
  greenroom deploy reports --pool batch
  greenroom deploy plugin.wasm --manifest manifest.json`,
		Args: takes("[DIR | FILE.wasm]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return deploy(cmd.Context(), c, optional(args, "."), f)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringSliceVar(&f.types, "type", nil, "only this actor `type` of the module; may be repeated")
	flags.StringArrayVar(&f.placements, "placement", nil, "place the actors of a type, `TYPE=POLICY`; may be repeated")
	flags.StringVar(&f.pool, "pool", "", "the `pool` that turns of the types run in")
	flags.BoolVar(&f.force, "force", false, "also if the module has an older state schema than the one deployed")
	flags.BoolVar(&f.dryRun, "dry-run", false, "upload and check the module, show what would change, and change nothing")
	messageFlag(cmd, &f.message)
	flags.StringVar(&f.manifest, "manifest", "", "the manifest of an Extism plug-in, a JSON `file`")
	f.build.register(cmd)
	completeFlag(cmd, "type", complete{c}.types)
	return cmd
}

func deploy(ctx context.Context, c *cli, target string, f deployFlags) error {
	placements, err := placementsOf(f.placements)
	if err != nil {
		return err
	}
	path, err := moduleFile(ctx, c, target, f.build)
	if err != nil {
		return err
	}
	a, err := c.api()
	if err != nil {
		return err
	}
	module, err := upload(ctx, c, a, path, f.manifest)
	if err != nil {
		return err
	}
	if !c.wantsJSON() {
		c.printf(c.stderr, "%s uploaded %s (%s)\n", c.paint(c.stderr, green, "✓"), short(module.Digest), size(module.Size))
	}
	if err := checkPlacements(module, f.types, placements); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	change, err := changesOf(ctx, c, a, module, f.types, placements)
	if err != nil {
		return err
	}
	if f.dryRun {
		return showDryRun(c, module, change)
	}
	if !c.wantsJSON() {
		showChanges(c, change)
	}
	if f.pool != "" { // first, so that no turn of the new module runs elsewhere
		if err := setPools(ctx, c, a, deployedTypes(module, f.types), f.pool); err != nil {
			return err
		}
	}
	resp, err := unary(ctx, a.modules.Deploy, &greenroomv1.DeployRequest{
		App: c.app, Digest: module.Digest, Types: f.types, Placements: placements, Force: f.force, Message: f.message,
	})
	if err != nil {
		return err
	}
	if c.wantsJSON() {
		return writeDeployed(c, module, resp)
	}
	c.printf(c.stderr, "%s deployed to app %s\n", c.paint(c.stderr, green, "✓"), c.app)
	deploymentTable(c, resp.Deployments)
	showCapabilities(c, resp.Deployments)
	c.warnings(unsaid(resp.Warnings, change.warnings))
	noteAbsentServers(ctx, c, a, placements)
	return nil
}

// unsaid returns those of the server's warnings that are not of the same change as one that was
// shown before: the server alone compares services and states, and knows reminders and the other
// modules of the app.
func unsaid(warnings, said []string) []string {
	text := "\n" + strings.Join(said, "\n")
	return slices.DeleteFunc(slices.Clone(warnings), func(w string) bool {
		typ, what, _ := strings.Cut(w, ": ")
		method := strings.TrimPrefix(what, "the method ")
		switch {
		case strings.HasPrefix(what, "stays on module "):
			return strings.Contains(text, "\n"+typ+" is not in this module:")
		case method == what:
			return false
		case strings.Contains(method, " is gone; "):
			return strings.Contains(text, "\n"+typ+" loses ")
		default:
			method, _, _ = strings.Cut(method, " ")
			return strings.Contains(text, "\n"+method+" of "+typ+" is no longer read-only:")
		}
	})
}

// noteAbsentServers says which servers that a static placement names are not there: it is
// no error, since they may come.
func noteAbsentServers(ctx context.Context, c *cli, a *api, placements []*greenroomv1.TypePlacement) {
	var hosts []*greenroomv1.ClusterHost
	for _, p := range placements {
		names, static := strings.CutPrefix(p.Placement, "static:")
		if !static {
			continue
		}
		if hosts == nil {
			resp, err := unary(ctx, a.cluster.ListHosts, &greenroomv1.ListHostsRequest{})
			if err != nil {
				return // a server that is alone, or one that does not know now
			}
			hosts = resp.Hosts
		}
		for name := range strings.SplitSeq(names, ",") {
			if !slices.ContainsFunc(hosts, func(h *greenroomv1.ClusterHost) bool { return h.Name == name }) {
				c.warnings([]string{fmt.Sprintf("%s: no server has the name %s now; calls of its actors fail until one does (serve --name, `greenroom hosts list`)", p.Type, name)})
			}
		}
	}
}

const (
	// manifestPlacement is the policy that ends another one.
	manifestPlacement = "manifest"
	// statelessPlacement is the one that only modules choose.
	statelessPlacement = "stateless"
)

// placementsOf reads the values of --placement.
func placementsOf(values []string) ([]*greenroomv1.TypePlacement, error) {
	placements := make([]*greenroomv1.TypePlacement, len(values))
	for i, v := range values {
		typ, policy, ok := strings.Cut(v, "=")
		if !ok || typ == "" || policy == "" {
			return nil, usagef("--placement %q is not of the form TYPE=POLICY; give a type and any, ring, ring:SERVERS, sticky, static:HOST,HOST,…, checkout:PARTITIONS or manifest", v)
		}
		if policy != manifestPlacement {
			if _, err := manifest.ParsePlacement(policy); err != nil {
				return nil, usagef("--placement %q: the policy %v", v, err)
			}
		}
		placements[i] = &greenroomv1.TypePlacement{Type: typ, Placement: policy}
	}
	return placements, nil
}

// checkPlacements says which placement the server would refuse: --dry-run does not ask it.
func checkPlacements(m *greenroomv1.Module, types []string, placements []*greenroomv1.TypePlacement) error {
	deployed := deployedTypes(m, types)
	for _, p := range placements {
		at := slices.IndexFunc(m.Types, func(t *greenroomv1.ActorType) bool { return t.Name == p.Type })
		if at < 0 || !slices.Contains(deployed, p.Type) {
			return fmt.Errorf("--placement is for the type %q, which is not among those to deploy: %s", p.Type, strings.Join(deployed, ", "))
		}
		declared := m.Types[at].Placement
		if p.Placement != manifestPlacement && (p.Placement == statelessPlacement) != (declared == statelessPlacement) {
			return fmt.Errorf("--placement of %s is to be %s, and its code is for %s: whether a type has state is for its module to declare", p.Type, p.Placement, declared)
		}
	}
	return nil
}

// deployedTypes returns those of a module's types that are named; all if none is.
func deployedTypes(m *greenroomv1.Module, named []string) (types []string) {
	for _, t := range m.Types {
		if len(named) == 0 || slices.Contains(named, t.Name) {
			types = append(types, t.Name)
		}
	}
	return types
}

// setPools has the turns of types run in a pool, and leaves the rest of their limits as it is.
func setPools(ctx context.Context, c *cli, a *api, types []string, pool string) error {
	s, err := settings(ctx, c)
	if err != nil {
		return err
	}
	for _, typ := range types {
		l := &greenroomv1.TypeLimit{}
		if at := slices.IndexFunc(s.Limits, func(l *greenroomv1.TypeLimit) bool { return l.Type == typ && l.Method == "" }); at >= 0 {
			l = s.Limits[at]
		}
		if _, err := unary(ctx, a.settings.SetLimit, &greenroomv1.SetLimitRequest{
			App: c.app, Type: typ, Rate: l.Rate, Concurrency: l.Concurrency, Per: l.Per, Pool: pool,
		}); err != nil {
			return err
		}
	}
	return nil
}

// showDryRun says what a deployment would change.
func showDryRun(c *cli, module *greenroomv1.Module, change changes) error {
	if c.wantsJSON() {
		raw, err := messageJSON(module)
		if err != nil {
			return err
		}
		return writeJSON(c.stdout, struct {
			Module   json.RawMessage `json:"module"`
			Changes  []string        `json:"changes"`
			Warnings []string        `json:"warnings"`
		}{raw, append([]string{}, change.lines...), append([]string{}, change.warnings...)})
	}
	showChanges(c, change)
	c.printf(c.stderr, "nothing was deployed (--dry-run)\n")
	return nil
}

// moduleFile returns the module that target names, built if it is a folder.
func moduleFile(ctx context.Context, c *cli, target string, f buildFlags) (string, error) {
	info, err := os.Stat(target)
	if err != nil {
		return "", fmt.Errorf("find what to deploy: %w", err)
	}
	if !info.IsDir() {
		return target, nil
	}
	if !c.wantsJSON() {
		c.printf(c.stderr, "building %s\n", target)
	}
	r, err := build(ctx, c, target, "", f)
	return r.Path, err
}

func writeDeployed(c *cli, module *greenroomv1.Module, resp *greenroomv1.DeployResponse) error {
	out := struct {
		Module      json.RawMessage   `json:"module"`
		Deployments []json.RawMessage `json:"deployments"`
		Warnings    []string          `json:"warnings"`
	}{Warnings: append([]string{}, resp.Warnings...)}
	var err error
	if out.Module, err = messageJSON(module); err != nil {
		return err
	}
	if out.Deployments, err = messagesJSON(resp.Deployments); err != nil {
		return err
	}
	return writeJSON(c.stdout, out)
}
