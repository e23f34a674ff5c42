package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// Exit statuses.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130 // 128 and SIGINT, as shells have it
)

const defaultServer = "http://127.0.0.1:8080"

// cli is one run of the command line: its console, the server that it works with, and the
// global flags. Each command is a function that takes it.
type cli struct {
	console
	endpoint
	app string
}

// run runs one command line and returns the exit status. It touches nothing of
// the process but what it is given, so that tests can call it.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, getenv func(string) string) int {
	c := &cli{console: console{stdin: stdin, stdout: stdout, stderr: stderr, getenv: getenv}}
	root := rootCommand(c)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || isCanceled(err)) {
		return exitInterrupted
	}
	var word string
	if _, no := fmt.Sscanf(err.Error(), "unknown command %q", &word); no == nil && !isUsage(err) {
		err = unknownCommand(cmd, []string{word}) // cobra's own
	}
	showError(c, cmd, err)
	if isUsage(err) {
		return exitUsage
	}
	return exitFailed
}

// The groups of commands in the help.
const (
	groupDevelop = "develop"
	groupInspect = "inspect"
	groupOperate = "operate"
)

func rootCommand(c *cli) *cobra.Command {
	root := &cobra.Command{
		Use:   "greenroom",
		Short: "Durable virtual actors in WebAssembly",
		Long: `Greenroom hosts durable virtual actors, written in Go or Rust and compiled to
WebAssembly. This binary is the server and the tool to work with it.`,
		Example: `  greenroom new --lang go shop     # a guest project that builds at once
  greenroom dev shop               # serve it here, rebuild on change
  greenroom call Counter me Add '{"amount": 2}'`,
		Version:       binaryVersion(),
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return c.readGlobals(cmd)
		},
	}
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), "{{if .Runnable}}", `{{if and .Runnable (ne (index .Annotations "`+parent+`") "true")}}`, 1))
	root.AddGroup(
		&cobra.Group{ID: groupDevelop, Title: "Write and call actors:"},
		&cobra.Group{ID: groupInspect, Title: "Look after actors and modules:"},
		&cobra.Group{ID: groupOperate, Title: "Run and check servers:"},
	)
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommandGroupID(groupOperate)

	f := root.PersistentFlags()
	f.SortFlags = false
	f.StringVar(&c.server, "server", defaultServer, "server's `URL` (GREENROOM_SERVER)")
	f.StringVar(&c.token, "token", "", "bearer `token` of the API (GREENROOM_TOKEN)")
	f.StringVar(&c.app, "app", actor.DefaultApp, "`app` to work in (GREENROOM_APP)")
	f.StringVar(&c.caCert, "ca-cert", "", "`file` with the certificates to trust, in PEM (default: the system's)")
	f.StringVar(&c.clientCert, "client-cert", "", "`file` with this client's certificate, in PEM")
	f.StringVar(&c.clientKey, "client-key", "", "`file` with its private key, in PEM")
	f.StringVarP(&c.output, "output", "o", outputTable, "`format` of results and errors: table or json")
	f.BoolVar(&c.noColor, "no-color", false, "no colours (NO_COLOR)")
	completeFlag(root, "output", fixedCompletion(outputTable, outputJSON))

	root.AddCommand(
		inGroup(groupDevelop, newCommand(c), devCommand(c), buildCommand(c), deployCommand(c), callCommand(c), sendCommand(c), protoCommand(c), generateCommand(c))...)
	root.AddCommand(
		inGroup(groupInspect, actorsCommand(c), eventsCommand(c), subscriptionsCommand(c), remindersCommand(c), inboxCommand(c), deadLettersCommand(c), servicesCommand(c), appsCommand(c), typesCommand(c), modulesCommand(c), historyCommand(c), rollbackCommand(c), undeployCommand(c), logsCommand(c),
			configCommand(c), secretsCommand(c), grantsCommand(c))...)
	root.AddCommand(
		inGroup(groupOperate, serveCommand(c), hostsCommand(c), whereCommand(c), stickyCommand(c), placementCommand(c), bucketsCommand(c), storeCommand(c), doctorCommand(c), versionCommand(c))...)
	root.AddCommand(referenceCommand(c))
	takeArguments(root)
	root.SetCompletionCommandGroupID(groupOperate)
	return root
}

func inGroup(id string, cmds ...*cobra.Command) []*cobra.Command {
	for _, cmd := range cmds {
		cmd.GroupID = id
	}
	return cmds
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

// usageError is a command line that cannot be understood.
type usageError struct{ msg string }

func (e *usageError) Error() string { return e.msg }

// isUsage reports whether err is about the command line.
func isUsage(err error) bool {
	var usage *usageError
	return errors.As(err, &usage)
}

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// flagError explains what usually went wrong: a misspelt command, whose flags its parent does not
// know, or an actor ID or a number that begins with a dash.
func flagError(cmd *cobra.Command, err error) error {
	if errors.Is(err, pflag.ErrHelp) {
		return err
	}
	if cmd.HasSubCommands() && cmd.Flags().NArg() > 0 {
		return unknownCommand(cmd, cmd.Flags().Args())
	}
	var value *pflag.InvalidValueError
	if errors.As(err, &value) {
		if want := valuesOf(value.GetFlag().Value.Type()); want != "" {
			return usagef("--%s is %q; give %s", value.GetFlag().Name, value.GetValue(), want)
		}
	}
	msg := err.Error()
	if strings.HasPrefix(msg, "unknown") {
		msg += "; if it is an argument, put -- before the arguments"
	}
	return usagef("%s", msg)
}

// valuesOf says which values a type of flag takes; empty if its own error says so.
func valuesOf(typ string) string {
	switch typ {
	case "duration":
		return "a duration such as 90s, 1h30m or 250ms"
	case "uint", "uint16", "uint32", "uint64":
		return "a whole number, 0 or more"
	case "int", "int32", "int64", "count":
		return "a whole number"
	case "bool":
		return "true or false"
	}
	return ""
}

// nearest returns the one of names that a person who typed word probably meant;
// empty if none is near.
func nearest(word string, names []string) string {
	best, at := "", max(min(len(word)/2, 2), len(word)/3)+1
	for _, name := range names {
		if d := distance(strings.ToLower(word), strings.ToLower(name)); d < at {
			best, at = name, d
		}
	}
	return best
}

// distance is how many characters must be added, removed, changed or swapped with their
// neighbour to make b of a (Damerau and Levenshtein's optimal string alignment).
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range b {
		rows[0][j+1] = j + 1
	}
	for i := range len(a) {
		for j := range len(b) {
			change := rows[i][j]
			if a[i] != b[j] {
				change++
			}
			best := min(change, rows[i+1][j]+1, rows[i][j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				best = min(best, rows[i-1][j-1]+1)
			}
			rows[i+1][j+1] = best
		}
	}
	return rows[len(a)][len(b)]
}

// takeArguments has each command below cmd that says nothing else take the arguments that its
// usage names.
func takeArguments(cmd *cobra.Command) {
	for _, child := range cmd.Commands() {
		takeArguments(child)
		if child.Args == nil && !child.HasSubCommands() {
			child.Args = takes(strings.Fields(child.Use)[1:]...)
		}
	}
}

// takes checks the number of arguments against their names: a name in brackets is optional, and
// the last one may end in … for one argument or more.
func takes(names ...string) cobra.PositionalArgs {
	required, most := 0, len(names)
	for _, name := range names {
		if !strings.HasPrefix(name, "[") {
			required++
		}
		if strings.HasSuffix(name, "…") {
			most = math.MaxInt
		}
	}
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < required:
			return usagef("%s is missing", strings.TrimSuffix(names[len(args)], "…"))
		case len(args) > most && most == 0:
			return usagef("unexpected argument %q", args[0])
		case len(args) > most:
			return usagef("unexpected argument %q after %s; quote arguments that contain spaces", args[most], names[most-1])
		}
		return nil
	}
}

// parent is the annotation of a command that is nothing without a subcommand.
const parent = "parent"

// group makes cmd a mere parent: alone it shows its help, and an unknown
// subcommand is an error with suggestions.
func group(cmd *cobra.Command, children ...*cobra.Command) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return unknownCommand(cmd, args)
	}
	cmd.Annotations = map[string]string{parent: "true"}
	cmd.AddCommand(children...)
	return cmd
}

// unknownCommand refuses arguments of a command that has subcommands and takes no arguments.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	meant := ""
	for _, child := range cmd.Commands() {
		if !child.Hidden {
			names = append(names, child.Name())
		}
		if slices.Contains(child.SuggestFor, args[0]) {
			meant = child.Name()
		}
	}
	msg := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
	if near := cmp.Or(meant, nearest(args[0], names)); near != "" {
		msg += "; did you mean " + near + "?"
	}
	return usagef("%s", msg)
}
