package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// cli is one run of the command line: its console, the server that it works with, and the
// global flags. Each command is a function that takes it.
type cli struct {
	console
	endpoint
	app string
}

// readGlobals lets the environment speak where no flag did, and checks.
func (c *cli) readGlobals(cmd *cobra.Command) error {
	flags := cmd.Flags()
	c.fromEnv(flags, "server", "GREENROOM_SERVER", &c.server)
	c.fromEnv(flags, "token", "GREENROOM_TOKEN", &c.token)
	c.fromEnv(flags, "app", "GREENROOM_APP", &c.app)
	if c.output != outputTable && c.output != outputJSON {
		if c.output == outputCSV && cmd.Annotations[outputCSV] != "" {
			return actor.ValidateName("app", c.app)
		}
		wrong := c.output
		c.output = outputTable
		return usagef("--output is %q; give table or json, or csv where a command says so", wrong)
	}
	return actor.ValidateName("app", c.app)
}

// fromEnv sets a flag's value from the environment, unless the flag was given. It
// returns what names the value, for errors: the flag or the variable.
func (c *cli) fromEnv(flags *pflag.FlagSet, flag, env string, value *string) (source string) {
	if v := c.getenv(env); v != "" && !flags.Changed(flag) {
		*value = v
		return env
	}
	return "--" + flag
}

// withAPI runs a command that needs a server.
func (c *cli) withAPI(run func(cmd *cobra.Command, a *api, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a, err := c.api()
		if err != nil {
			return err
		}
		return run(cmd, a, args)
	}
}

// withActor runs a command that is about the actor that its first arguments name.
func (c *cli) withActor(run func(cmd *cobra.Command, a *api, key *greenroomv1.ActorKey, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		key, err := actorKey(c, args[0], args[1])
		if err != nil {
			return err
		}
		return c.withAPI(func(cmd *cobra.Command, a *api, args []string) error { return run(cmd, a, key, args) })(cmd, args)
	}
}

// actorKey makes a key in the app of --app, and checks it.
func actorKey(c *cli, typ, id string) (*greenroomv1.ActorKey, error) {
	if err := (actor.Key{App: c.app, Type: typ, ID: id}).Validate(); err != nil {
		return nil, err
	}
	return &greenroomv1.ActorKey{App: c.app, Type: typ, Id: id}, nil
}
