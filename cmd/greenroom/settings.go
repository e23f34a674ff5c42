package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/greenroom-run/greenroom/abi/manifest"
	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

func configCommand(c *cli) *cobra.Command {
	set := &cobra.Command{
		Use:     "set NAME=VALUE…",
		Short:   "Set configuration values",
		Long:    "Set configuration values of the app. Actors read them from their next turn on.",
		Example: "  greenroom config set region=eu currency=EUR --app shop",
		RunE: c.withAPI(func(cmd *cobra.Command, a *api, args []string) error {
			return setConfig(cmd.Context(), c, a, args)
		}),
	}
	list := &cobra.Command{
		Use: "list", Short: "List configuration values",
		Long:    "List the configuration values of the app.",
		Example: "  greenroom config list --app shop -o json",
		RunE: listSettings(c, "configuration values", "greenroom config set NAME=VALUE", []string{"NAME", "VALUE", "CHANGED"}, func(s *greenroomv1.GetSettingsResponse) (*greenroomv1.GetSettingsResponse, [][]string) {
			return &greenroomv1.GetSettingsResponse{Config: s.Config}, mapped(s.Config, func(v *greenroomv1.ConfigValue) []string {
				return []string{v.Name, v.Value, when(v.UpdatedAt)}
			})
		}),
	}
	unset := &cobra.Command{
		Use: "unset NAME…", Short: "Remove configuration values",
		Long:    "Remove configuration values from the app.",
		Example: "  greenroom config unset region --app shop",
		RunE: each(c, "removed %s\n", func(ctx context.Context, a *api, name string) error {
			_, err := unary(ctx, a.settings.UnsetConfig, &greenroomv1.UnsetConfigRequest{App: c.app, Name: name})
			return err
		}),
	}
	return group(&cobra.Command{
		Use: "config", Short: "Configuration values that actors read",
		Long:    "Set, list and remove the configuration values of an app. An actor reads those that\nits type declares.",
		Example: "  greenroom config set region=eu\n  greenroom config list",
	}, set, list, unset)
}

func setConfig(ctx context.Context, c *cli, a *api, pairs []string) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	for _, pair := range pairs {
		name, _, ok := strings.Cut(pair, "=")
		if !ok {
			return usagef("%q has no value; give NAME=VALUE", pair)
		}
		if err := actor.ValidateName("name", name); err != nil {
			return fmt.Errorf("%q: %w", pair, err)
		}
	}
	for _, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		if _, err := unary(ctx, a.settings.SetConfig, &greenroomv1.SetConfigRequest{App: c.app, Name: name, Value: value}); err != nil {
			return err
		}
		if !c.wantsJSON() {
			c.printf(c.stderr, "set %s of app %s\n", name, c.app)
		}
	}
	return nil
}

func secretsCommand(c *cli) *cobra.Command {
	set := &cobra.Command{
		Use:   "set NAME",
		Short: "Set a secret, read from the standard input",
		Long: `Set a secret of the app. The command asks for its value, or reads it from the standard
input, without one line break at the end. The value is never shown again.`,
		Example: `  greenroom secrets set stripe_key --app shop
  openssl rand -hex 32 | greenroom secrets set webhook_key`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.Contains(args[0], "=") {
				return usagef("a secret's value is not given on the command line, where other users see it: pipe it in, or let it be asked for")
			}
			if err := actor.ValidateName("name", args[0]); err != nil {
				return err
			}
			value, err := readSecret(c, args[0])
			if err != nil {
				return err
			}
			return each(c, "set %s\n", func(ctx context.Context, a *api, name string) error {
				_, err := unary(ctx, a.settings.SetSecret, &greenroomv1.SetSecretRequest{App: c.app, Name: name, Value: value})
				return err
			})(cmd, args)
		},
	}
	list := &cobra.Command{
		Use: "list", Short: "List secrets, without their values",
		Long:    "List the secrets of the app, without their values, and the key that each is kept\nwith.",
		Example: "  greenroom secrets list --app shop",
		RunE: listSettings(c, "secrets", "greenroom secrets set NAME", []string{"NAME", "KEY", "CHANGED"}, func(s *greenroomv1.GetSettingsResponse) (*greenroomv1.GetSettingsResponse, [][]string) {
			return &greenroomv1.GetSettingsResponse{Secrets: s.Secrets}, mapped(s.Secrets, func(v *greenroomv1.Secret) []string {
				key := v.KeyId
				if !v.Readable {
					key += " (this server does not have it)"
				}
				return []string{v.Name, key, when(v.UpdatedAt)}
			})
		}),
	}
	unset := &cobra.Command{
		Use: "unset NAME…", Short: "Remove secrets",
		Long:    "Remove secrets from the app.",
		Example: "  greenroom secrets unset stripe_key --app shop",
		RunE: each(c, "removed %s\n", func(ctx context.Context, a *api, name string) error {
			_, err := unary(ctx, a.settings.UnsetSecret, &greenroomv1.UnsetSecretRequest{App: c.app, Name: name})
			return err
		}),
	}
	return group(&cobra.Command{
		Use: "secrets", Short: "Secrets that actors read",
		Long:    "Set, list and remove the secrets of an app. Actors whose types declare\na secret can read it, and no other user can.",
		Example: "  greenroom secrets set stripe_key\n  greenroom secrets list",
	}, set, list, unset)
}

// maxSecret is the server's limit, and one byte more to pass it by.
const maxSecret = 64<<10 + 1

// readSecret reads a secret's value without showing it.
func readSecret(c *cli, name string) ([]byte, error) {
	var value []byte
	var err error
	if f, ok := c.stdin.(*os.File); ok && isTerminal(f) {
		c.printf(c.stderr, "Value of %s: ", name)
		value, err = term.ReadPassword(int(f.Fd()))
		c.printf(c.stderr, "\n")
	} else {
		value, err = io.ReadAll(io.LimitReader(c.stdin, maxSecret+2))
		value = bytes.TrimSuffix(bytes.TrimSuffix(value, []byte("\n")), []byte("\r"))
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the secret: %w", err)
	case len(value) == 0:
		return nil, usagef("the value is empty; pipe it in: printf %%s \"$VALUE\" | greenroom secrets set %s", name)
	}
	return value, nil
}

func grantsCommand(c *cli) *cobra.Command {
	var private bool
	add := &cobra.Command{
		Use: "add HOST…", Short: "Let actors send requests to hosts",
		Long: `Let the app's actors send HTTP requests to hosts that their types declare.
A host is a name, *.NAME for all names below it, an address, or * for all
hosts. The scheme is https unless the host begins with http://; add the port if it
is not the default of the scheme.

Addresses that are not public (this machine, private networks) are refused,
whatever name resolves to them, unless --private is given.`,
		Example: `  greenroom grants http add api.example.com '*.example.org' --app shop
  greenroom grants http add http://inventory.internal:8080 --private`,
		RunE: each(c, "granted %s\n", func(ctx context.Context, a *api, host string) error {
			_, err := unary(ctx, a.settings.GrantHTTP, &greenroomv1.GrantHTTPRequest{App: c.app, Host: host, Private: private})
			return err
		}),
	}
	add.Flags().BoolVar(&private, "private", false, "also allow addresses that are not public")
	remove := &cobra.Command{
		Use: "remove HOST…", Short: "Revoke grants",
		Long:    "Revoke grants of hosts.",
		Example: "  greenroom grants http remove api.example.com --app shop",
		RunE: each(c, "removed %s\n", func(ctx context.Context, a *api, host string) error {
			_, err := unary(ctx, a.settings.RevokeHTTP, &greenroomv1.RevokeHTTPRequest{App: c.app, Host: host})
			return err
		}),
	}
	list := &cobra.Command{
		Use: "list", Short: "List what the app may do",
		Long:    "List the hosts that the app's actors may send requests to.",
		Example: "  greenroom grants list --app shop",
		RunE: listSettings(c, "grants", "greenroom grants http add HOST", []string{"KIND", "HOST", "PRIVATE", "CHANGED"}, func(s *greenroomv1.GetSettingsResponse) (*greenroomv1.GetSettingsResponse, [][]string) {
			return &greenroomv1.GetSettingsResponse{Http: s.Http}, mapped(s.Http, func(v *greenroomv1.HTTPGrant) []string {
				return []string{"http", v.Host, yesNo(v.Private), when(v.UpdatedAt)}
			})
		}),
	}
	http := group(&cobra.Command{
		Use: "http", Short: "Hosts that actors send requests to",
		Long:    "Grant hosts to the app, or revoke the grants.",
		Example: "  greenroom grants http add api.example.com",
	}, add, remove)
	return group(&cobra.Command{
		Use: "grants", Short: "What the app's actors may do",
		Long:    "Grant an app what its actors may use beyond their state, and revoke it.",
		Example: "  greenroom grants http add api.example.com\n  greenroom grants list",
	}, list, http)
}

func settings(ctx context.Context, c *cli) (*greenroomv1.GetSettingsResponse, error) {
	a, err := c.api()
	if err != nil {
		return nil, err
	}
	return unary(ctx, a.settings.GetSettings, &greenroomv1.GetSettingsRequest{App: c.app})
}

// listSettings is a command that lists those settings of the app that part picks, for JSON
// and as rows. remedy adds one.
func listSettings(c *cli, what, remedy string, header []string, part func(s *greenroomv1.GetSettingsResponse) (*greenroomv1.GetSettingsResponse, [][]string)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		s, err := settings(cmd.Context(), c)
		if err != nil {
			return err
		}
		found, rows := part(s)
		switch {
		case c.wantsJSON():
			return c.writeMessage(found)
		case len(rows) == 0:
			c.printf(c.stderr, "app %s has no %s; add one with `%s`\n", c.app, what, remedy)
			return nil
		}
		c.table(header, rows)
		return nil
	}
}

// each runs a command that calls do for each of its arguments, and says what was done. It
// ends with the first error.
func each(c *cli, said string, do func(ctx context.Context, a *api, name string) error) func(*cobra.Command, []string) error {
	return c.withAPI(func(cmd *cobra.Command, a *api, names []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), apiTimeout)
		defer cancel()
		for _, name := range names {
			if err := do(ctx, a, name); err != nil {
				return err
			}
			if !c.wantsJSON() {
				c.printf(c.stderr, said, name)
			}
		}
		return nil
	})
}

// usesOf lists the capabilities that a deployment uses, with a ! before each that its app lacks.
func usesOf(d *greenroomv1.Deployment) string {
	var uses []string
	for _, u := range capabilityUses(d) {
		text := u.kind + ":" + u.name
		if u.missing {
			text = "!" + text
		}
		uses = append(uses, text)
	}
	return strings.Join(uses, " ")
}

// capabilityUse is one thing that a deployment uses.
type capabilityUse struct {
	kind, name string
	missing    bool
}

func capabilityUses(d *greenroomv1.Deployment) []capabilityUse {
	var uses []capabilityUse
	add := func(kind string, names, missing []string) {
		lacks := make(map[string]bool)
		for _, name := range missing {
			lacks[name] = true
		}
		for _, name := range names {
			uses = append(uses, capabilityUse{kind, name, lacks[name]})
		}
	}
	add("http", d.GetCapabilities().GetHttp(), d.GetMissing().GetHttp())
	add("config", d.GetCapabilities().GetConfig(), d.GetMissing().GetConfig())
	add("secret", d.GetCapabilities().GetSecrets(), d.GetMissing().GetSecrets())
	return uses
}

// remedies say how an app is given what a deployment lacks.
var remedies = map[string]string{
	"http": "greenroom grants http add %s", "config": "greenroom config set %s=VALUE", "secret": "greenroom secrets set %s",
}

// showCapabilities prints which capabilities the deployed types use, and the commands that grant
// the missing ones.
func showCapabilities(c *cli, ds []*greenroomv1.Deployment) {
	var missing []string
	seen := make(map[capabilityUse]bool)
	for _, d := range ds {
		if uses := usesOf(d); uses != "" {
			c.printf(c.stderr, "%s uses %s\n", d.GetType(), uses)
		}
		for _, u := range capabilityUses(d) {
			if !u.missing || seen[u] {
				continue
			}
			seen[u] = true
			command := fmt.Sprintf(remedies[u.kind], "'"+u.name+"'")
			if !strings.ContainsAny(u.name, "*[") {
				command = fmt.Sprintf(remedies[u.kind], u.name)
			}
			command += elsewhere(c) + " --app " + c.app
			if u.kind == "http" && anyHost(u.name) {
				command = strings.Replace(command, "'"+u.name+"'", "HOST…", 1) +
					"   # it declares " + u.name + ": grants of the hosts that it needs are enough"
			}
			missing = append(missing, command)
		}
	}
	if len(missing) == 0 {
		return
	}
	c.printf(c.stderr, "%s app %s was not given all of it (marked !):\n", c.paint(c.stderr, yellow, "!"), c.app)
	for _, line := range missing {
		c.printf(c.stderr, "  %s\n", line)
	}
}

// elsewhere returns the flag that other commands need to reach this command's server; empty for the
// default server.
func elsewhere(c *cli) string {
	if c.server == defaultServer {
		return ""
	}
	return " --server " + c.server
}

// anyHost reports whether a type declares that it may send to every host, for which
// a grant of any one host does.
func anyHost(declared string) bool {
	rule, err := manifest.ParseHostRule(declared)
	return err == nil && rule.Host == "*"
}

// noteWideGrants says which grants of hosts are wider than what the app's types
// declare, and which narrower ones are enough. It says nothing to users who may not see the
// grants.
func noteWideGrants(ctx context.Context, c *cli, types []*greenroomv1.ServedType) {
	var declared []string
	for _, t := range types {
		declared = append(declared, t.Deployment.GetCapabilities().GetHttp()...)
	}
	if len(declared) == 0 {
		return
	}
	given, err := settings(ctx, c)
	if err != nil {
		return
	}
	var granted []string
	for _, g := range given.Http {
		granted = append(granted, g.Host)
	}
	for _, w := range wideGrants(granted, declared) {
		c.printf(c.stderr, "%s app %s is granted %s, and its types declare no more of it than %s: a grant of that is enough\n",
			c.paint(c.stderr, yellow, "note:"), c.app, w.granted, strings.Join(w.enough, ", "))
	}
}

// wideGrant is a grant with the narrower ones that would do.
type wideGrant struct {
	granted string
	enough  []string
}

// wideGrants returns the grants that allow more than any declaration asks for. A grant that matches
// no declaration is not among them, since its module may be deployed later.
func wideGrants(granted, declared []string) []wideGrant {
	var wide []wideGrant
	for _, g := range granted {
		rule, err := manifest.ParseHostRule(g)
		if err != nil {
			continue
		}
		w, needed := wideGrant{granted: g}, false
		for _, d := range declared {
			asked, err := manifest.ParseHostRule(d)
			switch {
			case err != nil:
			case asked.Covers(rule): // all of it
				needed = true
			case rule.Covers(asked) && !slices.Contains(w.enough, d):
				w.enough = append(w.enough, d)
			}
		}
		if !needed && len(w.enough) > 0 {
			slices.Sort(w.enough)
			wide = append(wide, w)
		}
	}
	return wide
}
