package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/greenroom-run/greenroom/actor"
)

// Exit statuses.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130 // 128 and SIGINT, as shells have it
)

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
